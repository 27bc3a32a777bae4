"""Where clients of the gateway find brokers and nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.topics.placement import Placement


@dataclass(frozen=True, slots=True)
class Place:
    """A broker or node, as a client reaches it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class BrokerPorts(Protocol):
    """The ports behind which the brokers are."""

    def place_of(self, broker_id: int) -> tuple[str, int] | None:
        """Host and port for clients; None for a broker that is not known yet."""

    def learn(self, brokers: Iterable[Place]) -> None:
        """Know that the brokers are there, at addresses of their own."""


class Addresses:
    """What answers say in place of the brokers' own addresses; nodes are those of the gateway's listener."""

    def __init__(self, ports: BrokerPorts, placement: Placement, listener: str) -> None:
        self._ports = ports
        self._placement = placement
        self._listener = listener

    def of_broker(self, broker_id: int) -> tuple[str, int] | None:
        return self._ports.place_of(broker_id)

    def behind_gateway(self, brokers: Sequence[Place]) -> list[Place]:
        """The brokers at ports of the gateway, and the nodes behind them. One without a port yet is left out."""
        self._ports.learn(brokers)
        found = []
        for broker in brokers:
            if (place := self.of_broker(broker.node_id)) is not None:
                found.append(Place(broker.node_id, *place, broker.rack))
        return found + self.nodes()

    def nodes(self) -> list[Place]:
        """The nodes that clients can be sent to."""
        nodes = [node for node in self._placement.nodes if node.is_on(self._listener)]
        return [Place(node.node_id, *node.endpoint_for(self._listener), node.rack) for node in nodes]
