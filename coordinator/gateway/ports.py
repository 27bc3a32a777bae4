"""The ports behind which the brokers of the other cluster are, one for each on this node.

A broker's port is the first one and its id: so it is the same after each start, and operators know it beforehand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from coordinator.gateway.addresses import Place
from coordinator.runtime.tasks import spawn
from coordinator.server.server import BindError

PORT_MAX: Final = 65_535

log = structlog.get_logger("muster.gateway")

OpenPort = Callable[[int, int], Awaitable[tuple[str, int]]]
"""Takes a broker's id and a port (0: any free one), and opens it; returns what clients connect to. BindError."""


class Ports:
    """Knows the brokers, and has a port opened for each. All methods run on the event-loop thread."""

    def __init__(self, open_port: OpenPort, first_port: int, brokers: Iterable[Place]) -> None:
        """With a `first_port` of 0 brokers get any free ports; `open` opens those of `brokers`."""
        self._open_port = open_port
        self._first_port = first_port
        self._brokers = {broker.node_id: broker for broker in brokers}
        self._places: dict[int, tuple[str, int]] = {}
        self._opening = set(self._brokers)
        self._complained: set[int] = set()

    async def open(self) -> None:
        """Open a port for each broker that is known. Raises BindError."""
        for broker_id in sorted(self._opening):
            self._places[broker_id] = await self._open_port(broker_id, self._port_of(broker_id))
            self._opening.discard(broker_id)

    def learn(self, brokers: Iterable[Place]) -> None:
        """Know where the brokers are now; one that is new has its port soon."""
        for broker in brokers:
            self._brokers[broker.node_id] = broker
            if broker.node_id not in self._places and broker.node_id not in self._opening:
                self._opening.add(broker.node_id)
                spawn(self._open_later(broker.node_id))

    def place_of(self, broker_id: int) -> tuple[str, int] | None:
        """Host and port for clients; None for a broker without a port."""
        return self._places.get(broker_id)

    async def connect(self, broker_id: int, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """Connect to a broker. Raises OSError."""
        broker = self._brokers[broker_id]
        made, _ = await asyncio.get_running_loop().create_connection(protocol, broker.host, broker.port)
        return made

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers that are known, sorted."""
        return sorted(self._brokers)

    def _port_of(self, broker_id: int) -> int:
        port = self._first_port + broker_id if self._first_port else 0
        if port > PORT_MAX:
            raise BindError(
                f"broker {broker_id} has no port: muster.gateway.first.port={self._first_port} and its id are "
                f"more than {PORT_MAX}"
            )
        return port

    async def _open_later(self, broker_id: int) -> None:
        try:
            self._places[broker_id] = await self._open_port(broker_id, self._port_of(broker_id))
            self._complained.discard(broker_id)
        except BindError as error:
            if broker_id not in self._complained:
                self._complained.add(broker_id)
                log.error("clients cannot reach a broker", broker_id=broker_id, reason=str(error))
        finally:
            self._opening.discard(broker_id)
