"""Reads `__consumer_offsets` of a cluster from a position on, and hands what the fold makes of it to a sink.

A plain consumer is assigned all partitions: it is in no group, commits nothing, and all that it sends are requests
for metadata, offsets and records. It waits for the topic where there is none yet, and takes on partitions that the
topic is given later. Nothing is decided here about what records mean; that is `fold`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.structs import TopicPartition as ClientPartition

from coordinator.effects import GroupEvent
from muster.cluster import Cluster, ClusterError, UnreachableError
from muster.connection_failures import in_words
from muster.observe.evidence import At
from muster.observe.fold import Fold
from muster.observe.store import Source
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC: Final = "__consumer_offsets"
POLL_MS: Final = 500
LOOK_EVERY_S: Final = 2.0  # For the topic, where there is none.
LOOK_FOR_PARTITIONS_EVERY_S: Final = 30.0
STALL_S: Final = 30.0  # A log that gives nothing for so long before its end will not give any.
CHECKPOINT_EVERY_S: Final = 2.0
CHECKPOINT_SHARE: Final = 20
"""A checkpoint writes the state of all groups. They are so rare that they take at most a twentieth of the time."""

Records = dict[ClientPartition, list["ConsumerRecord[bytes, bytes]"]]


class Sink(Protocol):
    """Where events go."""

    async def write(self, events: list[GroupEvent]) -> None:
        """Take events, oldest first."""

    async def checkpoint(self, dump: Callable[[], dict[str, Any]]) -> None:
        """Make all that was taken durable, with the state that a restart goes on from, which `dump` returns."""

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether one is wanted before its time."""


@dataclass(slots=True)
class Progress:
    """How far each partition was read, and the fold of all of it: what a checkpoint holds."""

    fold: Fold = field(default_factory=Fold)
    positions: dict[int, int] = field(default_factory=dict)
    holes: dict[int, int] = field(
        default_factory=dict
    )  # By partition, where it goes on behind its last hole.
    reported_from: dict[int, int] = field(default_factory=dict)  # What is before is read, and not reported.
    reported_there: dict[int, int] = field(
        default_factory=dict
    )  # So many events of that very offset are, too.

    def take(self, records: Records) -> list[GroupEvent]:
        """Take in records that were fetched; return what they show, as far as it is to be reported."""
        events: list[GroupEvent] = []
        for where, batch in records.items():
            for record in batch:
                events += self._take(where.partition, record)
            events += self.fold.settle()  # A write is in one batch of the log, and batches are fetched whole.
        events.sort(key=_place)  # Each group's stay as they are: they are of one partition, in its order.
        return [event for event in events if self._is_reported(event)]

    def _take(self, partition: int, record: ConsumerRecord[bytes, bytes]) -> list[GroupEvent]:
        if record.offset != self.positions.get(partition, 0):
            self.holes[partition] = record.offset
        self.positions[partition] = record.offset + 1
        at = At(partition, record.offset, record.timestamp, self.holes.get(partition, -1))
        return self.fold.take(record.key, record.value, at)

    def _is_reported(self, event: GroupEvent) -> bool:
        partition, offset = _place(event)
        begin = self.reported_from.get(partition, 0)
        if offset == begin and self.reported_there.get(partition, 0):
            self.reported_there[partition] -= 1
            return False
        return offset >= begin

    def dump(self) -> dict[str, Any]:
        """The state for `load`, as values that fit into JSON."""
        return {**{name: getattr(self, name) for name in _BY_PARTITION}, "groups": self.fold.dump()}

    @classmethod
    def load(cls, dumped: dict[str, Any]) -> Progress:
        progress = cls()
        for name in _BY_PARTITION:
            setattr(progress, name, {int(partition): at for partition, at in dumped.get(name, {}).items()})
        progress.fold.load(dumped["groups"])
        return progress


_BY_PARTITION: Final = ("positions", "holes", "reported_from", "reported_there")


def _place(event: GroupEvent) -> tuple[int, int]:
    """The partition and the offset of the record that showed it."""
    assert event.observed is not None, "each event that is observed has its record"
    return event.observed.partition, event.observed.offset


@dataclass(frozen=True, slots=True)
class Log:
    """The log that is followed: which it is, and its partitions."""

    source: Source
    partitions: list[ClientPartition]


async def find_log(cluster: Cluster) -> Log | None:
    """The cluster's `__consumer_offsets`; None if there is none yet. It is not made. Raises ClusterError."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    answer = await cluster.send_to_any(request)
    for topic in answer.topics:
        if topic.error_code == ErrorCode.NONE and topic.partitions:
            numbers = sorted(partition.partition_index for partition in topic.partitions)
            source = Source(answer.cluster_id or "", bytes(topic.topic_id).hex())
            return Log(source, [ClientPartition(TOPIC, number) for number in numbers])
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise ClusterError(f"looking for {TOPIC}: the cluster answers {ErrorCode(topic.error_code).name}")
    return None


async def wait_for_log(cluster: Cluster, stop: asyncio.Event) -> Log | None:
    """The cluster's `__consumer_offsets`, as soon as there is one; None if `stop` is set before."""
    while not stop.is_set():
        if (log := await find_log(cluster)) is not None:
            return log
        await _wait(stop, LOOK_EVERY_S)
    return None


class Follower:
    """Follows one log. `progress` is where it goes on, and is kept up to date."""

    def __init__(
        self, log: Log, progress: Progress, sink: Sink, look_every_s: float = LOOK_FOR_PARTITIONS_EVERY_S
    ) -> None:
        self._log = log
        self._look_every_s = look_every_s
        self._progress = progress
        self._sink = sink
        self._checkpoint_due_s = 0.0
        self._is_dirty = True

    async def run(self, cluster: Cluster, stop: asyncio.Event, *, from_latest: bool, until_end: bool) -> None:
        """Follow until `stop` is set, or up to the end that the log has now. Raises ClusterError and StoreError.

        With `from_latest` what is on the log now is read all the same, as what comes is compared with it. A
        partition of which something was reported already goes on from there.
        """
        try:
            async with cluster.reader(resets=False) as consumer:
                ends = await self._begin(consumer)
                if from_latest:
                    self._progress.reported_from = ends | self._progress.reported_from
                await self._read(cluster, consumer, stop, ends if until_end else None)
        except KafkaError as error:
            raise ClusterError(f"reading {TOPIC}: {in_words(error)}") from None
        await self._checkpoint()

    async def _begin(self, consumer: AIOKafkaConsumer) -> dict[int, int]:
        """Go to where the progress is; return the end of each partition."""
        consumer.assign(self._log.partitions)
        firsts = await consumer.beginning_offsets(self._log.partitions)
        found = await consumer.end_offsets(self._log.partitions)
        for where in self._log.partitions:
            position = self._progress.positions.get(where.partition, 0)
            read = max(position, self._progress.reported_from.get(where.partition, 0))
            if read > found[where]:
                raise ClusterError(
                    f"{TOPIC}-{where.partition} ends at {found[where]} and was read up to {read} before: "
                    "it is not the log that it was"
                )
            consumer.seek(where, max(position, firsts[where]))
        return {where.partition: end for where, end in found.items()}

    async def _take_on_new_partitions(self, cluster: Cluster, consumer: AIOKafkaConsumer) -> None:
        """Read also the partitions that the log has been given since. Raises ClusterError if it is another log."""
        try:
            log = await find_log(cluster)
        except UnreachableError:
            return  # The consumer waits for the cluster; the next look sees them.
        if log is None or log == self._log:
            return
        if log.source != self._log.source:
            raise ClusterError(f"{TOPIC} was deleted and made again: it is another log")
        kept = {where: await consumer.position(where) for where in self._log.partitions}
        self._log = log
        consumer.assign(log.partitions)  # It forgets all positions.
        firsts = await consumer.beginning_offsets(log.partitions)
        for where in log.partitions:
            consumer.seek(where, kept.get(where, firsts[where]))

    async def _read(
        self,
        cluster: Cluster,
        consumer: AIOKafkaConsumer,
        stop: asyncio.Event,
        until: dict[int, int] | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        heard_s = looked_s = loop.time()
        while not stop.is_set() and not (until is not None and await self._is_at(consumer, until)):
            try:
                records: Records = await consumer.getmany(timeout_ms=POLL_MS)
            except OffsetOutOfRangeError as error:
                await self._skip_what_is_gone(consumer, error)
                continue
            if records:
                heard_s, self._is_dirty = loop.time(), True
                if events := self._progress.take(records):
                    await self._sink.write(events)
            elif until is not None and loop.time() - heard_s > STALL_S:
                raise ClusterError(f"{TOPIC} gave nothing for {STALL_S:.0f} s, short of its end")
            if until is None and loop.time() - looked_s >= self._look_every_s:
                await self._take_on_new_partitions(cluster, consumer)
                looked_s = loop.time()
            if self._sink.is_checkpoint_due or (self._is_dirty and loop.time() >= self._checkpoint_due_s):
                await self._checkpoint()

    async def _is_at(self, consumer: AIOKafkaConsumer, until: dict[int, int]) -> bool:
        for where in self._log.partitions:
            if await consumer.position(where) < until[where.partition]:
                return False
        return True

    async def _skip_what_is_gone(self, consumer: AIOKafkaConsumer, error: OffsetOutOfRangeError) -> None:
        """Go on at the first record that is left, where records were deleted ahead of the reading."""
        gone: Iterable[ClientPartition] = error.args[0]
        firsts = await consumer.beginning_offsets(list(gone))
        for where, first in firsts.items():
            if first <= self._progress.positions.get(where.partition, 0):
                raise ClusterError(f"{TOPIC}-{where.partition} is shorter than it was: it is another log")
            consumer.seek(where, first)

    async def _checkpoint(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await self._sink.checkpoint(self._progress.dump)
        took_s = loop.time() - began_s
        self._checkpoint_due_s = loop.time() + max(CHECKPOINT_EVERY_S, CHECKPOINT_SHARE * took_s)
        self._is_dirty = False


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    """Wait for `stop`, so long at most."""
    waiting = asyncio.ensure_future(stop.wait())
    await asyncio.wait([waiting], timeout=seconds)
    waiting.cancel()
