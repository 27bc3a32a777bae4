"""The loop: event -> shard -> append -> reply; and the timing wheel behind every deadline.

Owns the timing wheel and the shards' runners. The records that handlers wrote in one turn of the event
loop are flushed at its end. One loop timer is armed for the wheel's next bucket, but no
further ahead than PULSE_MS, and none when the wheel is empty. Within a turn first requests come before the joins
of members that have their ids (`deferred_joins`), and those before the timers that are due (`due_timers`).
Knows no sockets and no rules of groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final

import structlog

from coordinator.effects import Event, HistoryRow, MarkersWanted, Records, RequestContext
from coordinator.groups.partitioning import partition_for
from coordinator.purgatory.delayed import K, OwnedTimers, Purgatory, TimerOwner
from coordinator.purgatory.timing_wheel import TimingWheel
from coordinator.runtime.clock import Clock
from coordinator.runtime.deferred_joins import DeferredJoins
from coordinator.runtime.due_timers import DueTimers
from coordinator.runtime.gathered_commits import MOST_WEIGHT
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.outages import Outages
from coordinator.runtime.shard_loader import ShardLoader
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.shard_states import ELSEWHERE
from coordinator.runtime.slices import Slices, cpu_ms
from coordinator.runtime.turn_share import TurnShare, unlimited
from storage.flusher import Flusher
from storage.latencies import Latencies
from storage.log.durable_log import LogHost

log = structlog.get_logger("muster.runtime")

PULSE_MS = 500
"""While any timer is set the loop wakes up at least this often: the length of a stop of the process is known no
more precisely than that, and so much of a stop may count against a deadline."""

UNREAD_TURNS: Final = 12
"""The most turns for which timers that are due wait for sockets to be read: each reads up to 1,024."""

SENT_AT_ONCE = 8
"""Answers to commits that are sent before the turn's share is looked at again: some 10 us each, most of it the
system's."""

WriteMarkers = Callable[[MarkersWanted, Callable[[], None], Callable[[], bool]], None]
"""Writes markers, calls back when all are written, and gives up once they are not wanted any more."""


class Runtime:
    """The runners of all shards, with what they share: clock, timers, flushes, loading. Event-loop thread only."""

    def __init__(
        self,
        clock: Clock,
        flusher: Flusher,
        record_history: Callable[[tuple[HistoryRow, ...]], None],
        load_buffer_bytes: int,
        loop: asyncio.AbstractEventLoop | None = None,
        probe_disk_space: Callable[[], None] = lambda: None,
        turn: TurnShare | None = None,
    ) -> None:
        """`probe_disk_space` raises StorageError while the disk is full; it may block.

        A simulation brings its own `loop`. Without a `turn`, each turn takes as long as it takes.
        """
        self._clock, self._flusher = clock, flusher
        self.record_history = record_history
        self.commits: dict[str, int] = {}
        """Offsets that prepared commits stored, by group; for whoever counts them to take."""
        self.count_records: Callable[[Event, Records], None] = ignore_records
        """Called with the records that an event wrote, but for those of prepared commits; set by who counts."""
        self._loop = loop or asyncio.get_running_loop()
        self._dirty: dict[ShardRunner[Any], None] = {}  # In order, so that a run can be repeated.
        self._gathered_weight = 0  # Of the commits that the shards have gathered in this turn.
        self.turn = turn or unlimited(self._loop.call_soon)
        self._is_stopped = self._wheel_waits = False
        self._armed_ms: int | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.wheel = TimingWheel(clock.now_ms())
        self._timers, self._due_timers = OwnedTimers(self.wheel), DueTimers(self.turn.is_over)
        self._joins = DeferredJoins(self._loop.call_soon, self.turn.is_over, self.turn.grant)
        self.purgatory = Purgatory(self.wheel)
        self.write_markers: WriteMarkers = _refuse_markers
        """Writes the markers of transactions; set by the daemon once it has its topics."""
        self.runners: list[GroupRunner] = []  # By partition of `__consumer_offsets`.
        self.transaction_runners: list[ShardRunner[Any]] = []  # By partition of `__transaction_state`.
        self.now_ms, self.wall_ms = clock.now_ms, clock.wall_ms
        self._loader = ShardLoader(self._loop, clock, load_buffer_bytes)
        self._slices = Slices(self._loop, cpu_ms if loop is None else clock.now_ms)
        self.outages = Outages(self, probe_disk_space, self._loader.run)
        self.log_host = self._new_log_host()

    def _new_log_host(self) -> LogHost:
        return LogHost(
            now_ms=self._clock.now_ms,
            set_timer=self.set_timer,
            schedule_flush=self._flusher.schedule,
            wait_for_disk_space=self.outages.wait_for_disk_space,
            try_later=self.outages.try_later,
        )

    def runner_for(self, group_id: str) -> GroupRunner:
        """Return the runner of the shard that owns `group_id`."""
        return self.runners[partition_for(group_id, len(self.runners))]

    def transaction_runner_for(self, transactional_id: str) -> ShardRunner[Any]:
        """Return the runner of the shard that owns `transactional_id`."""
        return self.transaction_runners[partition_for(transactional_id, len(self.transaction_runners))]

    @property
    def load_latencies(self) -> Latencies:
        """How long each load of a shard took."""
        return self._loader.latencies

    # The turn.

    def join(self, request: Any, context: RequestContext) -> None:
        """Handle a JoinGroup that carries a member id behind the other requests of this turn."""
        self._joins.add(self.runner_for(request.group_id), request, context)

    def on_dirty(self, runner: ShardRunner[Any]) -> None:
        """Have `runner`'s new records flushed when all events of this turn have been handled."""
        if not self._dirty:
            self._loop.call_soon(self._end_turn)
        self._dirty[runner] = None

    def on_gathered(self, weight: int) -> None:
        """Handle the commits that all shards have gathered if they are many, so that the turn's share sees it."""
        self._gathered_weight += weight
        if self._gathered_weight >= MOST_WEIGHT:
            self._gathered_weight = 0
            for runner in tuple(self._dirty):
                runner.gathered.handle()

    def _end_turn(self) -> None:
        self._gathered_weight = 0
        dirty, self._dirty = self._dirty, {}
        for runner in dirty:
            runner.end_turn()

    def soon(self, action: Callable[[], None]) -> None:
        """Have `action` called behind all that was put off before: in a later turn, or where one has time left."""
        self.turn.later(action)

    def do(self, action: Callable[[], None]) -> None:
        """Do `action` in this turn or, if the turn is used up, in a later one."""
        if self.turn.is_over():
            self.turn.later(action)
        else:
            action()

    def send(self, reply_to: Any, response: Any) -> None:
        """Answer a request, in this turn or, if the turn is used up, in a later one: encoding takes its time."""
        if self.turn.is_over():
            self.turn.later(partial(reply_to.reply, response))
        else:
            reply_to.reply(response)

    def send_all(self, answers: Sequence[tuple[Any, Any, bool]]) -> None:
        """Answer requests, one for each `Reply`, as `send` does; a few of them before the turn is asked again."""
        turn = self.turn
        for start in range(0, len(answers), SENT_AT_ONCE):
            if turn.is_over():
                turn.later(partial(self.send_all, answers[start:]))
                return
            for reply_to, response, _ in answers[start : start + SENT_AT_ONCE]:
                reply_to.reply(response)

    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        """Run `work` on the loader's thread, after loads under way; call `done` with its future on the loop."""
        self._loader.run(work, done)

    def run_in_slices(self, steps: Generator[str, bool, object], done: Callable[[Any], None]) -> None:
        """Do a `SlicedWork` on the thread that such works share; call `done` with its future on the loop."""
        self._slices.run(steps, done)

    # The clock.

    def set_timer(self, owner: TimerOwner[K], key: K, deadline_ms: int | None) -> None:
        """Have `owner.timer_fired(key)` called at `deadline_ms`, replacing an earlier deadline; None cancels."""
        self._timers.set(owner, key, deadline_ms)
        if deadline_ms is not None:
            self.arm(deadline_ms)

    def arm(self, deadline_ms: int) -> None:
        """Arm the loop's timer so that the wheel turns at `deadline_ms` (monotonic) at the latest."""
        if self._is_stopped or (self._armed_ms is not None and self._armed_ms <= deadline_ms):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        now_ms = self._clock.now_ms()
        self._armed_ms = min(deadline_ms, now_ms + PULSE_MS)
        self._clock.wake_by(max(self._armed_ms, now_ms))
        delay_ms = max(self._armed_ms - now_ms, 0)
        self._alarm = self._loop.call_later(delay_ms / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        """Turn the wheel; after a stop of this process, only once sockets were read."""
        self._armed_ms = self._alarm = None
        self._clock.now_ms()  # Notices a stall, if no request did before.
        if stall_ms := self._clock.take_stall_ms():
            log.warning("the process was stopped; deadlines move with it", stall_ms=stall_ms)
            self._loop.call_later(0.001, self._turn_wheel)
        else:
            self._turn_wheel()

    def _turn_wheel(self) -> None:
        """Fire what is due, behind all that was received before: a join phase may end with it.

        However long that takes, the loop is awake meanwhile, as the clock has to know.
        """
        if not self._wheel_waits:
            self._wheel_waits = True
            self._fire_when_read(UNREAD_TURNS)
        if self._wheel_waits:
            self.arm(self._clock.now_ms() + PULSE_MS)

    def _fire_when_read(self, turns_left: int) -> None:
        """Fire what is due once the sockets were read, for which a turn may have had no time."""
        if turns_left and self.turn.has_unread:
            self._loop.call_soon(self._fire_when_read, turns_left - 1)
        elif self.turn.has_put_off:
            self.turn.later(self._fire_behind_joins)
        else:
            self._fire_behind_joins()

    def _fire_behind_joins(self) -> None:
        if self._joins:
            self._joins.add_action(self._fire_due)
        else:
            self._fire_due()

    def _fire_due(self) -> None:
        self._wheel_waits = False
        if self._is_stopped:
            return
        is_firing = bool(self._due_timers)
        self._due_timers.add(self.wheel.advance(self._clock.now_ms()))
        if not is_firing:
            self._fire_slice()
        next_ms = self.wheel.next_deadline_ms()
        if next_ms is not None:
            self.arm(next_ms)
        elif self._armed_ms is None:
            self._clock.wake_by()

    def _fire_slice(self) -> None:
        """Fire a slice in each turn, until none is left: all that was received before they were due is handled."""
        if self._is_stopped:
            return
        self.turn.grant()
        self._due_timers.fire_slice(self._clock.now_ms())
        if self._due_timers:
            self._loop.call_soon(self._fire_slice)

    # Loading.

    def open_shards(
        self, runners: list[GroupRunner], transaction_runners: Sequence[ShardRunner[Any]] = ()
    ) -> None:
        """Take over the runners of groups and of transactions, and begin to load their shards.

        Shards on empty logs serve at once; one that is led elsewhere is not loaded.
        """
        self.runners, self.transaction_runners = runners, list(transaction_runners)
        for runner in (*self.runners, *self.transaction_runners):
            if runner.state is not ELSEWHERE:
                self._loader.open(runner)

    def open_shard(self, runner: ShardRunner[Any]) -> None:
        """Begin to load a shard that was led elsewhere."""
        runner.take()
        self._loader.load(runner, cut_back=True)

    def close_shard(self, runner: ShardRunner[Any], done: Callable[[], None]) -> None:
        """Have `runner` serve no more; call `done` once no thread does anything with its log."""
        durable_log = runner.durable_log
        runner.release()
        self._timers.drop(runner)
        self._timers.drop(durable_log)
        durable_log.when_idle(lambda: self._loader.when_idle(runner, done))

    def reload(self, runner: ShardRunner[Any]) -> None:
        """Cut off the end of `runner`'s log that is not durable, and load its shard again, on a thread."""
        self._loader.load(runner, cut_back=True)

    # The end.

    def stop(self) -> None:
        """Answer parked requests, flush appended records, and wait until they are on the disk. Blocks.

        From here on no timer fires and nothing is loaded.
        """
        self._is_stopped = True
        self._slices.stop()
        self.outages.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        for runner in (*self.runners, *self.transaction_runners):
            runner.stop()
        self.turn.stop()
        self._joins.handle_all()
        self._end_turn()
        self._flusher.close()
        self._loader.stop()


def ignore_records(event: Event, records: Records) -> None:
    """Nobody counts."""


def _refuse_markers(wanted: MarkersWanted, done: Callable[[], None], is_wanted: Callable[[], bool]) -> None:
    raise AssertionError(f"nothing writes markers: {wanted}")
