"""One partition of a topic: its log, which producers wrote to it, and who waits for its records.

Appends go to the partition's `DurableLog` and at once change the producers' state; what needs a batch on the disk
asks `when_durable`. When a flush has ended the high watermark, which is the log's durable end, has moved: parked
fetches are woken.

The partition owns its log, but for those of the coordinator's shards, to which it appends nothing. After a failure
the log is cut back to its durable end on a thread, and what producers sent is read again when next asked for. What
is durable is read meanwhile. Nothing else runs off the event-loop thread. Knows no requests and no topics beside
its own name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog

from coordinator.topics.cut_back import CutBack
from coordinator.topics.names import SHARD_TOPICS
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode, OnDone
from protocol.records.batch import Batch, parse_header
from protocol.records.control import Marker, encode_marker
from storage.files import StorageError
from storage.log.durable_log import DurableLog, LogHost
from storage.log.log_producers import ReadProducers
from storage.log.log_states import ACTIVE
from storage.log.partition_log import BatchTooLarge, PartitionLog
from storage.producers.producer_checks import ProducerError, ProducerVerifications, check_marker
from storage.producers.producer_state import ProducerState

LEADER_EPOCH: Final = 0
"""There is one node and no election, so every partition's leader epoch is and stays the first."""

NO_LEADER: Final = -1

READ_COMMITTED: Final = 1
"""The isolation level of a reader that sees no further than the last stable offset (KIP-98)."""

log = structlog.get_logger("muster.topics")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartitionServices:
    """What every partition works with, shared by all."""

    log_host: Callable[[str], LogHost]  # By topic: where its logs are flushed.
    workers: Workers
    encoder: Workers
    wall_ms: Callable[[], int]
    on_advanced: Callable[[Partition], None]


class Partition:
    """State of one partition; every method runs on the event-loop thread."""

    __slots__ = (
        "_is_encoding",
        "_on_producers_known",
        "_owns_log",
        "_queued",
        "_services",
        "durable_log",
        "index",
        "log",
        "topic",
        "topic_id",
        "verifications",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        partition_log: PartitionLog,
        services: PartitionServices,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = partition_log
        self.durable_log = DurableLog(partition_log, services.log_host(topic))
        self.verifications = ProducerVerifications()
        self._services = services
        self._is_encoding = False  # A batch, which is appended next.
        self._queued: deque[Callable[[], None]] = deque()  # Appends that wait for that, or for the producers.
        self._on_producers_known: list[Callable[[], None]] = []  # Called when they have been read.
        self.durable_log.listeners.append(self._on_advanced)
        self._owns_log = topic not in SHARD_TOPICS
        if self._owns_log:
            CutBack(topic, index, self.durable_log, services.workers, self._on_advanced).begin()

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
        """False where the log could not be opened: then it is not known what is in it."""
        return self.log.is_open

    @property
    def is_deleted(self) -> bool:
        """Whether its topic is being deleted, or was."""
        return self.durable_log.is_closed

    @property
    def flushed_bytes(self) -> int:
        """Number of durable bytes that were appended since the start: parked fetches count by it."""
        return self.durable_log.flushed_bytes

    # Appending.

    @property
    def append_error(self) -> ErrorCode:
        """Why nothing can be appended right now; NONE as a rule."""
        if self.durable_log.state is ACTIVE:
            return ErrorCode.NONE
        is_deleted = self.durable_log.is_closed
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.KAFKA_STORAGE_ERROR

    def when_ready(self, append: Callable[[], None]) -> None:
        """Run `append` when what the producers sent before is known, and appended: at once, as a rule.

        After a start what needs it first has it read from the log, on a thread; appends wait for that in
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
            self._services.encoder.submit(encode, on_encoded)

        self.when_ready(begin)

    def _go_on(self) -> None:
        """Run the appends that wait, in their order, until one of them has to wait."""
        while self._queued and not self._is_encoding:
            if self.producers is None and self._may_read_producers:
                self.when_known(self._go_on)
                return
            self._queued.popleft()()

    def when_known(self, on_known: Callable[[], None]) -> None:
        """Run `on_known` when `producers` is known, or cannot be: at once, as a rule. Appends go on meanwhile."""
        if self.producers is not None or not self._may_read_producers:
            on_known()
            return
        is_being_read = bool(self._on_producers_known)
        self._on_producers_known.append(on_known)
        if not is_being_read:
            self._services.workers.submit(self._read_producers, self._on_producers_read)

    @property
    def _may_read_producers(self) -> bool:
        """False while its log is recovered, or waits for that; a shard's log may be read meanwhile."""
        return self.durable_log.state is ACTIVE if self._owns_log else self.log.is_open

    @property
    def must_queue(self) -> bool:
        """Whether appends are waiting: a later one may not overtake them."""
        return self._is_encoding or bool(self._queued)

    def _read_producers(self) -> ReadProducers:
        """On a thread; nothing is appended meanwhile."""
        return self.log.producers.read(self._services.wall_ms())

    def _on_producers_read(self, read: Future[ReadProducers]) -> None:
        try:
            found = read.result()
            if self.log.producers.state is None:  # Else a shard that was loaded has read the same.
                self.log.producers.state = found.state
            for path, reason in found.damaged:
                log.warning("left out, the log is read in its stead", file=str(path), reason=reason)
        except StorageError as error:
            log.error(
                "producer state cannot be read", topic=self.topic, partition=self.index, error=str(error)
            )
            if self._owns_log:
                self.durable_log.take_offline(error)
        waiting, self._on_producers_known = self._on_producers_known, []
        for on_known in waiting:
            on_known()

    def append(self, data: bytearray | memoryview, batch: Batch) -> int:
        """Stage one checked batch, whose bytes the log keeps; return its first offset.

        `batch` is its header. The producers' state changes at once; what waits is only the answer. Raises
        BatchTooLarge beyond the segment size; StorageError if the log has failed.
        """
        self.durable_log.owner.stage()  # What a shard has gathered has been promised the offsets before.
        base_offset = self.durable_log.append(data, self._services.wall_ms())
        if batch.is_transactional:
            self.verifications.end(batch.producer_id)
        self.durable_log.flush()
        return base_offset

    def append_local(self, data: bytearray, done: OnDone | None = None) -> None:
        """Append a batch of the daemon's own (`encode_batch`); `done` is called when it is on the disk."""
        error = self.append_error
        if not error:
            try:
                self.append(data, parse_header(data))
            except StorageError:  # It has ended the log's epoch, which is reported there.
                error = ErrorCode.KAFKA_STORAGE_ERROR
        if done is None:
            return
        if error:
            done(error)
        else:
            self.when_durable(self.log.next_offset, done)

    def write_marker(self, marker: Marker, done: OnDone) -> None:
        """End the open transaction of the marker's producer; `done` is called when that is on the disk.

        Errors: those of `check_marker`, UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, KAFKA_STORAGE_ERROR.
        """
        self.when_ready(lambda: self._write_marker(marker, done))

    def _write_marker(self, marker: Marker, done: OnDone) -> None:
        state = self.producers
        if state is None:
            done(self.append_error or ErrorCode.KAFKA_STORAGE_ERROR)
            return
        try:
            check_marker(state, marker)
            wall_ms = self._services.wall_ms()
            self.append_local(encode_marker(marker, base_offset=0, wall_ms=wall_ms), done)
        except ProducerError as misfit:
            done(misfit.error)
        except BatchTooLarge:  # `max.message.bytes` leaves no room for as much as a marker.
            done(ErrorCode.MESSAGE_TOO_LARGE)

    def when_durable(self, position: int, done: OnDone) -> None:
        """Call `done` when all below `position` is durable: at once if it is, else after a flush."""
        self.durable_log.when_durable(position, done)

    def _on_advanced(self) -> None:
        """The durable end has moved, or the log has been cut back to it."""
        self._services.on_advanced(self)

    # The deletion of its topic.

    def close(self) -> None:
        """Take no appends while its files go: its topic is being deleted."""
        self.durable_log.close()

    def reopen(self) -> None:
        """Its topic could not be deleted after all: go on, with what was staged before."""
        self.durable_log.reopen()

    def release(self) -> None:
        """Its topic is gone: answer all that waits."""
        self.durable_log.release_owner(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._on_advanced()


def leader_epoch_error(asked_epoch: int) -> ErrorCode:
    """The answer to a client whose idea of the leader epoch is not ours; -1 stands for no idea (KIP-320)."""
    if asked_epoch in (-1, LEADER_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_LEADER_EPOCH if asked_epoch > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH
