"""The loop: event -> shard -> append -> reply; and the one clock behind every deadline.

Owns the timing wheel, the shards' runners and the turn. What the handlers of one turn of the event
loop gathered is cut and flushed at its end; one loop timer is armed for the wheel's next bucket, but no
further ahead than a pulse, and none when the wheel is empty. Knows no sockets and no group rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from coordinator.effects import GroupEvent, MarkersWanted
from coordinator.groups.partitioning import partition_for
from coordinator.purgatory.delayed import K, OwnedTimers, Purgatory, TimerOwner
from coordinator.purgatory.timing_wheel import TimingWheel
from coordinator.runtime.clock import Clock
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.outages import Outages
from coordinator.runtime.shard_loader import ShardLoader
from coordinator.runtime.shard_runner import ShardRunner
from storage.flusher import Flusher
from storage.log.durable_log import LogHost

log = structlog.get_logger("muster.runtime")

PULSE_MS = 500
"""While anything has a deadline the loop wakes up this often: how long the process was stopped is known no
better than that, and a deadline loses no more to a stop."""


class Runtime:
    """Carries events to shards and their effects out. All methods run on the event-loop thread."""

    def __init__(
        self,
        clock: Clock,
        flusher: Flusher,
        record_history: Callable[[tuple[GroupEvent, ...]], None],
        load_buffer_bytes: int,
        loop: asyncio.AbstractEventLoop | None = None,
        probe_disk_space: Callable[[], None] = lambda: None,
    ) -> None:
        """`loop` is the running one, unless a simulation brings its own.

        `probe_disk_space` raises StorageError while the disk is full; it may block.
        """
        self._clock = clock
        self._flusher = flusher
        self.record_history = record_history
        self._loop = loop or asyncio.get_running_loop()
        self._dirty: dict[ShardRunner[Any], None] = {}  # In order, so that a run can be repeated.
        self._is_stopped = False
        self._armed_ms: int | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.wheel = TimingWheel(clock.now_ms())
        self._timers = OwnedTimers(self.wheel)
        self.purgatory = Purgatory(self.wheel)
        self.write_markers: Callable[[MarkersWanted, Callable[[], None]], None] = _no_markers
        """Writes the markers of transactions, once there are topics."""
        self.runners: list[GroupRunner] = []  # Of groups,
        self.transaction_runners: list[ShardRunner[Any]] = []  # and of transactions.
        self.now_ms = clock.now_ms
        self.wall_ms = clock.wall_ms
        self._loader = ShardLoader(self._loop, clock, load_buffer_bytes)
        self.outages = Outages(self, probe_disk_space, self._loader.run)
        self.log_host = LogHost(
            now_ms=clock.now_ms,
            set_timer=self.set_timer,
            schedule_flush=flusher.schedule,
            wait_for_disk_space=self.outages.wait_for_disk_space,
            try_later=self.outages.try_later,
        )

    def runner_for(self, group_id: str) -> GroupRunner:
        """The shard that owns `group_id`."""
        return self.runners[partition_for(group_id, len(self.runners))]

    def transaction_runner_for(self, transactional_id: str) -> ShardRunner[Any]:
        """The shard that owns `transactional_id`."""
        return self.transaction_runners[partition_for(transactional_id, len(self.transaction_runners))]

    # The turn.

    def on_dirty(self, runner: ShardRunner[Any]) -> None:
        """`runner` gathered records: flush them when this turn's events have all been handled."""
        if not self._dirty:
            self._loop.call_soon(self._end_turn)
        self._dirty[runner] = None

    def _end_turn(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for runner in dirty:
            runner.end_turn()

    def soon(self, action: Callable[[], None]) -> None:
        """Have `action` called in a later turn, when sockets have been looked at."""
        self._loop.call_soon(action)

    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        """Do `work` on a thread, and call `done` with its future on the loop. A load that is on comes first."""
        self._loader.run(work, done)

    # The clock.

    def set_timer(self, owner: TimerOwner[K], key: K, deadline_ms: int | None) -> None:
        """At `deadline_ms` call `owner.timer_fired(key)`; a new deadline replaces it, None cancels."""
        self._timers.set(owner, key, deadline_ms)
        if deadline_ms is not None:
            self.arm(deadline_ms)

    def arm(self, deadline_ms: int) -> None:
        """Wake up by `deadline_ms` (monotonic) at the latest."""
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
        """Turn the wheel; after a stop of this process, let the sockets be read first."""
        self._armed_ms = self._alarm = None
        self._clock.now_ms()  # Notices a stall, if no request did before.
        if stall_ms := self._clock.take_stall_ms():
            log.warning("the process was stopped; deadlines move with it", stall_ms=stall_ms)
            self._loop.call_later(0.001, self._turn_wheel)
        else:
            self._turn_wheel()

    def _turn_wheel(self) -> None:
        if self._is_stopped:
            return
        now_ms = self._clock.now_ms()
        for entry in self.wheel.advance(now_ms):
            try:
                entry.fire(now_ms)
            except Exception:  # A bug of ours; the others that are due left the wheel with this one.
                log.exception("a timer failed")
        next_ms = self.wheel.next_deadline_ms()
        if next_ms is not None:
            self.arm(next_ms)
        elif self._armed_ms is None:
            self._clock.wake_by()

    # Loading.

    def open_shards(
        self, runners: list[GroupRunner], transaction_runners: Sequence[ShardRunner[Any]] = ()
    ) -> None:
        """Take over the partitions of groups, and of transactions, and begin to load them.

        Those on empty logs serve at once.
        """
        self.runners, self.transaction_runners = runners, list(transaction_runners)
        for runner in (*self.runners, *self.transaction_runners):
            self._loader.open(runner)

    def reload(self, runner: ShardRunner[Any]) -> None:
        """Cut what is not durable off `runner`'s log and read its state again, on a thread."""
        self._loader.load(runner, cut_back=True)

    # The end.

    def stop(self) -> None:
        """Answer what is parked, flush what was appended, and wait until it is on the disk. Blocks.

        From here on no timer fires and nothing is loaded.
        """
        self._is_stopped = True
        self.outages.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        for runner in (*self.runners, *self.transaction_runners):
            runner.stop()
        self._end_turn()
        self._flusher.close()
        self._loader.stop()


def _no_markers(wanted: MarkersWanted, done: Callable[[], None]) -> None:
    raise AssertionError(f"nothing writes markers: {wanted}")
