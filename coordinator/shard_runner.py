"""One shard and its log: carries out what the shard asks for, and keeps replies behind the disk.

The records of all events of a turn gather into one batch; it is cut when the log has no flush under
way, so a batch is as large as the disk is slow and nothing waits for a fixed linger. State is replayed
at once; a reply leaves when the log is durable up to what its handler had seen, or says an error when that
takes too long. A disk error fails the shard: everybody who waits is answered with the mapped error and the
state is read again from the log.

When the disk was full, the shard then stands still until there is room: requests that may write are refused
before they are looked at, and timers wait. So no handler has to know, and nothing is forgotten that could
not be written. Heartbeats, fetches and whatever else only reads go on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import structlog

from coordinator.effects import (
    AppendFinished,
    Event,
    GroupEvent,
    Record,
    Reply,
    RequestContext,
    RequestReceived,
    Result,
    TimerFired,
    TopicDeleted,
)
from coordinator.groups.failures import loading_answer
from coordinator.groups.records import encode_record
from coordinator.groups.shard import Shard
from coordinator.held import Asked, Held, HeldQueue
from coordinator.loading import Loaded
from protocol.errors import EncodeError, ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.records import BATCH_OVERHEAD, Codec, encode_batch
from protocol.records import Record as LogRecord
from storage.files import StorageError
from storage.partition_log import PartitionLog

log = structlog.get_logger("muster.shard")

MAY_WRITE: Final = frozenset(
    {OffsetCommitRequest, JoinGroupRequest, LeaveGroupRequest, DeleteGroupsRequest, OffsetDeleteRequest}
)
"""What a shard does not take on while there is no room. SyncGroup is not among them: a shard that stands still
was just read from its log, and no group in it waits for an assignment."""

NO_ROOM_ANSWER: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The code that clients repeat with the same member id and generation, after another look for the coordinator
(which finds us). So is NOT_COORDINATOR, but that would say there is another one."""

RECORD_OVERHEAD_BYTES = 24
"""At most so much does a record add to a batch beside its key and value (varints of lengths and deltas)."""


class Answerable(Protocol):
    """What a `ReplyTo` is to a shard's runner: a place to put the answer."""

    def reply(self, response: Any) -> None: ...


class World(Protocol):
    """What a runner needs of the runtime."""

    def now_ms(self) -> int: ...
    def wall_ms(self) -> int: ...
    def set_timer(self, key: tuple[Any, ...], deadline_ms: int | None) -> None: ...
    def record_history(self, events: tuple[GroupEvent, ...]) -> None: ...
    def on_dirty(self, runner: ShardRunner) -> None: ...
    def schedule_flush(self, log: PartitionLog, done: Callable[[StorageError | None], None]) -> None: ...
    def reload(self, runner: ShardRunner) -> None: ...
    def wait_for_room(self, runner: ShardRunner, error: StorageError) -> None: ...


class ShardState(Enum):
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()


class Overdue:
    """The name of a runner's own timer, among those of its shard: the first of what it holds is overdue."""


OVERDUE: Final = Overdue()


class ShardRunner:
    """Drives one `Shard` on one `PartitionLog`; all calls on the event-loop thread."""

    def __init__(
        self,
        partition: int,
        partition_log: PartitionLog,
        world: World,
        on_durable: Callable[[], None],
        *,
        max_batch_bytes: int,
        codec: Codec,
        commit_timeout_ms: int,
    ) -> None:
        """`on_durable` is told whenever the log's durable end has moved: consumers may read that far."""
        self.partition = partition
        self.log = partition_log
        self.state = ShardState.LOADING
        self.shard: Shard | None = None
        self._world = world
        self._on_durable = on_durable
        self._max_batch_bytes = max_batch_bytes  # Before compression, and after.
        self._codec = codec
        self._gathered: list[LogRecord] = []
        self._gathered_bytes = BATCH_OVERHEAD
        self._is_flushing = False
        self._commit_timeout_ms = commit_timeout_ms
        self._held = HeldQueue()
        self._overdue_timer_is_set = False
        # Request and API version of whoever is parked. Weak, so nothing in it may name the key: a request whose
        # connection is gone, and that no member holds any more, needs no answer.
        self._parked: WeakKeyDictionary[Any, tuple[Any, int]] = WeakKeyDictionary()
        self._current: Asked | None = None
        self._missed: list[
            TopicDeleted
        ] = []  # While not serving; as many as topics can be deleted meanwhile.
        self._is_full = False  # Of the disk: nothing is written until there is room.
        self._late_timers: dict[Hashable, None] = {}  # Came meanwhile.
        self._life = 0  # Timers of an earlier life, before a failure, mean nothing in this one.

    # Events in.

    def request(self, request: Any, context: RequestContext) -> None:
        """Handle one request of a group that lives here; it is answered through `context.reply_to`."""
        asked = Asked(context.reply_to, request, context.api_version)
        if self.shard is None:
            self._refuse(asked)
            return
        if self._is_full and type(request) in MAY_WRITE:
            asked.fail(NO_ROOM_ANSWER)
            return
        self._current = asked
        self._handle(RequestReceived(request, context))
        if self._current is not None:
            self._parked[asked.reply_to] = (asked.request, asked.api_version)
            self._current = None

    def _refuse(self, asked: Asked) -> None:
        is_loading = self.state is ShardState.LOADING
        asked.fail(loading_answer(asked.request) if is_loading else ErrorCode.NOT_COORDINATOR)

    def timer_fired(self, life: int, key: Hashable) -> None:
        if life != self._life:
            return
        if key is OVERDUE:
            self._give_up_overdue()
        elif self._is_full:
            self._late_timers[key] = None
        else:
            self._handle(TimerFired(key, self._world.wall_ms()))

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        deleted = TopicDeleted(topic, topic_id, self._world.wall_ms())
        if self.shard is None or self._is_full:
            self._missed.append(deleted)  # The log will bring offsets of the topic back, or has no room.
        else:
            self._handle(deleted)

    def _handle(self, event: Event) -> None:
        if self.shard is None:
            return  # For a life that has ended: what the log holds of it will be read again.
        try:
            self._carry_out(self.shard.handle(event, self._world.now_ms()))
        except Exception as error:  # Ours or the log's: `_fail_on` tells them apart and ends this life.
            self._fail_on(error, event)

    # Effects out, in the order of `Result`'s fields.

    def _carry_out(self, result: Result) -> None:
        error = self._append_all(result) if result.records else ErrorCode.NONE
        for reply in result.replies:
            self._reply(reply, error)
        for reply_to in result.superseded:
            self._parked.pop(reply_to, None)
        for timer in result.timers:
            self._world.set_timer((self, self._life, timer.key), timer.deadline_ms)
        if result.history:
            self._world.record_history(result.history)
        if result.then is None:
            return
        if error:
            self._handle(AppendFinished(result.then, error, self._world.wall_ms()))
        else:
            self._hold(None, None, result.then)

    def _append_all(self, result: Result) -> ErrorCode:
        if result.atomic:
            return self._append(result.records)
        for record in result.records:
            error = self._append((record,))
            assert error is ErrorCode.NONE, "a single tombstone always fits"
        return ErrorCode.NONE

    def _append(self, records: tuple[Record, ...]) -> ErrorCode:
        """Gather and replay `records`; what is too large is refused before it is appended."""
        assert not self._is_full, "a shard that stands still does not write"
        wall_ms = self._world.wall_ms()
        try:
            encoded = [LogRecord(*encode_record(record), timestamp_ms=wall_ms) for record in records]
        except EncodeError:  # A text of a client's that is longer than a record's can be.
            return ErrorCode.RECORD_LIST_TOO_LARGE
        size_bytes = sum(
            len(entry.key or b"") + len(entry.value or b"") + RECORD_OVERHEAD_BYTES for entry in encoded
        )
        if BATCH_OVERHEAD + size_bytes > self._max_batch_bytes:
            return ErrorCode.RECORD_LIST_TOO_LARGE
        if self._gathered_bytes + size_bytes > self._max_batch_bytes:
            self._cut()
        assert self.shard is not None
        for offset, record in enumerate(records, self.position):
            self.shard.replay(record, offset)
        self._gathered += encoded
        self._gathered_bytes += size_bytes
        self._world.on_dirty(self)
        return ErrorCode.NONE

    @property
    def position(self) -> int:
        """The offset that the next record gets: everything below has been replayed."""
        return self.log.next_offset + len(self._gathered)

    def _reply(self, reply: Reply, error: ErrorCode) -> None:
        is_own = self._current is not None and self._current.reply_to is reply.reply_to
        asked = self._take_asked(reply.reply_to)
        if error and is_own:  # Replies to others do not speak of what was refused.
            asked.fail(error)
        elif reply.reveals_stored and self.position > self.log.durable_offset:
            self._hold(asked, reply.response, None)
        else:
            asked.reply_to.reply(reply.response)

    def _take_asked(self, reply_to: Any) -> Asked:
        current = self._current
        if current is not None and current.reply_to is reply_to:
            self._current = None
            return current
        return Asked(reply_to, *self._parked.pop(reply_to))

    # The disk.

    def end_turn(self) -> None:
        """Cut what this turn gathered and flush it, unless a flush is under way: then it goes with the next."""
        if self._is_flushing or not self._gathered:
            return
        try:
            self._cut()
        except Exception as error:  # As in `_handle`.
            self._fail_on(error, "cut")
            return
        self._is_flushing = True
        life = self._life
        self._world.schedule_flush(self.log, lambda error: self._on_flushed(life, error))

    def _cut(self) -> None:
        base_offset = self.log.next_offset
        batch = encode_batch(self._gathered, base_offset=base_offset, codec=self._codec)
        if len(batch) > self._max_batch_bytes:  # Some things only grow when they are compressed.
            batch = encode_batch(self._gathered, base_offset=base_offset)
        self._gathered, self._gathered_bytes = [], BATCH_OVERHEAD
        self.log.append(batch, wall_ms=self._world.wall_ms())

    def _on_flushed(self, life: int, error: StorageError | None) -> None:
        if life != self._life:
            return  # Whoever waited for it has been answered; what it wrote is read with the rest of the log.
        self._is_flushing = False
        if error is not None:
            self._fail_on(error, "flush")
            return
        self._release(self.log.durable_offset)
        self.end_turn()
        self._on_durable()

    def _fail_on(self, error: Exception, event: object) -> None:
        """The disk's fault, or ours: then this shard's soft state cannot be trusted, but the log can.

        The disk's may come to light in any event: the log refuses appends before its flush has told us why.
        """
        if isinstance(error, StorageError) and error.is_no_room:
            self._stand_still(error)
            self.fail(NO_ROOM_ANSWER)
        elif isinstance(error, StorageError):
            log.error("offsets partition failed", partition=self.partition, error=str(error))
            self.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            shard_event = repr(event)[:500]
            log.exception("shard failed on an event", partition=self.partition, shard_event=shard_event)
            self.fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _hold(self, asked: Asked | None, response: Any, then: Any) -> None:
        deadline_ms = self._world.now_ms() + self._commit_timeout_ms
        self._held.add(Held(self.position, deadline_ms, asked, response, then))
        if not self._overdue_timer_is_set:
            self._set_overdue_timer(deadline_ms)

    def _release(self, durable_offset: int) -> None:
        """Answer, and hand back, whatever waited for the log to be durable this far."""
        for due in self._held.durable(durable_offset):
            if due.asked is not None:
                due.asked.reply_to.reply(due.response)
            else:
                self._handle(AppendFinished(due.then, ErrorCode.NONE, self._world.wall_ms()))

    def _give_up_overdue(self) -> None:
        """The disk hangs: tell whoever has waited too long. Their records may yet become durable (3.88)."""
        self._overdue_timer_is_set = False
        for late in self._held.overdue(self._world.now_ms()):
            if late.asked is not None:
                late.asked.fail(ErrorCode.REQUEST_TIMED_OUT)
            else:
                self._handle(AppendFinished(late.then, ErrorCode.REQUEST_TIMED_OUT, self._world.wall_ms()))
        deadline_ms = self._held.next_deadline_ms
        if deadline_ms is not None and not self._overdue_timer_is_set:
            self._set_overdue_timer(deadline_ms)

    def _set_overdue_timer(self, deadline_ms: int) -> None:
        self._overdue_timer_is_set = True
        self._world.set_timer((self, self._life, OVERDUE), deadline_ms)

    # Lives.

    def start(self, loaded: Loaded) -> None:
        """Serve with a shard into which the whole log has been replayed."""
        self.shard, self.state = loaded.shard, ShardState.ACTIVE
        self._carry_out(loaded.result)
        failure = self.log.failure
        if failure is not None and failure.is_no_room:
            self._stand_still(failure)
        if not self._is_full:
            self._catch_up()

    def _catch_up(self) -> None:
        """Handle what came while this shard did not serve, or not write."""
        late, self._late_timers = self._late_timers, {}
        for key in late:
            self._handle(TimerFired(key, self._world.wall_ms()))
        missed, self._missed = self._missed, []
        for deleted in missed:
            self._handle(deleted)

    # No room.

    def _stand_still(self, error: StorageError) -> None:
        self._is_full = True
        self._world.wait_for_room(self, error)

    def try_again(self) -> None:
        """There is room: go on where it stopped, with full sessions for members that could not join again.

        A shard that is being read finds out when it starts. To have it read twice would cut off, under the life
        that the first reading began, what that has appended since.
        """
        self._is_full = False
        if self.shard is None:
            return
        if self.log.failure is not None:
            self.fail(NO_ROOM_ANSWER)  # Not even cut back yet.
        else:
            self._carry_out(self.shard.renew_sessions(self._world.now_ms()))
            self._catch_up()

    def stop(self) -> None:
        """Serve no more: whoever still waits in a Join or Sync is sent to look for the coordinator (3.73).

        What has been appended is still flushed, and its replies go out; but nothing follows from it any more.
        """
        self.shard, self.state = None, ShardState.FAILED
        for asked in self._take_parked():
            asked.fail(ErrorCode.NOT_COORDINATOR)

    def fail(self, error: ErrorCode) -> None:
        """Drop this life: answer everybody who waits with `error`, forget the state, read the log again.

        What is not durable by then is cut off the log, as if it had never been.
        """
        self.shard, self.state = None, ShardState.LOADING
        self._life += 1
        self._is_flushing = False
        self._gathered, self._gathered_bytes = [], BATCH_OVERHEAD
        self._overdue_timer_is_set = False
        self._late_timers.clear()
        waiting = self._held.clear()
        if self._current is not None:
            waiting.append(self._current)
            self._current = None
        for asked in waiting + self._take_parked():
            asked.fail(error)
        self._world.reload(self)

    def gave_up(self) -> None:
        """The log could not be read: this shard answers NOT_COORDINATOR; the others go on."""
        self.state = ShardState.FAILED

    def _take_parked(self) -> list[Asked]:
        parked = [Asked(reply_to, *asked) for reply_to, asked in self._parked.items()]
        self._parked.clear()
        return parked
