"""One log in use: what is appended, who waits for it to be durable, and what becomes of it when the disk fails.

The one engine under the shards of the coordinator and the partitions of topics. Appends are staged in memory. One
flush is under way at a time, and takes along all that was staged before it began: so a batch is as large as the
disk is slow, and pipelined requests share a flush. When it has ended the durable end is moved, what waits up to
there is answered in order, the next flush begins, and listeners are called.

A failure ends an epoch: all that waits is answered with an error, what is not durable is cut off the log off the
loop, and reports of flushes and timers of the former epoch are ignored. Every log has one owner, who appends, and
who recovers it in its own way: a topic's partition is cut back and serves on, a shard's log is cut back and read
again. Knows no requests; all of it runs on the event-loop thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from protocol.errors import ErrorCode, OnDone
from storage.files import CorruptSegment, OnFlushed, StorageError
from storage.latencies import Latencies
from storage.log.durability_queue import DurabilityQueue
from storage.log.log_states import (
    ACTIVE,
    CLOSED,
    CLOSED_FAILED,
    MAY_FAIL,
    OFFLINE,
    PAUSED,
    RECOVERING,
    RECOVERING_FULL,
    RELEASED,
    TRANSITIONS,
    LogState,
    LogTrigger,
)
from storage.log.partition_log import PartitionLog
from storage.log.staged_log import StagedLog
from storage.log.transitions import next_state


class LogOwner(Protocol):
    """The component that appends to a log and recovers it after a failure: a shard, or a topic's partition."""

    def stage(self) -> None:
        """Append what the owner has gathered and not appended yet: a flush is about to begin."""

    def on_failed(self, error: Exception | None) -> ErrorCode:
        """Handle the end of the epoch, by `error` or, if None, by a retry; return the answer to all that waits."""

    def recover(self, answer: ErrorCode) -> None:
        """Cut the log back, off the loop, and report completion with `DurableLog.recovered`.

        `answer` is what `on_failed` returned. Of a released log the report is `recovery_ended`.
        """

    def on_resumed(self) -> None:
        """Handle that the log takes appends again, since there is disk space again."""


@dataclass(frozen=True, slots=True)
class LogHost:
    """The services that a log needs of its runtime: the time, timers, the flusher and retries."""

    now_ms: Callable[[], int]
    # (owner, key, deadline in ms): has `owner.timer_fired(key)` called at that time.
    set_timer: Callable[[Any, Any, int | None], None]
    schedule_flush: Callable[[Any, OnFlushed], None]  # The kind of log that its flusher takes.
    wait_for_disk_space: Callable[[Any, StorageError], None]  # These two have `try_again` called later.
    try_later: Callable[[Any], None]
    holds: Latencies = field(default_factory=Latencies)
    """For how long the first of the replies that a flush let go had been held, of logs in which nothing waits for
    ever; one for each flush that let any go."""


class DurableLog:
    """A `PartitionLog` in use: its appends and flushes, what waits for them, and its state."""

    __slots__ = (
        "_flush_end",
        "_flushes",
        "_host",
        "_on_idle",
        "_owner",
        "_queue",
        "durable_offset",
        "epoch",
        "flushed_bytes",
        "listeners",
        "log",
        "staged_bytes",
        "state",
    )

    def __init__(self, partition_log: PartitionLog, host: LogHost) -> None:
        """Appends are refused until the log has an owner and the owner has reported `recovered`."""
        self.log = partition_log
        self.state: LogState = RECOVERING
        self.epoch = 0
        # As the loop knows it: `log.durable_offset` moves on another thread, ahead of the last stable offset.
        self.durable_offset = partition_log.durable_offset
        self.staged_bytes = 0  # Number of bytes appended since the start,
        self.flushed_bytes = 0  # and how many of them can be read: parked fetches compare this.
        self.listeners: list[Callable[[], None]] = []  # Called whenever more can be read.
        self._host = host
        self._owner: LogOwner | None = None
        self._queue = DurabilityQueue(None, _no_timer)
        if partition_log.is_written_behind:
            cast(StagedLog, partition_log).on_written = self._on_written
        self._flush_end = self.durable_offset  # Beyond the durable end while a flush is under way.
        self._flushes = 0  # Number of flushes without a report yet, those of former epochs too.
        self._on_idle: Callable[[], None] | None = None

    def claim(self, owner: LogOwner, timeout_ms: int | None = None) -> None:
        """Give the log its owner, for good; nothing waits for the disk longer than `timeout_ms`."""
        assert self._owner is None, f"{self.log.directory.name} has an owner"
        self._owner = owner
        if timeout_ms is not None:
            self._queue = DurabilityQueue(timeout_ms, self._set_timer)

    @property
    def owner(self) -> LogOwner:
        owner = self._owner
        assert owner is not None, "a log is used by its owner"
        return owner

    @property
    def is_closed(self) -> bool:
        """Whether the log's topic is being deleted, or was deleted."""
        return self.state is CLOSED or self.state is CLOSED_FAILED

    # Appending.

    def append(self, batch: bytearray | memoryview, wall_ms: int) -> int:
        """Stage one checked batch, which the log keeps; return its first offset. `flush` has to follow.

        Raises BatchTooLarge; StorageError where the log is not ACTIVE, or fails in this call.
        """
        if self.state is not ACTIVE:
            raise StorageError("use", self.log.directory, f"the log is {self.state.name}")
        try:
            base_offset = self.log.append(batch, wall_ms=wall_ms).base_offset
        except StorageError as error:
            self.fail(error)  # It failed in retention, or in a flush whose report is still to come.
            raise
        self.staged_bytes += len(batch)
        return base_offset

    def when_durable(self, position: int, done: OnDone, now_ms: int | None = None) -> None:
        """Call `done` when all below `position` is durable: at once if it is, else after a flush.

        `now_ms` is the time, for callers that have read it. Errors: REQUEST_TIMED_OUT, or what the owner answers
        to a failure.
        """
        if position > self.durable_offset or not self._queue.is_empty:
            self._queue.add(position, self._host.now_ms() if now_ms is None else now_ms, done)
        else:
            done(ErrorCode.NONE)

    def timer_fired(self, epoch: int) -> None:
        """Time out the callbacks that have waited too long; a timer of a former epoch is ignored."""
        if epoch == self.epoch:
            self._queue.give_up_overdue(self._host.now_ms())

    def _set_timer(self, deadline_ms: int) -> None:
        self._host.set_timer(self, self.epoch, deadline_ms)

    # Flushing.

    def flush(self) -> None:
        """Have all that was appended made durable, now or by the flush after the one that is under way."""
        if self._flush_end > self.durable_offset or self.state is not ACTIVE:
            return
        self.owner.stage()
        end = self.log.next_offset
        if self.state is not ACTIVE or end <= self.durable_offset:
            return
        self._flush_end = end
        epoch, staged_bytes = self.epoch, self.staged_bytes
        self._flushes += 1
        self._host.schedule_flush(self.log, lambda error: self._on_flushed(epoch, staged_bytes, error))

    def _on_flushed(self, epoch: int, staged_bytes: int, error: StorageError | None) -> None:
        self._flushes -= 1
        if epoch != self.epoch:  # All that waited for it has been answered; the log has been cut back since.
            self._report_idle()
            return
        if error is not None:
            self.fail(error)
            return
        self.durable_offset = self._flush_end = self.log.durable_offset
        is_all = self.log.next_offset == self.durable_offset
        self.log.producers.settle()
        oldest_ms = self._queue.oldest_ms()
        if oldest_ms is not None:
            self._host.holds.add((self._host.now_ms() - oldest_ms) / 1000)
        self._queue.release(self.durable_offset)
        if self.log.is_written_behind:
            self.flush()
            return  # Readers have nothing new before `_on_written`.
        self.flushed_bytes = self.staged_bytes if is_all else staged_bytes
        self.flush()
        self._call_listeners()

    def _on_written(self, error: StorageError | None) -> None:
        """Take the report that what is durable was written to the segments, or could not be."""
        if error is not None:
            if self.log.failure is not None:  # Otherwise it was cut back while the report was on its way.
                self.fail(error)
            return
        self.flushed_bytes += cast(StagedLog, self.log).take_written_bytes()
        self._call_listeners()
        self._report_idle()

    def _call_listeners(self) -> None:
        for listener in self.listeners:
            listener()

    # Failing.

    def fail(self, error: Exception) -> None:
        """End the epoch: answer all that waits, and have the owner recover the log.

        `error` is the disk's, or a bug of the owner: then the state that the owner derived from the log is not
        to be trusted, but the log is.
        """
        if self.state not in MAY_FAIL:
            return
        if isinstance(error, StorageError) and error.is_no_room:
            self._transition(LogTrigger.DISK_FULL)
            if self.state is RECOVERING_FULL:
                self._host.wait_for_disk_space(self, error)
        else:
            self._transition(LogTrigger.FAILED)
        self._end_epoch(error)

    def take_offline(self, error: StorageError) -> None:
        """Stop using a log that cannot be read, though it could be written; retry later, unless it is damaged."""
        if error.is_no_room:
            self.fail(error)
        elif self.state is ACTIVE:
            self._transition(_failure_trigger(error))
            self._end_epoch(error)
            self._schedule_retry(error)

    def _end_epoch(self, error: Exception | None) -> None:
        self.epoch += 1
        self._flush_end = self.durable_offset
        owner = self.owner
        answer = owner.on_failed(error)
        self._queue.fail(answer)
        if self.state is RECOVERING or self.state is RECOVERING_FULL:
            owner.recover(answer)

    def recovered(self, error: BaseException | None = None) -> None:
        """Take the owner's report: it opened or cut back the log and can append; with `error`, it could not."""
        trigger = LogTrigger.RECOVERED if error is None else _failure_trigger(error)
        if trigger is LogTrigger.DISK_FULL and self.log.failure is None:
            trigger = LogTrigger.UNUSABLE  # The owner, not the log, found no space.
        self._transition(trigger)
        self.durable_offset = self._flush_end = self.log.durable_offset
        self.staged_bytes = self.flushed_bytes
        self._schedule_retry(error)

    def _schedule_retry(self, error: BaseException | None) -> None:
        if self.state is OFFLINE:
            self._host.try_later(self)
        elif self.state is PAUSED and isinstance(error, StorageError):
            self._host.wait_for_disk_space(self, error)

    def try_again(self) -> None:
        """Try to resume a log that waits for disk space, or for a disk that works."""
        state = self.state
        if state is RECOVERING_FULL:
            self._transition(LogTrigger.SPACE_FOUND)
        elif state is PAUSED and self.log.failure is None:
            self._transition(LogTrigger.SPACE_FOUND)
            self.owner.on_resumed()
        elif state is PAUSED or state is OFFLINE:
            self._transition(LogTrigger.RETRIED)
            self._end_epoch(None)
        elif state is RELEASED and self._on_idle is not None:
            self.owner.recover(ErrorCode.NOT_COORDINATOR)

    # Its way to another node, and back.

    def release(self, answer: ErrorCode) -> None:
        """Stop using the log, which another node is to lead; all that waits is answered with `answer`.

        What was appended and is not durable may become so until `when_idle` reports.
        """
        self._transition(LogTrigger.RELEASED)
        self.epoch += 1
        self._flush_end = self.durable_offset
        self._queue.fail(answer)

    def when_idle(self, done: Callable[[], None]) -> None:
        """Call `done` once no flush of the released log is under way, and all that counts is in its segments.

        So long as it cannot be written there nobody else may use it, and `done` is not called; it is tried again
        now and then, unless the log is damaged.
        """
        assert self.state is RELEASED, "only a log that is released becomes idle for good"
        self._on_idle = done
        if self.log.is_written_behind:
            cast(StagedLog, self.log).want_written()
        self._report_idle()

    def recovery_ended(self) -> None:
        """Take the report that nobody recovers the log any more, if it was released meanwhile or before."""
        self._report_idle()

    def _report_idle(self) -> None:
        if self._on_idle is None or self._flushes:
            return
        if not (self.log.is_written_behind and cast(StagedLog, self.log).has_behind):
            done, self._on_idle = self._on_idle, None
            done()
        elif self.log.failure is not None and not isinstance(self.log.failure, CorruptSegment):
            self._host.try_later(self)  # Nobody writes behind a log that has failed, before it is cut back.

    def take(self) -> None:
        """Use a log again that was released and has become idle; the owner cuts it back and reads it next."""
        assert not self._flushes, "a log is taken once it is idle"
        self._transition(LogTrigger.TAKEN)

    # The deletion of its topic.

    def close(self) -> None:
        """Refuse appends and flushes while the files are deleted. The flush under way still answers what waits."""
        if not self.is_closed:
            self._transition(LogTrigger.CLOSED)
            if self.state is CLOSED_FAILED:
                self.epoch += 1  # The report of a recovery that is under way is ignored.

    def reopen(self) -> None:
        """Take appends again, after the topic could not be deleted; what was staged before is kept."""
        self._transition(LogTrigger.REOPENED)
        self._schedule_retry(None)
        self.flush()

    def release_owner(self, error: ErrorCode) -> None:
        """Answer all that waits with `error` and drop the owner, after the files' deletion: both can be freed."""
        self.epoch += 1
        self._queue.fail(error)
        self._owner = None
        self.listeners.clear()

    def _transition(self, trigger: LogTrigger) -> None:
        """Move along TRANSITIONS; the only code that assigns `state`."""
        self.state = next_state(TRANSITIONS, self.state, trigger)


def _no_timer(deadline_ms: int) -> None:
    raise AssertionError("without a timeout there is no deadline")


def _failure_trigger(error: BaseException) -> LogTrigger:
    """Return the trigger for an attempt to open, read or cut back a log that ended with `error`."""
    if not isinstance(error, StorageError) or isinstance(error, CorruptSegment):
        return LogTrigger.DAMAGED
    return LogTrigger.DISK_FULL if error.is_no_room else LogTrigger.UNUSABLE
