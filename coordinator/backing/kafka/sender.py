"""Sending batches: one Produce at a time to each broker, with what all of its partitions have to send.

A batch goes out over a connection only if the partition has been read to its end, at the same broker, since the
connection was opened. A machine may stand still for longer than the cluster remembers whom it fences, its clocks
with it; its connections do not outlive that, and what it reads over the next shows it who has claimed the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import structlog

from coordinator.backing.events import AppendError
from coordinator.backing.kafka.cluster import (
    SLOW_RETRY_S,
    WHILE_LEADERS_CHANGE,
    BackingCluster,
    BackingError,
    Lane,
    OpenConnection,
    TooOldError,
    UnavailableError,
    error_of,
)
from coordinator.backing.kafka.complaints import Complaints
from coordinator.backing.kafka.fetched import Fetched
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.runtime.tasks import end, spawn
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

ALL_REPLICAS: Final = -1
PRODUCE_BY_ID: Final = 13
"""The first version that names a topic by its id: one that was made again is not written to."""
PRODUCE_TIMEOUT_MS: Final = 3_000
"""For so long the leader waits for the other replicas before it answers that it does not know."""

FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
NOT_TO_BE_SENT_AGAIN: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
    }
)
"""The log is not what this node takes it for, or the batch not what the log takes."""

log = structlog.get_logger(__name__)

Outcome = AppendError | int
"""Why a batch was not acknowledged, or its base offset."""


def produce_request(topic: BackingTopic, batches: Mapping[int, bytes]) -> ProduceRequest:
    """A request to append one batch to each of these partitions, for good."""
    parts = [PartitionProduceData(index=partition, records=data) for partition, data in batches.items()]
    of_topic = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=parts)
    return ProduceRequest(acks=ALL_REPLICAS, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[of_topic])


def outcome_of(result: PartitionProduceResponse) -> Outcome:
    """What an answer says of a batch."""
    error = error_of(result.error_code)
    if error is ErrorCode.NONE:
        return result.base_offset
    if error in FENCED:
        return AppendError.FENCED
    return AppendError.OUT_OF_SEQUENCE if error in NOT_TO_BE_SENT_AGAIN else AppendError.RETRIABLE


class Appending(NamedTuple):
    """A batch to send."""

    data: bytes
    done: Callable[[Outcome], None]
    """Called once with the outcome, unless it is not wanted any more before it is sent."""
    is_wanted: Callable[[], bool]
    """Whether it is still to be sent: what is read meanwhile may say that the log is another node's."""


CatchUp = Callable[[OpenConnection, int, Iterable[int]], Awaitable[None]]
"""Reads on, over the connection to a broker, in some of its partitions. Raises UnavailableError."""


class Sender:
    """`send` takes one batch of a partition at a time."""

    def __init__(self, cluster: BackingCluster, topic: BackingTopic, catch_up: CatchUp) -> None:
        self._cluster = cluster
        self._topic = topic
        self._catch_up = catch_up
        self._waiting: dict[int, dict[int, Appending]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # When the newest Fetch to the end was sent, by partition and broker.
        self._read_ms: dict[tuple[int, int], int] = {}
        self._is_closed = False
        self._complaints = Complaints(log, "appends to Kafka failed", topic=topic.name)

    def send(self, partition: int, batch: Appending) -> None:
        """Send a batch to the partition's leader; one that still waits to be sent is replaced."""
        if self._is_closed:
            return
        leader = self._cluster.leader_of(partition)
        if leader is None:
            self._cluster.refresh_soon()
            asyncio.get_running_loop().call_soon(batch.done, AppendError.RETRIABLE)
            return
        self._waiting.setdefault(leader, {})[partition] = batch
        task = self._tasks.get(leader)
        if task is None or task.done():
            self._tasks[leader] = spawn(self._run(leader))

    def on_fetched(self, partition: int, read: Fetched) -> None:
        """Note how far was read."""
        if read.is_whole:
            self._read_ms[partition, read.node_id] = read.sent_ms

    async def warm_up(self, node_id: int) -> None:
        """Open the connection that a first batch would have to wait for."""
        with suppress(UnavailableError):  # Whoever sends is told.
            await self._cluster.open(node_id, Lane.APPEND)

    async def close(self) -> None:
        """Send nothing more, and call back nobody."""
        self._is_closed = True
        await end(*self._tasks.values())

    async def _run(self, node_id: int) -> None:
        """Send what waits for this broker, until nothing does."""
        while self._waiting.get(node_id):
            taken: dict[int, Appending] = {}
            try:
                await self._send_what_waits(node_id, taken)
            except BackingError as error:
                self._complaints.say(str(error), f"broker {node_id}")
                if isinstance(error, TooOldError):
                    await asyncio.sleep(SLOW_RETRY_S)
            except Exception as error:  # A bug of ours; what waits for an outcome has to have one.
                self._complaints.bug(error, f"broker {node_id}")
                await asyncio.sleep(SLOW_RETRY_S)
            else:
                continue
            self._fail(taken or self._waiting.pop(node_id, {}))

    async def _send_what_waits(self, node_id: int, taken: dict[int, Appending]) -> None:
        """Send it once. What has no outcome yet is in `taken` or waits still. Raises BackingError."""
        opened = await self._cluster.open(node_id, Lane.APPEND)
        known = list(self._waiting[node_id])  # What comes while these are read has a turn of its own.
        unread = [each for each in known if not self._is_read(each, node_id, opened)]
        if unread:
            await self._catch_up(opened, node_id, unread)
        waiting = self._waiting[node_id]
        taken.update((each, batch) for each in known if (batch := waiting.pop(each)).is_wanted())
        unready = {each: taken.pop(each) for each in list(taken) if not self._is_read(each, node_id, opened)}
        for partition in unready:
            self._complaints.say_if_it_lasts("the log is not read to its end", _about(partition))
        self._fail(unready)
        if taken:
            await self._produce(opened, taken)
        self._complaints.over(f"broker {node_id}")

    def _is_read(self, partition: int, node_id: int, opened: OpenConnection) -> bool:
        """Whether the partition was read to its end, at this broker, since the connection was opened."""
        return self._read_ms.get((partition, node_id), -1) >= opened.opened_ms

    async def _produce(self, opened: OpenConnection, ready: dict[int, Appending]) -> None:
        request = produce_request(self._topic, {partition: each.data for partition, each in ready.items()})
        answer = await self._cluster.ask_over(opened, request, min_version=PRODUCE_BY_ID)
        for each in answer.responses:
            for result in each.partition_responses:
                outcome = self._outcome(result)
                if (batch := ready.pop(result.index, None)) is not None:
                    _tell(batch, outcome)
        for partition in ready:
            self._complaints.say("the answer does not name it", _about(partition))
        self._fail(ready)

    def _outcome(self, result: PartitionProduceResponse) -> Outcome:
        outcome, error = outcome_of(result), error_of(result.error_code)
        if isinstance(outcome, int):
            self._complaints.over(_about(result.index))
        elif error in WHILE_LEADERS_CHANGE:
            self._complaints.say_if_it_lasts(error.name, _about(result.index))
        elif outcome is not AppendError.FENCED:
            self._complaints.say(error.name, _about(result.index))
        if outcome is AppendError.RETRIABLE:
            self._cluster.refresh_soon()
        return outcome

    def _fail(self, waiting: dict[int, Appending]) -> None:
        """The outcome of these is unknown, or they were not sent."""
        if not waiting:
            return
        self._cluster.refresh_soon()
        for each in waiting.values():
            _tell(each, AppendError.RETRIABLE)


def _about(partition: int) -> str:
    return f"partition {partition}"


def _tell(batch: Appending, outcome: Outcome) -> None:
    """What a shard makes of it must not keep others from hearing of theirs."""
    try:
        batch.done(outcome)
    except Exception:  # A bug of ours; the others of this request hear of theirs.
        log.exception("a shard cannot take the outcome of its append")
