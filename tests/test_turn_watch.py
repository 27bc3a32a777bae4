"""The turns of the loop are measured: by plain calls with the clocks as arguments, then on real loops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

from coordinator.runtime.loop_turns import see_turns
from coordinator.runtime.turn_watch import LOG_EVERY_S, RECENT, Turn, TurnWatch

LOG_MS = 100
BUSY_S = 0.05
LOOPS: list[Any] = [
    pytest.param(asyncio.SelectorEventLoop, id="asyncio"),
    pytest.param(uvloop.new_event_loop, id="uvloop"),
]


class World:
    def __init__(self) -> None:
        self.cpu_s, self.busy_s, self.now_s = 5.0, 7.0, 1000.0
        self.began: list[float] = []
        self.watch = TurnWatch(LOG_MS, self.began.append, lambda: self.cpu_s, lambda: self.now_s)
        self.turn(3_000, 3_000)  # What came before the first turn.

    def turn(self, cpu_ms: float, wall_ms: float) -> None:
        self.cpu_s += cpu_ms / 1000
        self.busy_s += wall_ms / 1000
        self.watch.turn_ended(self.busy_s)

    def pass_on(self) -> None:
        """So many short turns that those before count."""
        for _ in range(RECENT):
            self.turn(0, 0)


def rounded(turn: Turn) -> tuple[int, int]:
    return round(turn.cpu_ms), round(turn.wall_ms)


def test_the_longest_is_kept_on_each_clock() -> None:
    world = World()
    assert world.watch.longest == (0, 0), "the start is no turn"
    for cpu_ms, wall_ms in ((10, 20), (15, 16), (1, 90)):
        world.turn(cpu_ms, wall_ms)
    assert rounded(world.watch.longest) == (15, 90)
    assert world.began[-1] == world.cpu_s
    assert world.watch.turns == 4
    world.watch.forget()
    world.turn(3, 4)
    assert rounded(world.watch.longest) == (3, 4)


@pytest.mark.parametrize(("cpu_ms", "wall_ms", "is_logged"), [(99, 99, 0), (101, 101, 1), (1, 101, 1)])
def test_a_turn_beyond_the_limit_is_logged(cpu_ms: int, wall_ms: int, is_logged: int) -> None:
    world = World()
    with capture_logs() as logs:
        world.turn(cpu_ms, wall_ms)
        assert logs == []
        world.pass_on()
    assert [(each["cpu_ms"], each["wall_ms"]) for each in logs] == [(cpu_ms, wall_ms)] * is_logged


def test_many_long_turns_are_a_few_lines() -> None:
    world = World()
    with capture_logs() as logs:
        for _ in range(5):
            world.turn(LOG_MS + 1, LOG_MS + 1)
        world.pass_on()
        world.now_s += LOG_EVERY_S
        world.turn(LOG_MS + 1, LOG_MS + 1)
        world.pass_on()
    assert [each["more_not_logged"] for each in logs] == [0, 4]


def test_what_a_signal_adds_on_the_wall_is_left_out() -> None:
    world = World()
    world.turn(1, 20)
    world.pass_on()
    with capture_logs() as logs:
        world.turn(2, 500)
        world.turn(2, 3)
        world.watch.on_signal()
        world.turn(3, 500)
        assert rounded(world.watch.longest) == (3, 20)
        world.turn(1, 30)
        world.pass_on()
    assert logs == []
    assert rounded(world.watch.longest) == (3, 30)


async def turns_of(busy: Callable[[], object]) -> tuple[Turn, int]:
    """The longest turn of this loop, of which one is `busy`, another waits, and many do nothing."""
    watch = TurnWatch(LOG_MS, lambda cpu_s: None)
    stop = see_turns(asyncio.get_running_loop(), watch.turn_ended)
    assert stop is not None
    for _ in range(10):
        await asyncio.sleep(0)
    await asyncio.sleep(0.2)
    asyncio.get_running_loop().call_soon(busy)
    await asyncio.sleep(0.01)
    longest, turns = watch.longest, watch.turns
    stop()
    await asyncio.sleep(0.01)
    assert watch.turns == turns, "after the end nothing is seen"
    return longest, turns


def burn() -> None:
    until_s = time.thread_time() + BUSY_S
    while time.thread_time() < until_s:
        pass


@pytest.mark.parametrize("new_loop", LOOPS)
def test_real_turns_are_seen(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        longest, turns = runner.run(turns_of(burn))
    assert turns >= 10
    assert BUSY_S * 1000 <= longest.cpu_ms < 4 * BUSY_S * 1000
    assert longest.wall_ms >= longest.cpu_ms * 0.9


@pytest.mark.parametrize("new_loop", LOOPS)
def test_waiting_for_others_is_time_on_the_wall_alone(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        longest, _ = runner.run(turns_of(lambda: time.sleep(BUSY_S)))
    assert longest.cpu_ms < BUSY_S * 1000
    assert longest.wall_ms >= BUSY_S * 1000 * 0.9


def test_a_loop_of_another_kind_is_left_alone() -> None:
    """It has neither libuv nor a selector."""
    assert see_turns(object(), lambda busy_s: None) is None  # type: ignore[arg-type]  # No loop at all.


def test_a_uvloop_without_its_functions_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = uvloop.new_event_loop()
    try:
        monkeypatch.setattr("uvloop.loop.__file__", "/nowhere.so")
        assert see_turns(loop, lambda busy_s: None) is None
    finally:
        loop.close()
