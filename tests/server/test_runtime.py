"""The runtime's one clock and its loaders: what goes wrong in one place is not felt in another."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.effects import PreparedCommitReceived, Result
from coordinator.groups.group_settings import GroupSettings
from coordinator.runtime import outages
from coordinator.runtime.clock import Clock
from coordinator.runtime.gathered_commits import COMMIT_WEIGHT, MOST_WEIGHT
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.loop import PULSE_MS, SENT_AT_ONCE, UNREAD_TURNS, Runtime
from coordinator.runtime.shard_loader import LOADING_SWITCH_S
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.shard_states import ShardState
from coordinator.runtime.turn_share import DIRECT_S, SLICE_S, TurnShare
from coordinator.shard.shard import Shard
from harness.doubles.topics import Topics
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.records.records import Codec
from storage.files import StorageError
from storage.flusher import Flusher
from storage.log.durable_log import DurableLog
from storage.producers.producer_state import ProducerState

PATIENCE_S = 10


@pytest.fixture
async def runtime() -> Any:
    flusher = Flusher(1, asyncio.get_running_loop().call_soon_threadsafe)
    runtime = Runtime(
        Clock(),
        flusher,
        lambda _: None,
        1 << 20,
    )
    yield runtime
    runtime.stop()


class Alarm:
    """Owns timers: raises, or notes that it was fired."""

    def __init__(self) -> None:
        self.fired = asyncio.Event()

    def timer_fired(self, is_broken: bool) -> None:
        if is_broken:
            raise ZeroDivisionError("ours")
        self.fired.set()


async def test_a_timer_that_fails_takes_no_other_with_it(runtime: Runtime) -> None:
    """All that is due leaves the wheel at once: a session or a rebalance would never end."""
    alarm, now_ms = Alarm(), runtime.now_ms()
    runtime.set_timer(alarm, True, now_ms + 1)
    runtime.set_timer(alarm, False, now_ms + 1)
    await asyncio.wait_for(alarm.fired.wait(), PATIENCE_S)


class Costly:
    """Owns timers that take a millisecond of CPU each, on the clock of a share of turns."""

    def __init__(self) -> None:
        self.fired: list[int] = []

    def cpu_s(self) -> float:
        return len(self.fired) / 1000

    def timer_fired(self, number: int) -> None:
        self.fired.append(number)


async def test_timers_due_at_one_moment_fire_in_order_over_several_turns() -> None:
    """Ten thousand sessions may expire at once; whoever is heard from meanwhile has a new deadline."""
    loop, owner = asyncio.get_running_loop(), Costly()
    flusher = Flusher(1, loop.call_soon_threadsafe)
    share = TurnShare(loop.call_soon, owner.cpu_s, lambda: int(owner.cpu_s() * 1e9))
    runtime = Runtime(Clock(), flusher, lambda _: None, 1 << 20, turn=share)
    due_ms = runtime.now_ms() + 5
    for number in range(40):
        runtime.set_timer(owner, number, due_ms)
    seen = [0]
    async with asyncio.timeout(PATIENCE_S):
        while len(owner.fired) < 39:
            await asyncio.sleep(0)
            if len(owner.fired) > seen[-1] == 0:
                runtime.set_timer(owner, 30, due_ms + 60_000)
            if len(owner.fired) > seen[-1]:
                seen.append(len(owner.fired))
    assert owner.fired == [number for number in range(40) if number != 30]
    runtime.stop()
    most = max(after - before for before, after in pairwise(seen))
    assert most <= round(1000 * (DIRECT_S + SLICE_S)), "what one turn may take, at once and of the queue"


async def test_what_was_received_comes_before_the_timers_that_are_due() -> None:
    """A heartbeat that was put off keeps its session; who asked to join is in before the generation begins."""
    loop, owner = asyncio.get_running_loop(), Costly()
    flusher = Flusher(1, loop.call_soon_threadsafe)
    share = TurnShare(loop.call_soon, owner.cpu_s, lambda: int(owner.cpu_s() * 1e9))
    runtime = Runtime(Clock(), flusher, lambda _: None, 1 << 20, turn=share)
    runtime.set_timer(owner, 1_000, runtime.now_ms())
    for number in range(40):
        share.later(partial(owner.timer_fired, number))
    runtime._turn_wheel()
    assert owner.fired == []
    for _ in range(100):
        await asyncio.sleep(0)
    assert owner.fired == [*range(40), 1_000]
    runtime.stop()


@pytest.mark.parametrize("unread_turns", [0, 1, 3, 2 * UNREAD_TURNS])
async def test_timers_wait_for_sockets_that_a_turn_had_no_time_to_read(unread_turns: int) -> None:
    """Of a storm of joins a part may still be there; but a loop that is always busy fires its timers, too."""
    loop, owner = asyncio.get_running_loop(), Costly()
    share = TurnShare(loop.call_soon, owner.cpu_s, lambda: int(owner.cpu_s() * 1e9))
    runtime = Runtime(Clock(), Flusher(1, loop.call_soon_threadsafe), lambda _: None, 1 << 20, turn=share)
    runtime.set_timer(owner, 1, runtime.now_ms())
    share.has_unread = unread_turns > 0
    runtime._turn_wheel()
    turns = 0
    while not owner.fired and turns < 3 * UNREAD_TURNS:
        turns += 1
        share.has_unread = turns < unread_turns
        await asyncio.sleep(0)
    assert turns == min(unread_turns, UNREAD_TURNS)
    runtime.stop()


async def test_the_loop_wakes_up_often_enough_to_know_how_long_it_was_stopped(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asleep until a session's end, it would take a stop for its sleep, and would end the session."""
    delays_s: list[float] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda delay_s, _: delays_s.append(delay_s))
    runtime.set_timer(Alarm(), False, runtime.now_ms() + 45_000)
    assert delays_s == [PULSE_MS / 1000]


async def test_a_runtime_that_has_stopped_fires_nothing(runtime: Runtime) -> None:
    alarm = Alarm()
    runtime.set_timer(alarm, False, runtime.now_ms())
    runtime.stop()
    runtime.set_timer(alarm, False, runtime.now_ms())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not alarm.fired.is_set()


class BrokenLog:
    """The log of a shard whose first readings end in `errors`."""

    log_start_offset, next_offset, durable_offset = 0, 1, 1
    failure = None
    is_written_behind = False
    producers = SimpleNamespace(state=ProducerState(), settle=lambda: None)

    def __init__(self, *errors: Exception) -> None:
        self._errors = iter(errors)

    def fail_back(self) -> None: ...

    def take_shard_snapshot(self, version: int) -> None: ...

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[Any]:
        error = next(self._errors, None)
        if error is not None:
            raise error
        return iter(())


def runner_on(log: Any, runtime: Runtime) -> GroupRunner:
    return GroupRunner(
        group_shards(lambda partition: Shard(partition, GroupSettings(), Topics())),
        0,
        DurableLog(log, runtime.log_host),
        runtime,
        max_batch_bytes=1 << 20,
        codec=Codec.NONE,
        commit_timeout_ms=5_000,
    )


async def until(runner: ShardRunner[Shard], state: ShardState) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while runner.state is not state:  # noqa: ASYNC110 - what a thread ends has no event of its own here.
            await asyncio.sleep(0.001)


async def test_a_shard_that_the_disk_refused_is_read_again(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files run out and come back: the groups of one shard are not to be gone until a restart."""
    monkeypatch.setattr(outages, "TRY_AGAIN_MS", 20)
    refused = StorageError("open", Path("__consumer_offsets-0"), "Too many open files", 24)
    runner = runner_on(BrokenLog(refused, refused), runtime)
    runtime.open_shards([runner])
    await until(runner, ShardState.FAILED)
    await until(runner, ShardState.ACTIVE)


async def test_a_shard_that_serves_again_by_then_is_not_read_once_more(runtime: Runtime) -> None:
    """Another reading would cut off what it has appended since."""
    loader = runtime._loader
    refused = StorageError("open", Path("__consumer_offsets-0"), "Too many open files", 24)
    runner = runner_on(BrokenLog(refused), runtime)
    runtime.open_shards([runner])
    await until(runner, ShardState.FAILED)
    runner.durable_log.try_again()
    await until(runner, ShardState.ACTIVE)
    shard, read = runner.shard, asyncio.Event()
    runner.durable_log.try_again()
    loader.run(lambda: None, lambda _: read.set())
    await asyncio.wait_for(read.wait(), PATIENCE_S)
    assert runner.shard is shard


async def test_a_bug_in_the_replay_costs_its_shard_and_no_other(runtime: Runtime) -> None:
    """It answers NOT_COORDINATOR, where "loading" would have clients wait for ever."""
    broken = runner_on(BrokenLog(ZeroDivisionError("ours")), runtime)
    whole = runner_on(BrokenLog(), runtime)
    runtime.open_shards([broken, whole])
    await until(broken, ShardState.FAILED)
    await until(whole, ShardState.ACTIVE)


class HeldLog(BrokenLog):
    """The log of a shard that loads until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = Event(), Event()

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[Any]:
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)
        return iter(())


async def test_a_shard_that_has_loaded_serves_while_others_load(runtime: Runtime) -> None:
    """And meanwhile the loader hands the interpreter on more often than it would."""
    usual_s = sys.getswitchinterval()
    log = HeldLog()
    first, second = runner_on(BrokenLog(), runtime), runner_on(log, runtime)
    runtime.open_shards([first, second])
    try:
        assert await asyncio.to_thread(log.begun.wait, PATIENCE_S)
        await until(first, ShardState.ACTIVE)
        assert second.state is ShardState.LOADING
        assert sys.getswitchinterval() == pytest.approx(LOADING_SWITCH_S)
    finally:
        log.go_on.set()
    await until(second, ShardState.ACTIVE)
    assert sys.getswitchinterval() == pytest.approx(usual_s)


async def test_the_interpreter_is_handed_on_as_usual_when_the_last_shard_has_failed_to_load(
    runtime: Runtime,
) -> None:
    usual_s = sys.getswitchinterval()
    runner = runner_on(BrokenLog(ZeroDivisionError("ours")), runtime)
    runtime.open_shards([runner])
    await until(runner, ShardState.FAILED)
    assert sys.getswitchinterval() == pytest.approx(usual_s)


async def test_a_loader_that_is_stopped_half_way_hands_the_interpreter_on_as_usual() -> None:
    usual_s = sys.getswitchinterval()
    loop = asyncio.get_running_loop()
    flusher = Flusher(1, loop.call_soon_threadsafe)
    stopped = Runtime(Clock(), flusher, lambda _: None, 1 << 20)
    log = HeldLog()
    stopped.open_shards([runner_on(log, stopped)])
    assert await asyncio.to_thread(log.begun.wait, PATIENCE_S)
    assert sys.getswitchinterval() == pytest.approx(LOADING_SWITCH_S)
    log.go_on.set()
    stopped.stop()
    assert sys.getswitchinterval() == pytest.approx(usual_s)
    await asyncio.sleep(0)
    flusher.close()


class ThreadLog(BrokenLog):
    """Notes the thread that reads it."""

    def __init__(self, next_offset: int) -> None:
        super().__init__()
        self.next_offset = self.durable_offset = next_offset
        self.readers: list[str] = []

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[Any]:
        self.readers.append(threading.current_thread().name)
        return iter(())


@pytest.mark.parametrize("next_offset", [1, 2, 100, 10_000])
async def test_a_log_is_never_read_on_the_loop_however_short_it_is(
    runtime: Runtime, next_offset: int
) -> None:
    """A single batch may be a megabyte, compressed, on a disk that is asleep."""
    log = ThreadLog(next_offset)
    runner = runner_on(log, runtime)
    runtime.open_shards([runner])
    await until(runner, ShardState.ACTIVE)
    (reader,) = log.readers
    assert reader.startswith("shard-loader")


class Answered:
    """A request that takes a millisecond of CPU to answer, on the clock of a share of turns."""

    def __init__(self, owner: Costly, number: int) -> None:
        self._owner, self._number = owner, number

    def reply(self, response: object) -> None:
        self._owner.timer_fired(self._number)


async def test_many_answers_at_once_leave_in_order_over_several_turns() -> None:
    loop, owner = asyncio.get_running_loop(), Costly()
    flusher = Flusher(1, loop.call_soon_threadsafe)
    share = TurnShare(loop.call_soon, owner.cpu_s, lambda: int(owner.cpu_s() * 1e9))
    runtime = Runtime(Clock(), flusher, lambda _: None, 1 << 20, turn=share)
    runtime.send_all([(Answered(owner, number), None, True) for number in range(100)])
    seen = [0, len(owner.fired)]
    for _ in range(100):
        await asyncio.sleep(0)
        seen.append(len(owner.fired))
    assert owner.fired == list(range(100))
    runtime.stop()
    most = max(after - before for before, after in pairwise(seen))
    assert most <= round(1000 * SLICE_S) + SENT_AT_ONCE


class Commit:
    """A prepared commit of `count` partitions that stores nothing."""

    def __init__(self, count: int) -> None:
        self.count, self.handled = count, 0
        self.request = OffsetCommitRequest(group_id="g", topics=[])

    def handle(self, event: PreparedCommitReceived, now_ms: int) -> Result:
        self.handled += 1
        return Result()


@pytest.mark.parametrize("count", [1, 100])
async def test_commits_that_many_shards_gather_are_handled_in_the_turn_before_they_are_too_many(
    runtime: Runtime, count: int
) -> None:
    """What is handled at the end of the turn is beyond its share, which has to see the rest."""
    runners, commit = [runner_on(BrokenLog(), runtime) for _ in range(10)], Commit(count)
    runtime.open_shards(runners)
    for runner in runners:
        await until(runner, ShardState.ACTIVE)
    for number in range(1_000):
        runners[number % 10].gathered.add(PreparedCommitReceived(commit, [0] * count, None, 0))
        waiting = number + 1 - commit.handled
        assert waiting * (COMMIT_WEIGHT + count) < MOST_WEIGHT
    assert commit.handled < 1_000, "the last ones wait for the end of the turn"
    await asyncio.sleep(0.001)
    assert commit.handled == 1_000


async def test_what_was_put_off_is_done_before_a_runtime_has_stopped() -> None:
    """Else a commit that is on the disk would have no answer, and its client would not know."""
    loop, owner = asyncio.get_running_loop(), Costly()
    share = TurnShare(loop.call_soon, owner.cpu_s, lambda: int(owner.cpu_s() * 1e9))
    flusher = Flusher(1, loop.call_soon_threadsafe)
    runtime = Runtime(Clock(), flusher, lambda _: None, 1 << 20, turn=share)
    runtime.send_all([(Answered(owner, number), None, True) for number in range(100)])
    assert len(owner.fired) < 100
    runtime.stop()
    assert owner.fired == list(range(100))
