"""One partition of a topic: its log, who waits for it to be flushed, and what its producers sent last.

Appends stage a batch and at once change the producers' state; whoever needs the batch on the disk asks
`await_durable`. One flush is under way at a time and takes along all that was staged before it began, so
pipelined requests share it. When it is done the high watermark, which is the log's durable end, has moved:
the waiters run, then `on_advanced` wakes parked fetches.

A failed flush takes the partition out of service for appends: the waiters get the error, the log is cut back
to its durable end on a thread, and what producers sent is read again from the log when next asked for. Where
the disk was full, appends are taken again when there is room; where it cannot be cut back, or could not be
opened at all, that is tried again every now and then, unless the log is corrupt. What is durable is read
meanwhile. Nothing else runs off the event-loop thread. Knows no requests and no topics beside its own name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import structlog

from coordinator.topics.producer_checks import ProducerError, Verifications, check_marker
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode
from protocol.records.batch import Batch, parse_header
from protocol.records.control import Marker, encode_marker
from storage.files import CorruptSegment, StorageError
from storage.log.log_producers import ReadProducers
from storage.log.partition_log import BatchTooLarge, PartitionLog
from storage.producers.producer_state import ProducerState

LEADER_EPOCH: Final = 0
"""There is one node and no election, so every partition's leader epoch is and stays the first."""

NO_LEADER: Final = -1

READ_COMMITTED: Final = 1
"""The isolation level of a reader that sees no further than the last stable offset (KIP-98)."""

Durable = Callable[[ErrorCode], None]
"""Told NONE once what it waited for is durable, or why it never will be."""

Advanced = Callable[["Partition"], None]

log = structlog.get_logger("muster.topics")


class LogFlusher(Protocol):
    """What flushes logs off the event loop (`storage.flusher`); `done` comes back on its thread."""

    def schedule(self, log: PartitionLog, done: Callable[[StorageError | None], None]) -> None: ...


T = TypeVar("T")


class Outages(Protocol):
    """Where a partition waits that cannot write: its `try_again` is called in time."""

    def wait_for_room(self, who: Partition, error: StorageError) -> None: ...
    def try_later(self, who: Partition) -> None: ...


@dataclass(frozen=True, slots=True)
class Machinery:
    """What every partition works with, shared by all."""

    flusher: LogFlusher
    workers: Workers
    encoder: Workers
    wall_ms: Callable[[], int]
    on_advanced: Advanced
    outages: Outages


@dataclass(frozen=True, slots=True)
class Waiter:
    """Somebody who needs all offsets below `position` durable."""

    position: int
    durable: Durable


class Partition:
    """State of one partition; every method runs on the event-loop thread."""

    __slots__ = (
        "_curious",
        "_flushing",
        "_is_encoding",
        "_is_loading",
        "_is_out_of_room",
        "_machinery",
        "_queued",
        "_waiters",
        "flushed_bytes",
        "has_writer",
        "index",
        "is_deleted",
        "is_offline",
        "log",
        "staged_bytes",
        "topic",
        "topic_id",
        "verifications",
    )

    def __init__(
        self, topic: str, topic_id: bytes, index: int, partition_log: PartitionLog, machinery: Machinery
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = partition_log
        self.is_offline = partition_log.failure is not None
        self.is_deleted = False
        self.has_writer = False  # Of its own, a shard, who mends the log as well.
        self.flushed_bytes = (
            0  # Of what was appended through here since the start: parked fetches count by it.
        )
        self.staged_bytes = 0
        self.verifications = Verifications()
        self._machinery = machinery
        self._flushing = False
        self._is_out_of_room = False  # And waits for it.
        self._waiters: deque[Waiter] = deque()
        self._is_loading = False  # What the producers sent.
        self._is_encoding = False  # A batch, which is appended next.
        self._queued: deque[Callable[[], None]] = deque()  # Appends that wait for either.
        self._curious: list[Callable[[], None]] = []  # Others who do.
        if partition_log.failure is not None:
            self._stay_offline(partition_log.failure)

    @property
    def key(self) -> tuple[bytes, int]:
        """What parked fetches of this partition are watched under."""
        return (self.topic_id, self.index)

    @property
    def high_watermark(self) -> int:
        """The end of what may be read."""
        return self.log.durable_offset

    @property
    def last_stable_offset(self) -> int | None:
        """The end of what may be read by those who want committed records only; None: not known yet."""
        return self.log.producers.last_stable_offset

    @property
    def producers(self) -> ProducerState | None:
        """What its producers sent last; None while that is not known: see `when_ready`."""
        return self.log.producers.state

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def is_readable(self) -> bool:
        """False where the log could not be opened: nobody knows what is in it."""
        return self.log.is_open

    # Appending.

    @property
    def append_error(self) -> ErrorCode:
        """Why nothing can be appended right now; NONE as a rule."""
        if self.is_deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.KAFKA_STORAGE_ERROR if self.is_offline else ErrorCode.NONE

    def when_ready(self, append: Callable[[], None]) -> None:
        """Run `append` when what the producers sent before is known, and appended: at once, as a rule.

        After a start whoever needs it first has it read from the log, on a thread; appends wait for that in
        their order. Their number is bounded by what connections may have unanswered.
        """
        self._queued.append(append)
        self._go_on()

    def when_encoded(self, encode: Callable[[], T], append: Callable[[Future[T]], None]) -> None:
        """Run `append` with what `encode` comes to on a thread; those that come meanwhile keep their order."""

        def on_encoded(encoded: Future[T]) -> None:
            self._is_encoding = False
            self._queued.appendleft(lambda: append(encoded))
            self._go_on()

        def begin() -> None:
            self._is_encoding = True
            self._machinery.encoder.submit(encode, on_encoded)

        self.when_ready(begin)

    def _go_on(self) -> None:
        """Run the appends that wait, in their order, until one of them has to wait."""
        while self._queued and not self._is_encoding:
            if self.producers is None and not self.is_offline:
                self._load_producers()
                return
            self._queued.popleft()()

    def when_known(self, told: Callable[[], None]) -> None:
        """Run `told` when `producers` is known, or cannot be: at once, as a rule. Appends go on meanwhile."""
        if self.producers is not None or self.is_offline:
            told()
            return
        self._curious.append(told)
        self._load_producers()

    def _load_producers(self) -> None:
        if not self._is_loading:
            self._is_loading = True
            self._machinery.workers.submit(self._read_producers, self._on_producers_read)

    @property
    def must_queue(self) -> bool:
        """Whether appends are waiting: a later one may not overtake them."""
        return self._is_encoding or bool(self._queued)

    def _read_producers(self) -> ReadProducers:
        """On a thread; nothing is appended meanwhile."""
        return self.log.producers.read(self._machinery.wall_ms())

    def _on_producers_read(self, read: Future[ReadProducers]) -> None:
        self._is_loading = False
        try:
            found = read.result()
            if self.log.producers.state is None:  # Else its writer has read the same.
                self.log.producers.state = found.state
            for path, reason in found.damaged:
                log.warning("left out, the log is read in its stead", file=str(path), reason=reason)
        except StorageError as error:
            log.error(
                "producer state cannot be read", topic=self.topic, partition=self.index, error=str(error)
            )
            self.is_offline = True
            self._stay_offline(error)
        self._go_on()
        curious, self._curious = self._curious, []
        for told in curious:
            told()

    def append(self, data: bytearray | memoryview, batch: Batch) -> int:
        """Stage one checked batch, whose bytes the log keeps; return its first offset.

        `batch` is its header. The producers' state changes at once; what waits is only the answer. Raises
        BatchTooLarge beyond the segment size; StorageError if the log has failed.
        """
        wall_ms = self._machinery.wall_ms()
        try:
            base_offset = self.log.append(data, wall_ms=wall_ms).base_offset
        except StorageError as error:
            self._fail(error)  # It failed behind our back, in retention or so.
            raise
        if batch.is_transactional:
            self.verifications.end(batch.producer_id)
        self.staged_bytes += len(data)
        self._flush()
        return base_offset

    def append_local(self, data: bytearray, durable: Durable | None = None) -> None:
        """Append a batch of the daemon's own (`encode_batch`); `durable` is told when it is on the disk."""
        if error := self.append_error:
            if durable is not None:
                durable(error)
            return
        try:
            self.append(data, parse_header(data))
        except StorageError:  # Told to the log, and to whoever waits.
            if durable is not None:
                durable(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        if durable is not None:
            self.await_durable(self.log.next_offset, durable)

    def write_marker(self, marker: Marker, done: Durable) -> None:
        """End the open transaction of the marker's producer; `done` is told when that is on the disk.

        Errors: those of `check_marker`, UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, KAFKA_STORAGE_ERROR.
        """
        self.when_ready(lambda: self._write_marker(marker, done))

    def _write_marker(self, marker: Marker, done: Durable) -> None:
        state = self.producers
        if state is None:
            done(self.append_error or ErrorCode.KAFKA_STORAGE_ERROR)
            return
        try:
            check_marker(state, marker)
            wall_ms = self._machinery.wall_ms()
            self.append_local(encode_marker(marker, base_offset=0, wall_ms=wall_ms), done)
        except ProducerError as misfit:
            done(misfit.error)
        except BatchTooLarge:  # `max.message.bytes` leaves no room for as much as a marker.
            done(ErrorCode.MESSAGE_TOO_LARGE)

    def await_durable(self, position: int, durable: Durable) -> None:
        """Tell `durable` when all below `position` is durable: at once if it is, else after a flush."""
        if self.log.durable_offset >= position and not self._waiters:
            durable(ErrorCode.NONE)
            return
        self._waiters.append(Waiter(position, durable))
        self._flush()

    # Flushing.

    def _flush(self) -> None:
        if self._flushing or self.is_offline or self.is_deleted:
            return
        self._flushing = True
        staged_bytes = self.staged_bytes
        self._machinery.flusher.schedule(self.log, lambda error: self._on_flushed(staged_bytes, error))

    def _on_flushed(self, staged_bytes: int, error: StorageError | None) -> None:
        self._flushing = False
        if error is not None:
            self._fail(error)
            return
        is_all = self.log.next_offset == self.log.durable_offset
        self.flushed_bytes = self.staged_bytes if is_all else staged_bytes
        self.advanced()
        if self.log.next_offset > self.log.durable_offset:
            self._flush()

    def advanced(self) -> None:
        """The durable end has moved: release who waited for it. Also for who flushes the log by himself."""
        self.log.producers.settle()
        waiters = self._waiters
        while waiters and waiters[0].position <= self.log.durable_offset:
            waiters.popleft().durable(ErrorCode.NONE)
        self._machinery.on_advanced(self)

    # Failing.

    def _fail(self, error: StorageError) -> None:
        if self.is_offline:
            return
        self.is_offline = True
        if self.is_deleted:
            self._release_all(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        if error.is_no_room:
            self._is_out_of_room = True
        else:
            log.error("partition failed", topic=self.topic, partition=self.index, error=str(error))
        self._release_all(ErrorCode.KAFKA_STORAGE_ERROR)
        self._cut_back(error)

    def _cut_back(self, why: StorageError) -> None:
        self.log.producers.state = None
        self._machinery.workers.submit(self.log.fail_back, lambda cut: self._on_cut_back(cut, why))

    def _release_all(self, error: ErrorCode) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            waiter.durable(error)

    def _on_cut_back(self, cut: Future[None], why: StorageError) -> None:
        """The log was cut to its durable end: serve again, if there is room."""
        try:
            cut.result()
        except StorageError as error:
            self._stay_offline(error)
            return
        self.staged_bytes = self.flushed_bytes
        if self._is_out_of_room:
            self._machinery.outages.wait_for_room(self, why)
        else:
            self._serve_again()

    def _stay_offline(self, error: StorageError) -> None:
        """Wait for a better day; damage does not heal, and is left to people."""
        if error.is_no_room:
            self._is_out_of_room = True
            self._machinery.outages.wait_for_room(self, error)
            return
        log.error("partition stays offline", topic=self.topic, partition=self.index, error=str(error))
        if not isinstance(error, CorruptSegment):
            self._machinery.outages.try_later(self)

    def try_again(self) -> None:
        """There may be room now, or a disk that works."""
        if self.is_deleted or not self.is_offline:
            return
        self._is_out_of_room = False
        failure = self.log.failure
        if failure is None:
            self._serve_again()
        elif self.has_writer:
            self._machinery.outages.try_later(self)
        else:
            self._cut_back(failure)

    def _serve_again(self) -> None:
        self.is_offline = False
        log.info("partition serves again", topic=self.topic, partition=self.index)
        self._machinery.on_advanced(self)

    def keep(self) -> None:
        """Its topic could not be deleted after all: go on, with what was staged before."""
        self.is_deleted = False
        if self.log.next_offset > self.log.durable_offset:
            self._flush()

    def release(self) -> None:
        """Its topic is gone (`is_deleted`): tell everybody who waits."""
        self._release_all(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._machinery.on_advanced(self)


def leader_epoch_error(asked_epoch: int) -> ErrorCode:
    """What a client hears whose idea of the leader epoch is not ours; -1 stands for no idea (KIP-320)."""
    if asked_epoch in (-1, LEADER_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_LEADER_EPOCH if asked_epoch > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH
