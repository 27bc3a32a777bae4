"""The order within a turn of the loop: first requests, then joins with an id, then deadlines; both in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from coordinator.groups.classic.group import Group
from coordinator.groups.group_settings import GroupSettings
from coordinator.purgatory.timing_wheel import TimerEntry, TimingWheel
from coordinator.runtime.clock import Clock
from coordinator.runtime.deferred_joins import JOINS_PER_TURN, DeferredJoins
from coordinator.runtime.due_timers import TIMERS_PER_TURN, DueTimers
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.loop import Runtime
from coordinator.server.group_apis import GroupApis
from coordinator.shard.shard import Shard
from harness.doubles.fake_pending import FakePending
from harness.doubles.memory_log import MemoryLog
from harness.doubles.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.sync_group import SyncGroupRequest
from protocol.records.records import Codec
from storage.flusher import Flusher
from storage.log.durable_log import DurableLog
from tests.server.joining import beat, join, sync

PATIENCE_S = 10


class Turns:
    """The functions that are to be called in the next turn."""

    def __init__(self) -> None:
        self.next: list[Callable[[], None]] = []

    def soon(self, action: Callable[[], None]) -> None:
        self.next.append(action)

    def end(self) -> None:
        due, self.next = self.next, []
        for action in due:
            action()


class Runner:
    """Notes the requests in the order in which they are handled; some break it."""

    def __init__(self) -> None:
        self.handled: list[int] = []

    def request(self, request: int, context: Any) -> None:
        if request < 0:
            raise ZeroDivisionError("ours")
        self.handled.append(request)


def deferred(*requests: int) -> tuple[DeferredJoins, Runner, Turns]:
    turns, runner = Turns(), Runner()
    joins = DeferredJoins(turns.soon)
    for request in requests:
        joins.add(runner, request, cast(Any, None))
    return joins, runner, turns


def test_joins_are_handled_at_the_end_of_the_turn_in_the_order_of_arrival() -> None:
    joins, runner, turns = deferred(1, 2, 3)
    assert not runner.handled
    assert len(turns.next) == 1
    turns.end()
    assert runner.handled == [1, 2, 3]
    assert not joins
    assert not turns.next


def test_a_turn_handles_one_slice_of_joins() -> None:
    """Between two slices sockets are read: whoever else asks does not wait for a herd."""
    count = 2 * JOINS_PER_TURN + 1
    _, runner, turns = deferred(*range(count))
    lengths = []
    while turns.next:
        turns.end()
        lengths.append(len(runner.handled))
    assert lengths == [JOINS_PER_TURN, 2 * JOINS_PER_TURN, count]
    assert runner.handled == list(range(count))


def test_joins_that_come_between_slices_stand_behind_those_that_wait() -> None:
    joins, runner, turns = deferred(*range(JOINS_PER_TURN + 1))
    turns.end()
    joins.add(runner, JOINS_PER_TURN + 1, cast(Any, None))
    assert len(turns.next) == 1, "one slice a turn"
    turns.end()
    assert runner.handled == list(range(JOINS_PER_TURN + 2))


def test_a_join_that_fails_takes_no_other_with_it() -> None:
    _, runner, turns = deferred(1, -1, 2)
    turns.end()
    assert runner.handled == [1, 2]


class Entry(TimerEntry):
    """Notes when it fires."""

    def __init__(self, deadline_ms: int, fired: list[int]) -> None:
        super().__init__(deadline_ms)
        self._fired = fired

    def fire(self, now_ms: int) -> None:
        self._fired.append(self.deadline_ms)


def test_a_turn_fires_one_slice_of_timers_oldest_first() -> None:
    wheel, due, fired = TimingWheel(0), DueTimers(), list[int]()
    for deadline_ms in range(1, 2 * TIMERS_PER_TURN + 1):
        wheel.put(Entry(deadline_ms, fired))
    due.add(wheel.advance(TIMERS_PER_TURN + 50))
    due.fire_slice(TIMERS_PER_TURN + 50)
    assert fired == list(range(1, TIMERS_PER_TURN + 1))
    due.add(wheel.advance(5_000))
    due.fire_slice(5_000)
    assert fired == list(range(1, 2 * TIMERS_PER_TURN + 1))
    assert not due


@pytest.fixture
async def runtime() -> Any:
    flusher = Flusher(1, asyncio.get_running_loop().call_soon_threadsafe)
    runtime = Runtime(Clock(), flusher, lambda _: None, 1 << 20)
    settings = GroupSettings(group_initial_rebalance_delay_ms=0)
    runner = GroupRunner(
        group_shards(lambda partition: Shard(partition, settings, Topics())),
        0,
        DurableLog(cast(Any, MemoryLog(1 << 20)), runtime.log_host),
        runtime,
        max_batch_bytes=1 << 20,
        codec=Codec.NONE,
        commit_timeout_ms=5_000,
    )
    runtime.open_shards([runner])
    async with asyncio.timeout(PATIENCE_S):
        while runner.shard is None:  # noqa: ASYNC110 - the loader's thread has no event here.
            await asyncio.sleep(0.001)
    yield runtime
    runtime.stop()


def ask(runtime: Runtime, request: Any) -> FakePending:
    """Hand `request` to its API, as a connection does within a turn."""
    key, version = {JoinGroupRequest: (11, 5), SyncGroupRequest: (14, 3), HeartbeatRequest: (12, 3)}[
        type(request)
    ]
    pending = FakePending(version)
    GroupApis(cast(Any, runtime)).handlers()[key](request, cast(Any, pending))
    return pending


async def answer(pending: FakePending) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not pending.is_answered:  # noqa: ASYNC110 - a double has no event.
            await asyncio.sleep(0.001)
    return pending.answer


async def new_id(runtime: Runtime) -> str:
    handed_out = await answer(ask(runtime, join()))
    assert handed_out.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return str(handed_out.member_id)


async def joined(runtime: Runtime, member_id: str) -> Any:
    return await answer(ask(runtime, join(member_id)))


def group_of(runtime: Runtime) -> Group:
    (runner,) = runtime.runners
    assert runner.shard is not None
    return runner.shard.groups["m"]


async def test_first_requests_of_a_turn_are_in_the_generation_that_its_joins_begin(runtime: Runtime) -> None:
    """They stand behind the last join that the generation waits for, and yet it waits for them."""
    leader = await joined(runtime, await new_id(runtime))
    await answer(ask(runtime, sync(leader)))
    newcomer = ask(runtime, join(await new_id(runtime)))
    await asyncio.sleep(0)  # The newcomer is parked, and the group waits for its leader.
    rejoining, late = ask(runtime, join(leader.member_id)), ask(runtime, join())
    last = await joined(runtime, (await answer(late)).member_id)
    assert [(await answer(each)).generation_id for each in (newcomer, rejoining)] == [2, 2]
    assert last.generation_id == 2, "the generation has all three"


HERD = 200
WAVE = 20
"""Number of members that send their first JoinGroup in one turn."""


class Herd:
    """Members that come in waves, each behind what those that came before ask in the same turn."""

    def __init__(self, runtime: Runtime) -> None:
        self.joins = 0
        self._runtime = runtime
        self._asked: list[FakePending] = []
        self._joined: dict[int, Any] = {}

    async def form(self, members: int) -> None:
        """Have so many members; return once all are in one generation and have its assignments."""
        while not self._is_formed(members):
            for number, pending in enumerate(self._asked):
                if pending.is_answered:
                    self._asked[number] = self._ask(self._next(number, pending.answer))
            for _ in range(min(WAVE, members - len(self._asked))):
                self._asked.append(self._ask(join()))
            await asyncio.sleep(0)

    def _ask(self, request: Any) -> FakePending:
        self.joins += isinstance(request, JoinGroupRequest)
        return ask(self._runtime, request)

    def _next(self, number: int, answer: Any) -> Any:
        """What member `number` asks after `answer`."""
        if isinstance(answer, JoinGroupResponse):
            self._joined[number] = answer
            return (
                join(answer.member_id) if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED else sync(answer)
            )
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return join(self._joined[number].member_id)
        assert answer.error_code == ErrorCode.NONE
        return beat(self._joined[number])

    def _is_formed(self, members: int) -> bool:
        beats = [each for each in self._asked if isinstance(each.answer, HeartbeatResponse)]
        return len(beats) == members and all(each.answer.error_code == ErrorCode.NONE for each in beats)


async def test_a_herd_that_comes_in_waves_forms_in_few_generations(runtime: Runtime) -> None:
    """There would be six, if those that have their ids did not let the first requests of their turn go before."""
    herd = Herd(runtime)
    async with asyncio.timeout(PATIENCE_S):
        await herd.form(1)
        await herd.form(HERD)
    group = group_of(runtime)
    assert len(group.members) == HERD
    assert group.generation_id == 2, "one of the first member, and one of all"
    assert herd.joins == 2 * HERD + 1


class Deadline:
    """Notes how many members the group has when its deadline is handled."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.members = asyncio.get_running_loop().create_future()

    def timer_fired(self, key: None) -> None:
        self.members.set_result(len(group_of(self._runtime).members))


async def test_a_deadline_that_has_passed_waits_for_the_joins_that_came_before_it(runtime: Runtime) -> None:
    """Else the end of a join phase, due meanwhile, would leave out those that have arrived."""
    ids = [await new_id(runtime) for _ in range(JOINS_PER_TURN + 1)]
    deadline = Deadline(runtime)
    for member_id in ids:
        ask(runtime, join(member_id))
    runtime.set_timer(deadline, None, runtime.now_ms() - 1)
    async with asyncio.timeout(PATIENCE_S):
        assert await deadline.members == len(ids)


async def test_a_join_that_waits_when_the_daemon_stops_is_answered(runtime: Runtime) -> None:
    pending = ask(runtime, join(await new_id(runtime)))
    runtime.stop()
    assert pending.answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_requests_are_handled_between_the_slices_of_timers(runtime: Runtime) -> None:
    """Thousands of deadlines pass in one turn: a request of the next turn does not wait for all of them."""
    fired: list[int] = []
    now_ms = runtime.now_ms()
    for _ in range(3 * TIMERS_PER_TURN):
        runtime.wheel.put(Entry(now_ms, fired))
    runtime.arm(now_ms)
    seen: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(fired) < 3 * TIMERS_PER_TURN:
            await asyncio.sleep(0)
            seen.append(len(fired))
    assert {TIMERS_PER_TURN, 2 * TIMERS_PER_TURN} <= set(seen)
