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

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import structlog

from coordinator.effects import (
    AppendFinished,
    Event,
    GroupEvent,
    MarkersWanted,
    MarkersWritten,
    PreparedCommitReceived,
    ProducerAndEpoch,
    Records,
    Reply,
    RequestContext,
    RequestReceived,
    Result,
    TimerFired,
    TimerKey,
    TopicDeleted,
)
from coordinator.purgatory.delayed import TimerOwner
from coordinator.runtime.held import Done, HeldQueue
from coordinator.runtime.loading import Loaded
from coordinator.runtime.open_batch import OpenBatch
from coordinator.runtime.shard_kind import S, ShardKind, ShardTimer
from protocol.errors import EncodeError, ErrorCode
from protocol.records.records import Codec
from storage.files import StorageError
from storage.log.partition_log import PartitionLog

log = structlog.get_logger("muster.shard")

NO_ROOM_ANSWER: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The code that clients repeat with the same member id and generation, after another look for the coordinator
(which finds us). So is NOT_COORDINATOR, but that would say there is another one."""


class World(Protocol):
    """What a runner needs of the runtime."""

    def now_ms(self) -> int: ...
    def wall_ms(self) -> int: ...
    def set_timer(self, owner: TimerOwner[ShardTimer], key: ShardTimer, deadline_ms: int | None) -> None: ...
    def record_history(self, events: tuple[GroupEvent, ...]) -> None: ...
    def on_dirty(self, runner: ShardRunner[Any]) -> None: ...
    def schedule_flush(self, log: PartitionLog, done: Callable[[StorageError | None], None]) -> None: ...
    def reload(self, runner: ShardRunner[Any]) -> None: ...
    def wait_for_room(self, runner: ShardRunner[Any], error: StorageError) -> None: ...
    def write_markers(self, wanted: MarkersWanted, done: Callable[[], None]) -> None: ...


class ShardState(Enum):
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()


class Overdue:
    """The name of a runner's own timer, among those of its shard: the first of what it holds is overdue."""


OVERDUE: Final = Overdue()


class Asked(NamedTuple):
    """What was asked, kept while it is unanswered: an error reply has the shape of its request."""

    reply_to: Any
    request: Any
    api_version: int


class ShardRunner(Generic[S]):
    """Drives one shard on one `PartitionLog`; all calls on the event-loop thread."""

    def __init__(
        self,
        kind: ShardKind[S],
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
        self.kind = kind
        self.partition = partition
        self.log = partition_log
        self.state = ShardState.LOADING
        self.shard: S | None = None
        self._world = world
        self._on_durable = on_durable
        self._open = OpenBatch(partition_log, max_batch_bytes, codec)
        self._is_dirty = False  # Something was written that no flush has been asked for yet.
        self._is_flushing = False
        # As the loop knows it: the log's own moves on another thread, ahead of the last stable offset.
        self._durable_offset = 0
        self._held = HeldQueue(commit_timeout_ms, self._set_overdue_timer)
        # Request and API version of whoever is parked. Weak, so nothing in it may name the key: a request whose
        # connection is gone, and that no member holds any more, needs no answer.
        self._parked: WeakKeyDictionary[Any, tuple[Any, int]] = WeakKeyDictionary()
        self._current: Asked | None = None
        self._is_full = False  # Of the disk: nothing is written until there is room.
        # What came while not serving, or not writing; as many as topics can be deleted meanwhile, or
        # transactions were being ended before.
        self._missed: list[TopicDeleted | MarkersWritten] = []
        self._late_timers: dict[TimerKey, None] = {}
        self._life = 0  # Timers of an earlier life, before a failure, mean nothing in this one.

    # Events in.

    def request(self, request: Any, context: RequestContext) -> None:
        """Handle one request of what lives here; it is answered through `context.reply_to`."""
        asked = Asked(context.reply_to, request, context.api_version)
        if self.shard is None:
            self._refuse(asked)
            return
        if self._is_full and type(request) in self.kind.may_write:
            self._fail_one(asked, NO_ROOM_ANSWER)
            return
        self._current = asked
        self._handle(RequestReceived(request, context, self._world.wall_ms()))
        self._park_current()

    def request_prepared(self, event: PreparedCommitReceived) -> None:
        """Handle a commit that is current, so that this shard serves and may write."""
        commit, _, reply_to, _ = event
        self._current = Asked(reply_to, commit.request, commit.api_version)
        self._handle(event)

    @property
    def may_write(self) -> bool:
        """Whether the disk takes what the shard appends."""
        return not self._is_full

    def _park_current(self) -> None:
        """Keep the request at hand, unless it has been answered."""
        asked, self._current = self._current, None
        if asked is not None:
            self._parked[asked.reply_to] = (asked.request, asked.api_version)

    def _refuse(self, asked: Asked) -> None:
        is_loading = self.state is ShardState.LOADING
        error = self.kind.loading_answer(asked.request) if is_loading else ErrorCode.NOT_COORDINATOR
        self._fail_one(asked, error)

    def _fail_one(self, asked: Asked, error: ErrorCode) -> None:
        asked.reply_to.reply(self.kind.error_response(asked.request, error, asked.api_version))

    def timer_fired(self, timer: ShardTimer) -> None:
        life, key = timer
        if life != self._life:
            return
        if key is OVERDUE:
            self._held.give_up_overdue(self._world.now_ms())
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
        records, replies, timers, history, then, superseded, markers, atomic, producer = result
        error = ErrorCode.NONE
        if records:
            error = self._append(records, producer) if atomic else self._append_each(records)
        for reply in replies:
            self._reply(reply, error)
        for reply_to in superseded:
            self._parked.pop(reply_to, None)
        for timer in timers:
            self._world.set_timer(self, ShardTimer(self._life, timer.key), timer.deadline_ms)
        if history:
            self._world.record_history(history)
        for wanted in () if error else markers:
            self._want_markers(wanted)
        if then is None:
            return
        if error:
            self._finish(then, error)
        else:
            self._hold(lambda outcome: self._finish(then, outcome))

    def _finish(self, then: Any, error: ErrorCode) -> None:
        self._handle(AppendFinished(then, error, self._world.wall_ms()))

    def _want_markers(self, wanted: MarkersWanted) -> None:
        """Begin when all that was written so far is durable, however long that takes.

        If it never will be the log is read again, and a shard that still needs them asks anew.
        """
        if self.position > self._durable_offset:
            self._hold_markers(self._life, wanted)
        else:
            self._begin_markers(self._life, wanted, ErrorCode.NONE)

    def _hold_markers(self, life: int, wanted: MarkersWanted) -> None:
        self._hold(lambda outcome: self._begin_markers(life, wanted, outcome))

    def _begin_markers(self, life: int, wanted: MarkersWanted, outcome: ErrorCode) -> None:
        if outcome is ErrorCode.REQUEST_TIMED_OUT:
            self._hold_markers(life, wanted)
        elif not outcome:
            self._world.write_markers(wanted, lambda: self._markers_written(life, wanted.then))

    def _markers_written(self, life: int, then: Any) -> None:
        if life != self._life:
            return  # The shard has asked again since, if its log still says so.
        written = MarkersWritten(then, self._world.wall_ms())
        if self._is_full:
            self._missed.append(written)
        else:
            self._handle(written)

    def _append_each(self, records: Records) -> ErrorCode:
        for record in records:
            error = self._append((record,))
            assert error is ErrorCode.NONE, "a single tombstone always fits"
        return ErrorCode.NONE

    def _append(self, records: Records, producer: ProducerAndEpoch | None = None) -> ErrorCode:
        """Gather and replay `records`; what is too large is refused before it is appended."""
        assert not self._is_full, "a shard that stands still does not write"
        wall_ms = self._world.wall_ms()
        try:
            encode = self.kind.encode
            if len(records) == 1:
                encoded = encode(records[0], wall_ms)
            else:
                encoded = [each for record in records for each in encode(record, wall_ms)]
        except EncodeError:  # A text of a client's that is longer than a record's can be.
            return ErrorCode.RECORD_LIST_TOO_LARGE
        offset = self.position  # Of the first of them, whether `add` cuts what is before them or not.
        if not self._open.add(encoded, wall_ms, producer):
            return ErrorCode.RECORD_LIST_TOO_LARGE
        shard = self.shard
        assert shard is not None
        for record in records:
            shard.replay(record, offset, producer)
            offset += record.count
        self._note_dirty()
        return ErrorCode.NONE

    def _note_dirty(self) -> None:
        self._is_dirty = True
        self._world.on_dirty(self)

    @property
    def position(self) -> int:
        """The offset that the next record gets: everything below has been replayed."""
        return self._open.position

    def _reply(self, reply: Reply, error: ErrorCode) -> None:
        reply_to, response, reveals_stored = reply
        asked = self._current
        if asked is not None and asked.reply_to is reply_to:
            self._current = None
            if error:  # Replies to others do not speak of what was refused.
                self._fail_one(asked, error)
                return
        else:
            asked = Asked(reply_to, *self._parked.pop(reply_to))
        position = self._open.position
        if reveals_stored and position > self._durable_offset:
            done = partial(self._answer, asked, response)
            self._held.add(position, self._world.now_ms(), done)
        else:
            asked.reply_to.reply(response)

    def _answer(self, asked: Asked, response: Any, error: ErrorCode) -> None:
        if error:
            self._fail_one(asked, error)
        else:
            asked.reply_to.reply(response)

    # The disk.

    def end_turn(self) -> None:
        """Cut what this turn gathered and flush it, unless a flush is under way: then it goes with the next."""
        if self._is_flushing or not self._is_dirty:
            return
        try:
            self._open.cut(self._world.wall_ms())
        except Exception as error:  # As in `_handle`.
            self._fail_on(error, "cut")
            return
        self._is_flushing, self._is_dirty = True, False
        life = self._life
        self._world.schedule_flush(self.log, lambda error: self._on_flushed(life, error))

    def _on_flushed(self, life: int, error: StorageError | None) -> None:
        if life != self._life:
            return  # Whoever waited for it has been answered; what it wrote is read with the rest of the log.
        self._is_flushing = False
        if error is not None:
            self._fail_on(error, "flush")
            return
        self._durable_offset = self.log.durable_offset
        self._held.release(self._durable_offset)
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
            log.error(f"{self.kind.partition_name} failed", partition=self.partition, error=str(error))
            self.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            shard_event = repr(event)[:500]
            log.exception("shard failed on an event", partition=self.partition, shard_event=shard_event)
            self.fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _hold(self, done: Done) -> None:
        """Tell `done` when all that was written so far is durable, or that it takes too long."""
        self._held.add(self.position, self._world.now_ms(), done)

    def _set_overdue_timer(self, deadline_ms: int) -> None:
        self._world.set_timer(self, ShardTimer(self._life, OVERDUE), deadline_ms)

    # Lives.

    def start(self, loaded: Loaded[S]) -> None:
        """Serve with a shard into which the whole log has been replayed.

        Without room it writes nothing: `resume` asks again for the records that bring it to life.
        """
        self.shard, self.state = loaded.shard, ShardState.ACTIVE
        self._durable_offset = self.log.durable_offset
        failure = self.log.failure
        if failure is not None and failure.is_no_room:
            self._stand_still(failure)
        self._carry_out(loaded.result._replace(records=()) if self._is_full else loaded.result)
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
        """There is room: go on where it stopped; the shard learns that it may write again.

        A shard that is being read finds out when it starts. To have it read twice would cut off, under the life
        that the first reading began, what that has appended since.
        """
        self._is_full = False
        if self.shard is None:
            return
        if self.log.failure is not None:
            self.fail(NO_ROOM_ANSWER)  # Not even cut back yet.
        else:
            self._carry_out(self.shard.resume(self._world.now_ms()))
            self._catch_up()

    def stop(self) -> None:
        """Serve no more: whoever is still parked is sent to look for the coordinator (3.73).

        What has been appended is still flushed, and its replies go out; but nothing follows from it any more.
        """
        self.shard, self.state = None, ShardState.FAILED
        for asked in self._take_parked():
            self._fail_one(asked, ErrorCode.NOT_COORDINATOR)

    def fail(self, error: ErrorCode) -> None:
        """Drop this life: answer everybody who waits with `error`, forget the state, read the log again.

        What is not durable by then is cut off the log, as if it had never been.
        """
        self.shard, self.state = None, ShardState.LOADING
        self._life += 1
        self._is_flushing = self._is_dirty = False
        self._open.forget()
        self._late_timers.clear()
        self._missed = [missed for missed in self._missed if isinstance(missed, TopicDeleted)]
        current, self._current = self._current, None
        self._held.fail(error)
        for asked in ([] if current is None else [current]) + self._take_parked():
            self._fail_one(asked, error)
        self._world.reload(self)

    def gave_up(self) -> None:
        """The log could not be read: this shard answers NOT_COORDINATOR; the others go on."""
        self.state = ShardState.FAILED

    def _take_parked(self) -> list[Asked]:
        parked = [Asked(reply_to, *asked) for reply_to, asked in self._parked.items()]
        self._parked.clear()
        return parked
