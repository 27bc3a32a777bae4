"""The loop: event -> shard -> append -> reply; and the one clock behind every deadline.

Owns the timing wheel, the shards' runners and the turn. What the handlers of one turn of the event
loop gathered is cut and flushed at its end; one loop timer is armed for the wheel's next bucket, none
when it is empty. Knows no sockets and no group rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from coordinator.clock import Clock
from coordinator.groups.effects import GroupEvent
from coordinator.groups.partitioning import partition_for
from coordinator.groups.shard import Shard
from coordinator.loading import Loaded, load_shard
from coordinator.purgatory.delayed import KeyedTimers, Purgatory
from coordinator.purgatory.timing_wheel import TimingWheel
from coordinator.shard_runner import ShardRunner
from protocol.errors import DecodeError
from protocol.records import CorruptBatch
from storage.files import StorageError
from storage.flusher import Flusher

log = structlog.get_logger("muster.runtime")

LOADER_THREADS = 2
"""Shards that are read from the log at a time: more would only take turns on the interpreter."""


class Runtime:
    """Carries events to shards and their effects out. All methods run on the event-loop thread."""

    def __init__(
        self,
        clock: Clock,
        flusher: Flusher,
        new_shard: Callable[[int], Shard],
        record_history: Callable[[tuple[GroupEvent, ...]], None],
    ) -> None:
        self._clock = clock
        self._flusher = flusher
        self._new_shard = new_shard
        self.record_history = record_history
        self._loop = asyncio.get_running_loop()
        self._loaders = ThreadPoolExecutor(LOADER_THREADS, thread_name_prefix="shard-loader")
        self._dirty: set[ShardRunner] = set()
        self._end_of_turn: list[Callable[[], None]] = []
        self._loading = 0
        self._loaded_records = 0
        self._armed_ms: int | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.wheel = TimingWheel(clock.now_ms())
        self.timers = KeyedTimers(self.wheel, _fire)
        self.purgatory = Purgatory(self.wheel)
        self.runners: list[ShardRunner] = []
        self.now_ms = clock.now_ms
        self.wall_ms = clock.wall_ms
        self.schedule_flush = flusher.schedule

    def runner_for(self, group_id: str) -> ShardRunner:
        """The shard that owns `group_id`."""
        return self.runners[partition_for(group_id, len(self.runners))]

    # The turn.

    def on_dirty(self, runner: ShardRunner) -> None:
        """`runner` gathered records: flush them when this turn's events have all been handled."""
        if not self._dirty:
            self._loop.call_soon(self._end_turn)
        self._dirty.add(runner)

    def _end_turn(self) -> None:
        dirty, self._dirty = self._dirty, set()
        for runner in dirty:
            runner.end_turn()

    # The clock.

    def set_timer(self, key: tuple[Any, ...], deadline_ms: int | None) -> None:
        """At `deadline_ms` call `key[0].timer_fired(*key[1:])`; a new deadline replaces it, None cancels."""
        self.timers.set(key, deadline_ms)
        if deadline_ms is not None:
            self.arm(deadline_ms)

    def arm(self, deadline_ms: int) -> None:
        """Wake up by `deadline_ms` (monotonic) at the latest."""
        if self._armed_ms is not None and self._armed_ms <= deadline_ms:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._armed_ms = deadline_ms
        delay_ms = max(deadline_ms - self._clock.now_ms(), 0)
        self._alarm = self._loop.call_later(delay_ms / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        """Turn the wheel; after a stop of this process, read the sockets first and forgive the stall."""
        expected_ms, self._armed_ms, self._alarm = self._armed_ms, None, None
        assert expected_ms is not None
        if stall_ms := self._clock.forgive(expected_ms):
            log.warning("the process was stopped; deadlines move with it", stall_ms=stall_ms)
            self._loop.call_later(0.001, self._turn_wheel)
        else:
            self._turn_wheel()

    def _turn_wheel(self) -> None:
        now_ms = self._clock.now_ms()
        for entry in self.wheel.advance(now_ms):
            entry.fire(now_ms)
        next_ms = self.wheel.next_deadline_ms()
        if next_ms is not None:
            self.arm(next_ms)

    # Loading.

    def open_shards(self, runners: list[ShardRunner]) -> None:
        """Take over the offsets partitions and begin to load them; empty ones serve at once."""
        self.runners = runners
        for runner in runners:
            if runner.log.next_offset == runner.log.log_start_offset:
                shard = self._new_shard(runner.partition)
                runner.start(load_shard(runner.log, shard, self._clock, cut_back=False))
            else:
                self.reload(runner, cut_back=False)

    def reload(self, runner: ShardRunner, *, cut_back: bool) -> None:
        """Read `runner`'s state from its log on a thread, after cutting what is not durable if asked."""
        self._loading += 1
        shard = self._new_shard(runner.partition)
        loading = self._loop.run_in_executor(
            self._loaders, load_shard, runner.log, shard, self._clock, cut_back
        )
        loading.add_done_callback(lambda done: self._on_loaded(runner, done))

    def _on_loaded(self, runner: ShardRunner, done: asyncio.Future[Loaded]) -> None:
        self._loading -= 1
        try:
            loaded = done.result()
        except (StorageError, CorruptBatch, DecodeError) as error:
            log.error("offsets partition cannot be loaded", partition=runner.partition, error=str(error))
            runner.gave_up()
        else:
            self._loaded_records += loaded.records
            runner.start(loaded)
        if not self._loading:
            log.info("offsets loaded", records=self._loaded_records)
            self._loaded_records = 0

    # The end.

    def stop(self) -> None:
        """Answer whoever is parked, flush what was appended, and wait until it is on the disk. Blocks."""
        for runner in self.runners:
            runner.stop()
        self._end_turn()
        if self._alarm is not None:
            self._alarm.cancel()
        self._flusher.close()
        self._loaders.shutdown()


def _fire(key: Any, now_ms: int) -> None:
    owner, *which = key
    owner.timer_fired(*which)
