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
    BackingCluster,
    BackingError,
    Lane,
    OpenConnection,
    UnavailableError,
    error_of,
)
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
            try:
                opened = await self._cluster.open(node_id, Lane.APPEND)
                known = list(self._waiting[node_id])  # What comes while these are read has a turn of its own.
                unread = [each for each in known if not self._is_read(each, node_id, opened)]
                if unread:
                    await self._catch_up(opened, node_id, unread)
            except BackingError as error:
                self._fail(self._waiting.pop(node_id), str(error))
                continue
            waiting = self._waiting[node_id]
            taken = {partition: waiting.pop(partition) for partition in known}
            batches = {partition: batch for partition, batch in taken.items() if batch.is_wanted()}
            ready = {
                each: batches.pop(each) for each in list(batches) if self._is_read(each, node_id, opened)
            }
            self._fail(batches, "the log is not read to its end")
            if ready:
                await self._produce(node_id, opened, ready)

    def _is_read(self, partition: int, node_id: int, opened: OpenConnection) -> bool:
        """Whether the partition was read to its end, at this broker, since the connection was opened."""
        return self._read_ms.get((partition, node_id), -1) >= opened.opened_ms

    async def _produce(self, node_id: int, opened: OpenConnection, ready: dict[int, Appending]) -> None:
        request = produce_request(self._topic, {partition: each.data for partition, each in ready.items()})
        try:
            answer = await self._cluster.ask_over(opened, request, min_version=PRODUCE_BY_ID)
        except BackingError as error:
            self._fail(ready, str(error))
            return
        for each in answer.responses:
            for result in each.partition_responses:
                _tell(ready.pop(result.index), self._outcome(node_id, result))
        self._fail(ready, "the answer does not name them")

    def _outcome(self, node_id: int, result: PartitionProduceResponse) -> Outcome:
        outcome = outcome_of(result)
        if outcome is AppendError.RETRIABLE or outcome is AppendError.OUT_OF_SEQUENCE:
            log.warning(
                "an append to Kafka failed",
                topic=self._topic.name,
                partition=result.index,
                broker=node_id,
                error=error_of(result.error_code).name,
            )
        if outcome is AppendError.RETRIABLE:
            self._cluster.refresh_soon()
        return outcome

    def _fail(self, waiting: dict[int, Appending], reason: str) -> None:
        """The outcome of these is unknown, or they were not sent."""
        if not waiting:
            return
        log.warning(
            "appends to Kafka failed", topic=self._topic.name, partitions=sorted(waiting), reason=reason
        )
        self._cluster.refresh_soon()
        for each in waiting.values():
            _tell(each, AppendError.RETRIABLE)


def _tell(batch: Appending, outcome: Outcome) -> None:
    """What a shard makes of it must not keep others from hearing of theirs."""
    try:
        batch.done(outcome)
    except Exception:  # A bug of ours; the others of this request hear of theirs.
        log.exception("a shard cannot take the outcome of its append")
