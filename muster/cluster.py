"""One connection to a Kafka cluster for the command line: our typed messages over aiokafka's connections.

aiokafka finds the brokers and keeps the sockets; its own message classes stop at old versions, so the
requests sent here are `protocol`'s, each at the newest version that both sides know. Whatever goes wrong
comes out as a `ClusterError` in one sentence. It knows no groups: see `groups.admin`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import BrokerResponseError, KafkaError, NodeNotReadyError

from muster.client_properties import DEFAULT_BOOTSTRAP as DEFAULT_BOOTSTRAP
from muster.client_properties import ClientSettings
from muster.connection_failures import Failures, bootstrap_sentence, failure_sentence, hear_aiokafka, in_words
from muster.sentences import shown_id
from protocol.carried import CarriedRequest, NoCommonVersionError
from protocol.errors import DecodeError, EncodeError, ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

RETRY_EVERY_S: Final = 0.2
CLOSE_TIMEOUT_S: Final = 2.0
TEMPORARY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Answer = TypeVar("Answer")


class ClusterError(Exception):
    """The cluster cannot be reached, or has refused a request; the message is a sentence for the user."""


class UnreachableError(ClusterError):
    """A broker gave no answer."""


class UnspokenError(ClusterError):
    """The broker offers no version of a request that we speak."""


class RefusedError(ClusterError):
    """The cluster answered with an error code."""

    def __init__(self, what: str, error_code: int) -> None:
        self.error = ErrorCode(error_code)
        super().__init__(f"{what}: the cluster answers {self.error.name}")


def check(what: str, error_code: int) -> None:
    """Raise RefusedError unless `error_code` is NONE; `what` names the operation, as "listing groups"."""
    if error_code != ErrorCode.NONE:
        raise RefusedError(what, error_code)


class Cluster:
    """A connection to a cluster, made by `connected`."""

    def __init__(
        self, client: AIOKafkaClient, bootstrap: str, settings: ClientSettings, failures: Failures
    ) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._settings = settings
        self._failures = failures

    @property
    def settings(self) -> ClientSettings:
        """How the cluster was connected to."""
        return self._settings

    @property
    def patience_s(self) -> float:
        """For how long a coordinator is asked again that is not available yet."""
        return self._settings.timeout_ms / 1_000

    @property
    def node_ids(self) -> list[int]:
        """The ids of the brokers in the cluster's metadata, sorted."""
        return sorted(broker.nodeId for broker in self._client.cluster.brokers())

    def address(self, node_id: int) -> str:
        """`host:port` of a broker, as the cluster advertises it."""
        broker = self._client.cluster.broker_metadata(node_id)
        return f"{broker.host}:{broker.port}" if broker else "unknown"

    async def send(
        self, node_id: int, message: Any, max_version: int | None = None, min_version: int = 0
    ) -> Any:
        """Send one request of `protocol.messages` and return its answer. Raises ClusterError."""
        name = type(message).__name__
        self._failures.listen()
        try:
            return await self._client.send(node_id, CarriedRequest(message, max_version, min_version))
        except (TimeoutError, KafkaError, OSError) as error:
            cause = (isinstance(error, NodeNotReadyError) and self._failures.of_node(node_id)) or error
            reason = failure_sentence(self.address(node_id), cause, self._settings)
            raise UnreachableError(f"{name}: broker {node_id}: {reason}") from None
        except NoCommonVersionError as error:
            raise UnspokenError(str(error)) from None
        except EncodeError as error:  # A text that is longer than the protocol's strings may be.
            raise ClusterError(f"{name} cannot be sent: {error}") from None
        except DecodeError as error:
            raise ClusterError(f"{name}: the answer of broker {node_id} makes no sense: {error}") from None

    async def send_to_any(self, message: Any, max_version: int | None = None, min_version: int = 0) -> Any:
        """Send a request that any broker can answer, and return the response; one that is down is passed over.

        Raises ClusterError, of the last broker if none can be reached.
        """
        *others, last = self.node_ids
        for node_id in others:
            try:
                return await self.send(node_id, message, max_version, min_version)
            except UnreachableError:
                continue
        return await self.send(last, message, max_version, min_version)

    async def coordinator(self, group_id: str) -> int:
        """The node id of the group's coordinator. Waits while it is not available yet. Raises ClusterError."""

        async def ask() -> int:
            request = FindCoordinatorRequest(key=group_id)
            answer: FindCoordinatorResponse = await self.send_to_any(request, max_version=3)
            check(f"looking for the coordinator of group {shown_id(group_id)}", answer.error_code)
            return answer.node_id

        return await retried(ask, self.patience_s)

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[AIOKafkaProducer]:
        """An idempotent producer, on connections of its own. Raises ClusterError if it cannot be connected."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            enable_idempotence=True,
            **self._settings.client_arguments(),
        )
        try:
            await self._started(producer.start)
            yield producer
        finally:
            await producer.stop()

    @asynccontextmanager
    async def reader(self, *, resets: bool = True) -> AsyncIterator[AIOKafkaConsumer]:
        """A consumer without a group, on connections of its own: it reads records, which `send` does not.

        Without `resets` it raises OffsetOutOfRangeError for an offset that the log lacks, and goes nowhere else.
        """
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="latest" if resets else "none",
            **self._settings.client_arguments(),
        )
        try:
            await self._started(consumer.start)
            yield consumer
        finally:
            await consumer.stop()

    async def _started(self, start: Callable[[], Awaitable[None]]) -> None:
        """Start a client with connections of its own. Raises UnreachableError if no broker takes it."""
        try:
            await self._failures.heard_during(start)
        except KafkaError:
            sentence = await bootstrap_sentence(self._bootstrap, self._failures, self._settings)
            if sentence is None:
                raise
            raise UnreachableError(sentence) from None


def is_not_available_yet(error: Exception) -> bool:
    """Whether it is that of a coordinator that may be there in a moment."""
    return isinstance(error, RefusedError) and error.error in TEMPORARY


async def retried(
    ask: Callable[[], Awaitable[Answer]],
    patience_s: float,
    is_temporary: Callable[[Exception], bool] = is_not_available_yet,
) -> Answer:
    """Return what `ask` returns; repeat it for so long while its errors are temporary."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return await ask()
        except (RefusedError, KafkaError) as error:
            if not is_temporary(error) or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(RETRY_EVERY_S)


@asynccontextmanager
async def connected(bootstrap: str, settings: ClientSettings | None = None) -> AsyncIterator[Cluster]:
    """Connect to the cluster behind `bootstrap` (host:port, several with commas). Raises ClusterError."""
    hear_aiokafka()
    settings = settings or ClientSettings()
    client = AIOKafkaClient(bootstrap_servers=bootstrap, **settings.client_arguments())
    failures = Failures()
    try:
        await failures.heard_during(client.bootstrap)
        if not client.cluster.brokers():
            raise ClusterError(f"{bootstrap} answers, but its metadata names no broker")
        yield Cluster(client, bootstrap, settings, failures)
    except BrokenPipeError:
        raise  # Of our own output: one of a connection is a KafkaError.
    except (KafkaError, OSError, ValueError) as error:
        sentence = await bootstrap_sentence(bootstrap, failures, settings)
        raise ClusterError(sentence or _unheard(bootstrap, error)) from None
    finally:
        await _close(client)


async def _close(client: AIOKafkaClient) -> None:
    """Close it, but do not wait for that for long: whoever interrupts a command wants it to end.

    aiokafka cancels a task once and waits for its end; before Python 3.12 `asyncio.wait_for` may take no notice of
    a cancellation that comes with the result.
    """
    done, _ = await asyncio.wait({asyncio.ensure_future(client.close())}, timeout=CLOSE_TIMEOUT_S)
    for closed in done:
        closed.result()


def _unheard(bootstrap: str, error: Exception) -> str:
    """The sentence for an error of which the library's log has nothing."""
    if isinstance(error, BrokerResponseError):
        return f"{bootstrap}: {in_words(error)}"
    reason = in_words(error) if isinstance(error, KafkaError) else error
    return f"no Kafka broker answers on {bootstrap} ({reason})"
