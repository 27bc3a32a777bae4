"""The Kafka cluster that has the logs: its brokers, who leads what, and requests over aiokafka's connections.

aiokafka bootstraps and follows the cluster's metadata; the connections are ours to open, a few for each broker,
since what waits in one (a Fetch, for news) must not hold up what is sent in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason, create_conn
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from coordinator.backing.kafka.tasks import spawn
from coordinator.runtime.clock import boot_ms
from protocol.carried import CarriedRequest, NoCommonVersionError
from protocol.errors import DecodeError

REQUEST_TIMEOUT_S: Final = 5.0
"""For an answer, a connection or a login. What holds an append or a Fetch up for longer is not waited for."""
CLIENT_ID: Final = "muster"
NO_LEADER: Final = -1


class BackingError(Exception):
    """The cluster cannot be used; the message is a sentence for the operator."""


class UnavailableError(BackingError):
    """A broker gave no answer. What was asked may have happened or not."""


class Lane(IntEnum):
    """What a connection to a broker is for."""

    ASK = 0
    APPEND = 1
    TAIL = 2


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """A connection that has shaken hands, and when."""

    connection: AIOKafkaConnection
    opened_ms: int


class BackingCluster:
    """One cluster and the one topic of it that is followed. `start` before anything else, `close` at the end.

    `security` are aiokafka's arguments for TLS and SASL, as AIOKafkaClient has them.
    """

    def __init__(self, bootstrap: str, security: Mapping[str, Any] | None = None) -> None:
        self._bootstrap = bootstrap
        self._arguments = {
            "client_id": CLIENT_ID,
            "request_timeout_ms": int(REQUEST_TIMEOUT_S * 1_000),
            **(security or {}),
        }
        self._client: AIOKafkaClient | None = None
        self._connections: dict[tuple[int, Lane], OpenConnection] = {}
        self._locks: dict[tuple[int, Lane], asyncio.Lock] = {}
        self._topic = ""
        self._refreshing: asyncio.Task[None] | None = None
        self.on_refreshed: Callable[[], None] = lambda: None
        """Called when leaders may have changed."""

    # Its life.

    async def start(self) -> None:
        """Find the brokers. Raises BackingError."""
        client = AIOKafkaClient(bootstrap_servers=self._bootstrap, **self._arguments)
        try:
            await client.bootstrap()
        except (KafkaError, OSError, ValueError) as error:
            await client.close()
            raise BackingError(f"no Kafka broker answers on {self._bootstrap}: {error}") from None
        self._client = client

    async def close(self) -> None:
        """Close all connections; what is not answered yet ends with UnavailableError."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await self._refreshing
        for opened in self._connections.values():
            opened.connection.close()
        self._connections.clear()
        if self._client is not None:
            await self._client.close()

    # Who leads what.

    @property
    def _metadata(self) -> AIOKafkaClient:
        assert self._client is not None, "start() comes first"
        return self._client

    @property
    def node_ids(self) -> list[int]:
        """The ids of the brokers, sorted."""
        return sorted(broker.nodeId for broker in self._metadata.cluster.brokers())

    async def follow(self, topic: str) -> None:
        """Keep in touch with who leads the partitions of `topic`."""
        self._topic = topic
        self._metadata.add_topic(topic)
        await self._metadata.force_metadata_update()
        self.on_refreshed()

    def leader_of(self, partition: int) -> int | None:
        """The broker that leads a partition of the topic, as far as is known; None: none does."""
        leader = self._metadata.cluster.leader_for_partition(TopicPartition(self._topic, partition))
        return None if leader in (None, NO_LEADER) else int(leader)

    def refresh_soon(self) -> None:
        """Ask who leads what, as what is known turned out to be of the past."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = spawn(self._refresh())

    async def _refresh(self) -> None:
        # False where no broker answered: those who wait ask again.
        await self._metadata.force_metadata_update()
        self.on_refreshed()

    # Requests.

    async def open(self, node_id: int, lane: Lane) -> OpenConnection:
        """The connection to a broker, opened if it is not. Raises UnavailableError."""
        where = node_id, lane
        async with self._locks.setdefault(where, asyncio.Lock()):
            opened = self._connections.get(where)
            if opened is None or not opened.connection.connected():
                opened = self._connections[where] = await self._connected(node_id)
            return opened

    async def _connected(self, node_id: int) -> OpenConnection:
        broker = self._metadata.cluster.broker_metadata(node_id)
        if broker is None:
            raise UnavailableError(f"broker {node_id} is not in the cluster's metadata")
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                connection = await create_conn(broker.host, broker.port, **self._arguments)
        except (OSError, KafkaError) as error:  # A TimeoutError is an OSError.
            raise UnavailableError(
                f"broker {node_id}, {broker.host}:{broker.port}: {_words(error)}"
            ) from None
        return OpenConnection(connection, boot_ms())

    async def ask(
        self,
        node_id: int,
        message: Any,
        lane: Lane = Lane.ASK,
        *,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """Send a request and return its answer. Raises UnavailableError; BackingError if it is not understood."""
        opened = await self.open(node_id, lane)
        return await self.ask_over(opened, message, min_version=min_version, max_version=max_version)

    async def ask_over(
        self, opened: OpenConnection, message: Any, *, min_version: int = 0, max_version: int | None = None
    ) -> Any:
        """`ask`, over this connection and no other: one without an answer in time is closed."""
        connection, name = opened.connection, type(message).__name__
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                return await connection.send(CarriedRequest(message, max_version, min_version))
        except (OSError, KafkaError) as error:
            connection.close(reason=CloseReason.CONNECTION_BROKEN)
            where = f"{connection.host}:{connection.port}"
            raise UnavailableError(f"{name}: {where}: {_words(error)}") from None
        except NoCommonVersionError as error:
            raise BackingError(str(error)) from None
        except DecodeError as error:
            connection.close(reason=CloseReason.OUT_OF_SYNC)
            raise BackingError(f"{name}: the answer makes no sense: {error}") from None

    async def ask_any(self, message: Any, *, min_version: int = 0, max_version: int | None = None) -> Any:
        """`ask` of any broker that answers."""
        *others, last = self.node_ids
        for node_id in others:
            with suppress(UnavailableError):
                return await self.ask(node_id, message, min_version=min_version, max_version=max_version)
        return await self.ask(last, message, min_version=min_version, max_version=max_version)


def _words(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
