"""One shard and its log: carries out the shard's effects, and holds replies until the log is durable.

The records of all events of a turn gather into one batch; it is cut when the log begins a flush, so there is
no fixed linger. Records are replayed at once; a reply is sent when the log is durable up to the last record its
handler had seen, or as an error when that takes too long. A failure of the log, or a bug in the shard, ends the
log's epoch (`DurableLog`): all waiting requests get the mapped error, and the state is read again from the log.

While the log is paused for want of disk space, requests that may write are refused before they are handled,
and timers are held back. So no handler has to know of the pause, and none changes state that could not be
written. Heartbeats, fetches and other requests that only read are served.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, Protocol
from weakref import WeakKeyDictionary

import structlog

from coordinator.effects import (
    Event,
    HistoryRow,
    MarkersWanted,
    MarkersWritten,
    ProducerAndEpoch,
    Records,
    Reply,
    RequestContext,
    RequestReceived,
    Result,
    TimerFired,
    TimerKey,
    TopicDeleted,
    WorkFinished,
    new_tuple,
    rows_in_spite_of_refusal,
)
from coordinator.purgatory.delayed import TimerOwner
from coordinator.runtime.background import ask
from coordinator.runtime.gathered_commits import (
    GatheredCommits,
    GatheringHost,
    PendingRequest,
)
from coordinator.runtime.loading import Loaded
from coordinator.runtime.open_batch import OpenBatch
from coordinator.runtime.shard_kind import FinalState, S, ShardKind, ShardTimer
from coordinator.runtime.shard_states import (
    ACTIVE,
    CLOSED,
    ELSEWHERE,
    LOADING,
    TRANSITIONS,
    ShardState,
    ShardTrigger,
)
from protocol.errors import EncodeError, ErrorCode
from protocol.records.records import Codec
from storage.files import StorageError
from storage.log.durable_log import DurableLog
from storage.log.log_states import ACTIVE as LOG_ACTIVE
from storage.log.transitions import next_state

log = structlog.get_logger("muster.shard")

NO_ROOM_ANSWER: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The answer while the log cannot be written. Clients then look for the coordinator, find this daemon again, and
repeat the request with the same member id and generation. NOT_COORDINATOR would do, but suggests another one."""


class RunnerHost(GatheringHost, Protocol):
    """What a runner needs of the runtime."""

    def wall_ms(self) -> int: ...
    def set_timer(self, owner: TimerOwner[ShardTimer], key: ShardTimer, deadline_ms: int | None) -> None: ...
    def record_history(self, rows: tuple[HistoryRow, ...]) -> None: ...
    @property
    def count_records(self) -> Callable[[Event, Records], None]: ...
    def reload(self, runner: ShardRunner[Any]) -> None: ...
    def send(self, reply_to: Any, response: Any) -> None: ...
    def do(self, action: Callable[[], None]) -> None: ...
    def soon(self, action: Callable[[], None]) -> None: ...
    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None: ...
    def run_in_slices(self, steps: Generator[str, bool, object], done: Callable[[Any], None]) -> None: ...
    def write_markers(
        self, wanted: MarkersWanted, done: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None: ...


class ShardRunner(Generic[S]):
    """Drives one shard on one log, which it owns; all calls on the event-loop thread."""

    def __init__(
        self,
        kind: ShardKind[S],
        partition: int,
        durable_log: DurableLog,
        host: RunnerHost,
        *,
        max_batch_bytes: int,
        codec: Codec,
        commit_timeout_ms: int,
    ) -> None:
        self.kind = kind
        self.partition = partition
        self.durable_log = durable_log
        self.log = durable_log.log
        self.state: ShardState = LOADING
        self.shard: S | None = None
        self.final: FinalState | None = None  # For a snapshot, after `stop`; None if the log fails after all.
        self.may_answer: Callable[[], bool] | None = None
        """Whether this node still leads the shard; None: nobody else can. Set for a log that others may take."""
        self.has_room: Callable[[], bool] = _always
        """Whether such a log takes more for now. Others wait for room by themselves."""
        self._host = host
        self._open_batch = OpenBatch(durable_log, max_batch_bytes, codec)
        # Request and API version of each parked request. Weak, so no value may refer to its key: a request whose
        # connection is gone, and that no member holds any more, needs no answer.
        self._parked: WeakKeyDictionary[Any, tuple[Any, int]] = WeakKeyDictionary()
        self._current: PendingRequest | None = None
        # Events that came while the shard did not serve or write. Bounded by the topics that can be deleted
        # meanwhile, by the transactions whose markers were being written, and by the work that was under way.
        self._missed: list[TopicDeleted | MarkersWritten | WorkFinished] = []
        self._late_timers: dict[TimerKey, None] = {}
        self.gathered = GatheredCommits(self, host, durable_log)
        durable_log.claim(self, commit_timeout_ms)

    # Events in.

    def request(self, request: Any, context: RequestContext) -> None:
        """Handle one request for this shard; it is answered through `context.reply_to`."""
        pending = new_tuple(PendingRequest, (context.reply_to, request, context.api_version))
        if self.state is not ACTIVE:
            is_loading = self.state is LOADING
            error = self.kind.loading_answer(request) if is_loading else ErrorCode.NOT_COORDINATOR
            self.fail_one(pending, error)
            return
        if self.may_answer is not None and (error := self.refusal(request)):
            self.fail_one(pending, error)
            return
        if self.durable_log.state is not LOG_ACTIVE and type(request) in self.kind.may_write:
            self.fail_one(pending, NO_ROOM_ANSWER)
            return
        self._handle_request(pending, RequestReceived(request, context, self._host.wall_ms()))

    def refusal(self, request: Any) -> ErrorCode:
        """Of a log that others may take: why a request is refused; NONE if it is not."""
        if self.may_answer is not None and not self.may_answer():
            return ErrorCode.NOT_COORDINATOR
        is_refused = type(request) in self.kind.may_write and not self.has_room()
        return NO_ROOM_ANSWER if is_refused else ErrorCode.NONE

    def _handle_request(self, pending: PendingRequest, event: RequestReceived) -> None:
        self._current = pending
        self.handle(event)
        unanswered = _take_current(self)
        if unanswered is not None:
            self._parked[unanswered.reply_to] = (unanswered.request, unanswered.api_version)

    @property
    def may_write(self) -> bool:
        """Whether the shard may append to its log, which is neither paused nor failed."""
        return self.durable_log.state is LOG_ACTIVE

    def fail_one(self, pending: PendingRequest, error: ErrorCode) -> None:
        response = self.kind.error_response(pending.request, error, pending.api_version)
        self._host.send(pending.reply_to, response)

    def timer_fired(self, timer: ShardTimer) -> None:
        epoch, key = timer
        if epoch != self.durable_log.epoch:
            return
        if self.may_write and (self.may_answer is None or self.may_answer()):
            self.handle(TimerFired(key, self._host.wall_ms()))
        else:
            self._late_timers[key] = None

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        if self.state is ELSEWHERE:
            return  # Whoever leads the shard is told as well; a load finds out by itself.
        self.handle_or_keep(TopicDeleted(topic, topic_id, self._host.wall_ms()))

    def handle_or_keep(self, event: TopicDeleted | MarkersWritten | WorkFinished) -> None:
        """Handle an event that writes, or keep it while the shard is being loaded, or its log is paused."""
        if self.may_write:
            self.handle(event)
        else:
            self._missed.append(event)

    def handle(self, event: Event) -> None:
        self.gathered.handle()
        shard = self.shard
        if shard is None:
            return  # The epoch has ended: its events are dropped, and the log will be read again.
        try:
            now_ms = self._host.now_ms()
            result = shard.handle(event, now_ms)
            error = self._carry_out(result, now_ms, event.wall_ms)
            if result.records and not error:
                self._host.count_records(event, result.records)
        except Exception as error:  # The disk's or a bug: `fail_on` finds out which.
            self.fail_on(error, event)

    def fail_on(self, error: Exception, event: object) -> None:
        """End the log's epoch, after an error of the disk or a bug; after a bug the soft state may be wrong."""
        if not isinstance(error, StorageError):
            shard_event = repr(event)[:500]
            log.exception("shard failed on an event", partition=self.partition, shard_event=shard_event)
        self.durable_log.fail(error)

    # Effects out, in the order of `Result`'s fields.

    def _carry_out(self, result: Result, now_ms: int, wall_ms: int) -> ErrorCode:
        """Do what `result` asks for; return the error if its records were refused."""
        records, replies, timers, history, then, superseded, markers, atomic, producer, marker, work, go = (
            result
        )
        error = ErrorCode.NONE
        if records:
            self._host.on_dirty(self)
            if atomic:
                error = self.append(records, wall_ms, producer)
            else:  # Tombstones, each of which fits.
                for record in records:
                    self.append((record,), wall_ms)
        if marker is not None:
            assert self.shard is not None
            self.shard.replay(marker, self._open_batch.append_marker(marker, wall_ms))
            self._host.on_dirty(self)
        for reply in replies:
            self._reply(reply, error, now_ms)
        for reply_to in superseded:
            self._parked.pop(reply_to, None)
        for timer in timers:
            self._host.set_timer(self, ShardTimer(self.durable_log.epoch, timer.key), timer.deadline_ms)
        if history:
            self._host.record_history(rows_in_spite_of_refusal(history) if error else history)
        if then is not None or markers or work:
            ask(self, self._host, result, error)
        if go is not None:
            self._handle_released(go)
        return error

    def _handle_released(self, group_id: str) -> None:
        """Handle the next event that the shard held back, a request as if it came now; the others follow.

        One at a time: the turn's share sees what each takes.
        """
        event = None if self.shard is None else self.shard.release(group_id)
        if event is None:
            return
        if not isinstance(event, RequestReceived):
            self.handle(event)
        elif (parked := self._parked.pop(event.context.reply_to, None)) is not None:
            self._handle_request(PendingRequest(event.context.reply_to, *parked), event)
        self._host.soon(partial(self._handle_released, group_id))

    def append(self, records: Records, wall_ms: int, producer: ProducerAndEpoch | None = None) -> ErrorCode:
        """Gather and replay `records`; return RECORD_LIST_TOO_LARGE, doing neither, if they fit no batch."""
        assert self.durable_log.state is LOG_ACTIVE, "a shard writes nothing while its log is paused"
        try:
            encode = self.kind.encode
            if len(records) == 1:
                encoded = encode(records[0], wall_ms)
            else:
                encoded = [each for record in records for each in encode(record, wall_ms)]
        except EncodeError:  # A client sent a string that is too long for a record.
            return ErrorCode.RECORD_LIST_TOO_LARGE
        offset = self._open_batch.position  # The first record's, whether `add` cuts before it or not.
        if not self._open_batch.add(encoded, wall_ms, producer):
            return ErrorCode.RECORD_LIST_TOO_LARGE
        shard = self.shard
        assert shard is not None
        for record in records:
            shard.replay(record, offset, producer)
            offset += record.count
        return ErrorCode.NONE

    @property
    def position(self) -> int:
        """The offset that the next record gets: everything below has been replayed."""
        return self._open_batch.position

    def _reply(self, reply: Reply, error: ErrorCode, now_ms: int) -> None:
        reply_to, response, reveals_stored = reply
        pending = self._current
        if pending is not None and pending.reply_to is reply_to:
            self._current = None
            if error:  # Replies to other requests do not show the records that were refused.
                self.fail_one(pending, error)
                return
        else:
            pending = PendingRequest(reply_to, *self._parked.pop(reply_to))
        position, durable_log = self._open_batch.position, self.durable_log
        if reveals_stored and position > durable_log.durable_offset:
            durable_log.when_durable(position, partial(self._answer, pending, response), now_ms)
        else:
            self._host.send(reply_to, response)

    def _answer(self, pending: PendingRequest, response: Any, error: ErrorCode) -> None:
        if error:
            self.fail_one(pending, error)
        else:
            self._host.send(pending.reply_to, response)

    # The log.

    def end_turn(self) -> None:
        """Flush the records of this turn, or with the next flush if one is under way."""
        self.gathered.handle()
        self.durable_log.flush()

    def stage(self) -> None:
        """Cut the open batch, as a flush begins."""
        self.gathered.handle()
        try:
            self._open_batch.cut(self._host.wall_ms())
        except Exception as error:  # As in `handle`.
            self.fail_on(error, "cut")

    def on_failed(self, error: Exception | None) -> ErrorCode:
        """Drop the shard after the log's epoch has ended; return the error for all that waits.

        Records that are not durable by now are cut off the log, as if never written.
        """
        self._transition(ShardTrigger.LOG_FAILED)
        self.final = None
        self._open_batch.forget()
        self._late_timers.clear()
        self._missed = [missed for missed in self._missed if isinstance(missed, TopicDeleted)]
        if error is None:
            return NO_ROOM_ANSWER
        if not isinstance(error, StorageError):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if error.is_no_room:
            return NO_ROOM_ANSWER
        log.error(f"{self.kind.partition_name} failed", partition=self.partition, error=str(error))
        return ErrorCode.KAFKA_STORAGE_ERROR

    def recover(self, answer: ErrorCode) -> None:
        """Answer all parked requests with `answer`, and have the log cut back and read again."""
        current = _take_current(self)
        if current is not None:
            self.fail_one(current, answer)
        self.gathered.fail(answer)
        self._fail_parked(answer)
        if self.state is not CLOSED:
            self._host.reload(self)

    def on_resumed(self) -> None:
        """Go on after a pause of the log: call the shard's `resume`, and handle the events held back."""
        assert self.shard is not None, "a log that is paused has been read"
        try:
            now_ms = self._host.now_ms()
            self._carry_out(self.shard.resume(now_ms), now_ms, self._host.wall_ms())
        except Exception as error:  # As in `handle`.
            self.fail_on(error, "resume")
        self._catch_up()

    # Loading and the end.

    def start(self, loaded: Loaded[S]) -> None:
        """Serve with a shard into which the whole log has been replayed.

        While the log is paused, the records that `loaded` asked for are not written: `resume` asks again.
        """
        if self.state is CLOSED or self.state is ELSEWHERE:
            return
        self.shard = loaded.shard
        self._transition(ShardTrigger.LOADED)
        failure = self.log.failure  # Unless it is want of space, the first append ends the epoch.
        self.durable_log.recovered(failure if failure is not None and failure.is_no_room else None)
        result = loaded.result if self.may_write else loaded.result._replace(records=())
        self._carry_out(result, self._host.now_ms(), self._host.wall_ms())
        if self.may_write:
            self._catch_up()

    def on_load_failed(self, error: BaseException) -> None:
        """Answer NOT_COORDINATOR from now on, as the log could not be read; other shards are not affected."""
        if self.state is not CLOSED and self.state is not ELSEWHERE:
            self._transition(ShardTrigger.LOAD_FAILED)
            self.durable_log.recovered(error)

    def _catch_up(self) -> None:
        """Handle the timers and events that came while this shard did not serve or write."""
        late, self._late_timers = self._late_timers, {}
        for key in late:
            self.handle(TimerFired(key, self._host.wall_ms()))
        missed, self._missed = self._missed, []
        for event in missed:  # Dated now: what they write must not be older than what stands before it.
            self.handle(replace(event, wall_ms=self._host.wall_ms()))

    def release(self) -> None:
        """Serve no more, since another node is to lead the shard: all requests are answered NOT_COORDINATOR.

        Those too that wait for the disk, as in Kafka: whether they took effect the clients do not know.
        """
        self._transition(ShardTrigger.RELEASED)
        self._open_batch.forget()
        self._late_timers.clear()
        self._missed.clear()
        self.durable_log.release(ErrorCode.NOT_COORDINATOR)
        self.gathered.fail(ErrorCode.NOT_COORDINATOR)
        self._fail_parked(ErrorCode.NOT_COORDINATOR)

    def take(self) -> None:
        """Lead the shard from now on; the log is to be cut back and read next, as after a failure."""
        self._transition(ShardTrigger.TAKEN)
        self.durable_log.take()

    def stop(self) -> None:
        """Stop serving: parked requests are answered NOT_COORDINATOR, so clients look for another (3.73).

        Appended records are still flushed and their replies sent, but no further events are handled.
        """
        self.gathered.handle()
        if self.shard is not None:
            self.final = FinalState(self.shard, self.position)
        self._transition(ShardTrigger.STOPPED)
        self._fail_parked(ErrorCode.NOT_COORDINATOR)

    def _fail_parked(self, error: ErrorCode) -> None:
        parked = [PendingRequest(reply_to, *each) for reply_to, each in self._parked.items()]
        self._parked.clear()
        for pending in parked:
            self.fail_one(pending, error)

    def _transition(self, trigger: ShardTrigger) -> None:
        """Move along TRANSITIONS; the only code that assigns `state`. Drops the shard unless ACTIVE."""
        self.state = next_state(TRANSITIONS, self.state, trigger)
        if self.state is not ACTIVE:
            self.shard = None


def _always() -> bool:
    return True


def _take_current(runner: ShardRunner[Any]) -> PendingRequest | None:
    """Return the request at hand, if it is unanswered, and forget it.

    A function: where a request was just assigned mypy takes it for still there, and compiled code insists on it.
    """
    current, runner._current = runner._current, None
    return current
