"""The loop: event -> shard -> append -> reply; and the one clock behind every deadline.

Owns the timing wheel, the shards' runners and the turn. What the handlers of one turn of the event
loop gathered is cut and flushed at its end; one loop timer is armed for the wheel's next bucket, but no
further ahead than a pulse, and none when the wheel is empty. Knows no sockets and no group rules.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from coordinator.clock import Clock
from coordinator.effects import GroupEvent
from coordinator.groups.partitioning import partition_for
from coordinator.groups.shard import Shard
from coordinator.loading import Loaded, load_shard
from coordinator.outages import TRY_AGAIN_MS, Outages
from coordinator.purgatory.delayed import KeyedTimers, Purgatory
from coordinator.purgatory.timing_wheel import TimingWheel
from coordinator.shard_runner import ShardRunner, ShardState
from protocol.errors import DecodeError
from protocol.records import CorruptBatch
from storage.files import CorruptSegment, StorageError
from storage.flusher import Flusher

log = structlog.get_logger("muster.runtime")

LOADER_THREADS = 1
"""Shards that are read from the log at a time. A second one only takes turns with the first on the interpreter:
the load takes as long, costs a third more CPU, and requests wait for two."""

LOADING_SWITCH_S = 0.0005
"""While shards load, whoever holds the interpreter hands it on after so long: a request waits for the loader
about as long. With Python's 5 ms the median was seven."""

PULSE_MS = 500
"""While anything has a deadline the loop wakes up this often: how long the process was stopped is known no
better than that, and a deadline loses no more to a stop."""

LOAD_AGAIN_MS = TRY_AGAIN_MS
"""After so long a shard that the disk would not let us read is tried again."""


class Runtime:
    """Carries events to shards and their effects out. All methods run on the event-loop thread."""

    def __init__(
        self,
        clock: Clock,
        flusher: Flusher,
        new_shard: Callable[[int], Shard],
        record_history: Callable[[tuple[GroupEvent, ...]], None],
        load_buffer_bytes: int,
        loop: asyncio.AbstractEventLoop | None = None,
        probe_room: Callable[[], None] = lambda: None,
    ) -> None:
        """`loop` is the running one, unless a simulation brings its own.

        `probe_room` raises StorageError while the disk is full; it may block.
        """
        self._clock = clock
        self._flusher = flusher
        self._load_buffer_bytes = load_buffer_bytes
        self._new_shard = new_shard
        self.record_history = record_history
        self._loop = loop or asyncio.get_running_loop()
        self._loaders = ThreadPoolExecutor(LOADER_THREADS, thread_name_prefix="shard-loader")
        self._dirty: dict[ShardRunner, None] = {}  # In order, so that a run can be repeated.
        self._loading = 0
        self._usual_switch_s = sys.getswitchinterval()
        self._loaded_records = self._skipped_records = 0
        self._is_stopped = False
        self._armed_ms: int | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.wheel = TimingWheel(clock.now_ms())
        self.timers = KeyedTimers(self.wheel, _fire)
        self.purgatory = Purgatory(self.wheel)
        self.runners: list[ShardRunner] = []
        self.now_ms = clock.now_ms
        self.wall_ms = clock.wall_ms
        self.schedule_flush = flusher.schedule
        self.outages = Outages(self, probe_room, self._on_loader)
        self.wait_for_room = self.outages.wait_for_room

    def runner_for(self, group_id: str) -> ShardRunner:
        """The shard that owns `group_id`."""
        return self.runners[partition_for(group_id, len(self.runners))]

    # The turn.

    def on_dirty(self, runner: ShardRunner) -> None:
        """`runner` gathered records: flush them when this turn's events have all been handled."""
        if not self._dirty:
            self._loop.call_soon(self._end_turn)
        self._dirty[runner] = None

    def _end_turn(self) -> None:
        dirty, self._dirty = self._dirty, {}
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

    def open_shards(self, runners: list[ShardRunner]) -> None:
        """Take over the offsets partitions and begin to load them; empty ones serve at once."""
        self.runners = runners
        for runner in runners:
            if runner.log.failure is None and runner.log.next_offset == runner.log.log_start_offset:
                shard = self._new_shard(runner.partition)
                runner.start(
                    load_shard(runner.log, shard, self._clock, self._load_buffer_bytes, cut_back=False)
                )
            else:
                self._load(runner, cut_back=False)

    def reload(self, runner: ShardRunner) -> None:
        """Cut what is not durable off `runner`'s log and read its state anew, on a thread."""
        if not self._is_stopped:
            self._load(runner, cut_back=True)

    def timer_fired(self, runner: ShardRunner) -> None:
        """Try again to read the log of a shard that gave up, unless it serves by now."""
        if runner.state is ShardState.FAILED:
            self.reload(runner)

    def _on_loader(self, work: Callable[[], None], done: Callable[[Any], None]) -> None:
        self._loop.run_in_executor(self._loaders, work).add_done_callback(done)

    def _load(self, runner: ShardRunner, *, cut_back: bool) -> None:
        self._loading += 1
        sys.setswitchinterval(LOADING_SWITCH_S)
        shard = self._new_shard(runner.partition)
        loading = self._loop.run_in_executor(
            self._loaders, load_shard, runner.log, shard, self._clock, self._load_buffer_bytes, cut_back
        )
        loading.add_done_callback(lambda done: self._on_loaded(runner, done))

    def _on_loaded(self, runner: ShardRunner, done: asyncio.Future[Loaded]) -> None:
        self._loading -= 1
        if self._is_stopped:
            return
        error = done.exception()
        if error is None:
            self._loaded_records += done.result().records
            self._skipped_records += done.result().skipped
            runner.start(done.result())
        else:
            self._give_up(runner, error)
        if not self._loading:
            sys.setswitchinterval(self._usual_switch_s)
            log.info("offsets loaded", records=self._loaded_records, skipped=self._skipped_records)
            self._loaded_records = self._skipped_records = 0

    def _give_up(self, runner: ShardRunner, error: BaseException) -> None:
        """The shard does not serve; the others go on. What may be the disk's mood is tried again later."""
        is_known = isinstance(error, (StorageError, CorruptBatch, DecodeError))
        trace = None if is_known else error  # A bug of ours, in the replay.
        log.error(
            "offsets partition cannot be loaded",
            partition=runner.partition,
            error=str(error),
            exc_info=trace,
        )
        runner.gave_up()
        if isinstance(error, StorageError) and not isinstance(error, CorruptSegment):
            self.set_timer((self, runner), self.now_ms() + LOAD_AGAIN_MS)

    # The end.

    def stop(self) -> None:
        """Answer whoever is parked, flush what was appended, and wait until it is on the disk. Blocks.

        From here on no timer fires and nothing is loaded.
        """
        self._is_stopped = True
        self.outages.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        for runner in self.runners:
            runner.stop()
        self._end_turn()
        self._flusher.close()
        self._loaders.shutdown(cancel_futures=True)
        sys.setswitchinterval(self._usual_switch_s)


def _fire(key: Any, now_ms: int) -> None:
    owner, *which = key
    owner.timer_fired(*which)
