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
from typing import Any, Final, NamedTuple

import structlog
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason, create_conn
from aiokafka.errors import KafkaError

from coordinator.backing.kafka.complaints import Complaints
from coordinator.runtime.clock import boot_ms
from coordinator.runtime.tasks import end, spawn
from protocol.carried import CarriedRequest, NoCommonVersionError
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

REQUEST_TIMEOUT_S: Final = 5.0
"""For an answer, a connection or a login. What holds an append or a Fetch up for longer is not waited for."""
CLIENT_ID: Final = "muster"
NO_LEADER: Final = -1
LEADERLESS_RETRY_S: Final = 0.5
SLOW_RETRY_S: Final = 1.0
"""After what does not get better soon: a broker that is too old, a bug of ours."""
WITH_LEADER_EPOCHS: Final = 7
"""The first version of Metadata that has them; from 4 on it may ask for a topic without having it made."""
WHILE_LEADERS_CHANGE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""What is answered for a moment whenever a partition is given a leader, that of a new topic too."""
KAFKA_NEEDED: Final = "4.1"
"""The first release of Apache Kafka that serves all versions which are asked for here (`versions.py`)."""

log = structlog.get_logger(__name__)


class BackingError(Exception):
    """The cluster cannot be used; the message is a sentence for the operator."""


class UnavailableError(BackingError):
    """A broker gave no answer. What was asked may have happened or not."""


class TooOldError(BackingError):
    """A broker does not serve the version that is needed. To ask it again soon does not help."""


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


class BrokerAddress(NamedTuple):
    """Where a broker is found."""

    host: str
    port: int


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
        self._is_closed = False
        self._brokers: dict[int, BrokerAddress] = {}
        self._leaders: dict[int, int] = {}
        self._leader_epochs: dict[int, int] = {}
        self._connections: dict[tuple[int, Lane], OpenConnection] = {}
        self._locks: dict[tuple[int, Lane], asyncio.Lock] = {}
        self._topic = ""
        self.cluster_id: str | None = None
        """The cluster's own; None until a broker has said it."""
        self._refreshing: asyncio.Task[None] | None = None
        self._complaints = Complaints(log, "who leads the logs on Kafka is as it was known")
        self.on_refreshed: Callable[[], None] = lambda: None
        """Called when leaders may have changed."""
        self.on_missing: Callable[[], None] = lambda: None
        """Called when a broker says that there is no such topic."""

    # Its life.

    async def start(self) -> None:
        """Find the brokers; those that are known stay where that fails. Raises BackingError."""
        client = AIOKafkaClient(bootstrap_servers=self._bootstrap, **self._arguments)
        try:
            await client.bootstrap()
            found = {
                int(broker.nodeId): BrokerAddress(broker.host, broker.port)
                for broker in client.cluster.brokers()
            }
        except (KafkaError, OSError, ValueError) as error:
            raise BackingError(f"no Kafka broker answers on {self._bootstrap}: {error}") from None
        finally:
            await client.close()
        if not found:  # A broker answers so before it has heard of any, of itself too.
            raise BackingError(
                f"the Kafka at {self._bootstrap} names none of its brokers yet: try again once it has started"
            )
        self._brokers = found

    async def close(self) -> None:
        """Close all connections, for good; what is not answered yet ends with UnavailableError."""
        self._is_closed = True
        await end(self._refreshing)
        for opened in self._connections.values():
            opened.connection.close()
        self._connections.clear()

    # Who leads what.

    @property
    def node_ids(self) -> list[int]:
        """The ids of the brokers, sorted."""
        return sorted(self._brokers)

    @property
    def brokers(self) -> Mapping[int, BrokerAddress]:
        """Where the brokers are, by id."""
        return self._brokers

    async def follow(self, topic: str) -> None:
        """Keep in touch with who leads the partitions of `topic`."""
        self._topic, self._leaders = topic, {}
        self.refresh_soon()
        assert self._refreshing is not None
        with suppress(TimeoutError):  # A topic that nobody leads yet is looked for on and on.
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await asyncio.shield(self._refreshing)

    def leader_of(self, partition: int) -> int | None:
        """The broker that leads a partition of the topic, as far as is known; None: none does."""
        leader = self._leaders.get(partition, NO_LEADER)
        return None if leader == NO_LEADER else leader

    def leader_epoch_of(self, partition: int) -> int:
        """In which epoch that broker leads it: brokers refuse what is asked of them in another."""
        return self._leader_epochs.get(partition, 0)

    def refresh_soon(self) -> None:
        """Ask who leads what, as what is known turned out to be of the past."""
        if not self._is_closed and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = spawn(self._refresh())

    async def _refresh(self) -> None:
        """Ask until each partition has a leader: without one nobody reads it, and nobody would ask again."""
        while True:
            try:
                with suppress(UnavailableError):  # Those who wait ask again, and say why.
                    await self._ask_who_leads()
                    self._complaints.over()
                self.on_refreshed()
            except BackingError as error:
                self._complaints.say(str(error))
            except Exception as error:  # A bug of ours; what is known of the leaders stays.
                self._complaints.bug(error)
            if self._leaders and NO_LEADER not in self._leaders.values():
                return
            await asyncio.sleep(LEADERLESS_RETRY_S)

    async def _ask_who_leads(self) -> None:
        # aiokafka's own question would have the cluster make a topic that was deleted.
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False
        )
        try:
            answer: MetadataResponse = await self.ask_any(request, min_version=WITH_LEADER_EPOCHS)
        except UnavailableError:
            await self._find_brokers_again()
            return
        self.cluster_id = answer.cluster_id
        if answer.brokers:
            self._brokers = {each.node_id: BrokerAddress(each.host, each.port) for each in answer.brokers}
        found = [
            partition
            for topic in answer.topics
            if topic.name == self._topic
            for partition in topic.partitions
        ]
        self._leaders = {each.partition_index: each.leader_id for each in found}
        self._leader_epochs = {each.partition_index: each.leader_epoch for each in found}
        if any(topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in answer.topics):
            self.on_missing()

    async def _find_brokers_again(self) -> None:
        """All may have moved to where only the name of the cluster leads."""
        try:
            await self.start()
        except BackingError as error:
            raise UnavailableError(str(error)) from None

    # Requests.

    async def open(self, node_id: int, lane: Lane) -> OpenConnection:
        """The connection to a broker, opened if it is not. Raises UnavailableError."""
        where = node_id, lane
        async with self._locks.setdefault(where, asyncio.Lock()):
            if self._is_closed:
                raise UnavailableError("this node is closed")
            opened = self._connections.get(where)
            if opened is None or not opened.connection.connected():
                opened = self._connections[where] = await self._connected(node_id)
            return opened

    async def _connected(self, node_id: int) -> OpenConnection:
        broker = self._brokers.get(node_id)
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
            where = f"the broker at {connection.host}:{connection.port}"
            raise TooOldError(too_old(where, error.name, error.offered, error.wanted)) from None
        except DecodeError as error:
            connection.close(reason=CloseReason.OUT_OF_SYNC)
            raise BackingError(f"{name}: the answer makes no sense: {error}") from None

    async def ask_any(self, message: Any, *, min_version: int = 0, max_version: int | None = None) -> Any:
        """`ask` of any broker that answers, and serves this."""
        reason: BackingError = UnavailableError("no broker of the cluster is known")
        for node_id in self.node_ids:
            try:
                return await self.ask(node_id, message, min_version=min_version, max_version=max_version)
            except (UnavailableError, TooOldError) as error:
                reason = error
        raise reason


def too_old(broker: str, api: str, offered: tuple[int, int], wanted: tuple[int, int]) -> str:
    """The sentence about a broker that serves no version of an API which is needed."""
    lowest, highest = offered
    serves = f"versions {lowest} to {highest} of {api}" if highest >= 0 else f"no {api}"
    return (
        f"{broker} serves {serves}, and version {wanted[0]} is needed: the log needs brokers of "
        f"Apache Kafka {KAFKA_NEEDED} or later"
    )


def error_of(code: int) -> ErrorCode:
    """The error of this code; one that only later versions of Kafka know is one of the server's."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _words(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
