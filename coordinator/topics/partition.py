"""One partition of a topic: its log, the state of its producers, and the fetches and appends that wait.

Appends go to the partition's `DurableLog` and at once change the producers' state; `when_durable` reports when a
batch is on the disk. The high watermark is the log's durable end: when a flush has moved it, parked fetches are
woken.

A partition owns its log, unless the log is that of a coordinator's shard: then it appends nothing. After a failure
the log is cut back to its durable end on a thread, and the producers' state is read again when it is needed;
durable records can be read meanwhile. Nothing else runs off the event-loop thread. Knows no requests, and of
topics only the name of its own.
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
from storage.log.log_states import ACTIVE, RELEASED
from storage.log.partition_log import BatchTooLarge, PartitionLog
from storage.producers.producer_checks import ProducerError, ProducerVerifications, check_marker
from storage.producers.producer_state import ProducerState

LEADER_EPOCH: Final = 0
"""Leader epoch of every partition: with one node there are no elections, so it stays the first."""

READ_COMMITTED: Final = 1
"""The isolation level of a reader that reads only up to the last stable offset (KIP-98)."""

log = structlog.get_logger("muster.topics")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartitionServices:
    """The services that all partitions share."""

    log_host: Callable[[str], LogHost]  # Returns the host that flushes a topic's logs.
    workers: Workers
    encoder: Workers
    wall_ms: Callable[[], int]
    on_advanced: Callable[[Partition], None]


class Partition:
    """One partition of a topic; every method runs on the event-loop thread."""

    __slots__ = (
        "__weakref__",
        "_is_encoding",
        "_marker_end",
        "_markers_from",
        "_owns_log",
        "_queued",
        "_services",
        "_waiting_for_producers",
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
        # The last markers that were written here, side by side: the first one's offset, and the end of the last.
        self._markers_from = self._marker_end = -1
        self._services = services
        self._is_encoding = False  # Whether a batch is being encoded on a thread; it is appended next.
        # Appends that wait for a batch or the producers' state.
        self._queued: deque[Callable[[], None]] = deque()
        # Called when the producers' state is read.
        self._waiting_for_producers: list[Callable[[], None]] = []
        self.durable_log.listeners.append(self._on_advanced)
        self._owns_log = topic not in SHARD_TOPICS
        if self._owns_log:
            CutBack(topic, index, self.durable_log, services.workers, self._on_advanced).begin()

    @property
    def key(self) -> tuple[bytes, int]:
        """The key under which the purgatory watches parked fetches of this partition."""
        return (self.topic_id, self.index)

    @property
    def high_watermark(self) -> int:
        """The offset up to which records may be read: the log's durable end.

        The newest of a shard's records are in its segments some milliseconds later: a fetch waits for them.
        """
        return self.log.durable_offset

    @property
    def last_stable_offset(self) -> int | None:
        """The offset up to which READ_COMMITTED readers may read; None while it is not known yet."""
        return self.log.producers.last_stable_offset

    def readable_offset(self, *, is_read_committed: bool) -> int:
        """The offset up to which a fetch finds records now: of a shard's log, as far as the segments go."""
        written_offset = self.log.written_offset
        if not is_read_committed or (stable_offset := self.last_stable_offset) is None:
            return written_offset
        return min(stable_offset, written_offset)

    @property
    def producers(self) -> ProducerState | None:
        """The state of the partition's producers; None until it has been read, see `when_ready`."""
        return self.log.producers.state

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def is_readable(self) -> bool:
        """Whether records can be read; not if the log could not be opened, or is that of another node's shard."""
        return self.log.is_open and self.durable_log.state is not RELEASED

    @property
    def read_error(self) -> ErrorCode:
        """The error for reads while the partition is not readable."""
        is_elsewhere = self.durable_log.state is RELEASED
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def is_deleted(self) -> bool:
        """Whether the topic is being deleted, or was deleted."""
        return self.durable_log.is_closed

    @property
    def flushed_bytes(self) -> int:
        """Number of bytes that became durable since the start; parked fetches count new bytes by it."""
        return self.durable_log.flushed_bytes

    # Appending.

    @property
    def append_error(self) -> ErrorCode:
        """The error for appends right now; NONE as a rule."""
        if self.durable_log.state is ACTIVE:
            return ErrorCode.NONE
        if self.durable_log.state is RELEASED:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        is_deleted = self.durable_log.is_closed
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.KAFKA_STORAGE_ERROR

    def when_ready(self, append: Callable[[], None]) -> None:
        """Run `append` when the producers' state is known and earlier appends have run: at once, as a rule.

        After a start, the first append has the state read from the log, on a thread; appends wait for it in their
        order. Their number is bounded by the requests that connections may have unanswered.
        """
        self._queued.append(append)
        self._run_queued_appends()

    def when_encoded(self, encode: Callable[[], T], append: Callable[[Future[T]], None]) -> None:
        """Run `encode` on a thread, then `append` with its finished future; later appends wait for that."""

        def on_encoded(encoded: Future[T]) -> None:
            self._is_encoding = False
            self._queued.appendleft(lambda: append(encoded))
            self._run_queued_appends()

        def begin() -> None:
            self._is_encoding = True
            self._services.encoder.submit(encode, on_encoded)

        self.when_ready(begin)

    def _run_queued_appends(self) -> None:
        """Run the queued appends in their order, until one of them has to wait."""
        while self._queued and not self._is_encoding:
            if self.producers is None and self._may_read_producers:
                self.when_producers_known(self._run_queued_appends)
                return
            self._queued.popleft()()

    def when_producers_known(self, on_known: Callable[[], None]) -> None:
        """Run `on_known` when `producers` has been read, or cannot be: at once, as a rule. Appends do not wait."""
        if self.producers is not None or not self._may_read_producers:
            on_known()
            return
        is_being_read = bool(self._waiting_for_producers)
        self._waiting_for_producers.append(on_known)
        if not is_being_read:
            self._services.workers.submit(self._read_producers, self._on_producers_read)

    @property
    def _may_read_producers(self) -> bool:
        """Whether producers may be read from the log; False during recovery, but for the log of a shard."""
        return self.durable_log.state is ACTIVE if self._owns_log else self.log.is_open

    @property
    def must_queue(self) -> bool:
        """Whether the next append must queue, since earlier ones are waiting."""
        return self._is_encoding or bool(self._queued)

    def _read_producers(self) -> ReadProducers:
        """Read the producers' state from the log; runs on a thread, and nothing is appended meanwhile."""
        return self.log.producers.read(self._services.wall_ms())

    def _on_producers_read(self, read: Future[ReadProducers]) -> None:
        try:
            found = read.result()
            if self.log.producers.state is None:  # Otherwise loading a shard has read the same state.
                self.log.producers.state = found.state
            for path, reason in found.damaged:
                log.warning("left out, the log is read in its stead", file=str(path), reason=reason)
        except StorageError as error:
            log.error(
                "producer state cannot be read", topic=self.topic, partition=self.index, error=str(error)
            )
            if self._owns_log:
                self.durable_log.take_offline(error)
        waiting, self._waiting_for_producers = self._waiting_for_producers, []
        for on_known in waiting:
            on_known()

    def append(self, data: bytearray | memoryview, batch: Batch) -> int:
        """Stage one checked batch, whose bytes `data` the log keeps; return the batch's first offset.

        `batch` is the header of `data`. The producers' state changes at once; only the answer waits for the disk.
        Raises BatchTooLarge beyond the segment size; StorageError if the log has failed.
        """
        self.durable_log.owner.stage()  # Records that a shard has gathered take the offsets before this batch.
        base_offset = self.durable_log.append(data, self._services.wall_ms())
        if batch.is_control:
            if base_offset != self._marker_end:
                self._markers_from = base_offset
            self._marker_end = base_offset + 1
        if batch.is_transactional:
            self.verifications.end(batch.producer_id)
        self.durable_log.flush()
        return base_offset

    @property
    def data_end(self) -> int:
        """The offset from which there are only markers up to the high watermark, as far as it is known."""
        end = self.high_watermark
        return self._markers_from if end == self._marker_end else end

    def append_local(self, data: bytearray, done: OnDone | None = None) -> None:
        """Append a batch that the daemon made (`encode_batch`); `done` is called when it is on the disk."""
        error = self.append_error
        if not error:
            try:
                self.append(data, parse_header(data))
            except StorageError:  # The failure has ended the log's epoch, and is reported there.
                error = ErrorCode.KAFKA_STORAGE_ERROR
        if done is None:
            return
        if error:
            done(error)
        else:
            self.when_durable(self.log.next_offset, done)

    def write_marker(self, marker: Marker, done: OnDone) -> None:
        """End the open transaction of the marker's producer; `done` is called when the marker is on the disk.

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
        except BatchTooLarge:  # `max.message.bytes` is too small even for a marker.
            done(ErrorCode.MESSAGE_TOO_LARGE)

    def when_durable(self, position: int, done: OnDone) -> None:
        """Call `done` when all records below the offset `position` are durable: at once, or after a flush."""
        self.durable_log.when_durable(position, done)

    def _on_advanced(self) -> None:
        """Report that the durable end has moved, or that the log has been cut back to it."""
        self._services.on_advanced(self)

    # The deletion of its topic.

    def close(self) -> None:
        """Take no more appends: the topic is being deleted, and its files are removed."""
        self.durable_log.close()

    def reopen(self) -> None:
        """Take appends again, and keep what was staged: the topic could not be deleted."""
        self.durable_log.reopen()

    def release(self) -> None:
        """Answer everything that waits for this partition: the topic has been deleted."""
        self.durable_log.release_owner(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._on_advanced()


def leader_epoch_error(asked_epoch: int) -> ErrorCode:
    """Return the error for a client that knows `asked_epoch` as the leader epoch; -1 stands for none (KIP-320)."""
    if asked_epoch in (-1, LEADER_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_LEADER_EPOCH if asked_epoch > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH
