"""Work that takes as long as a client wants it to holds up neither the others nor a stop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from itertools import count
from typing import Any

from structlog.testing import capture_logs

from coordinator.runtime.slices import ALL_STEPS_MS, SLICE_MS, STEP_MS, Slices


class World:
    """A thread that does what is put into it when `turn` is called, and a clock that the works move."""

    def __init__(self) -> None:
        self.time_ms = 0
        self.queue: deque[Callable[[], None]] = deque()
        self.ended: dict[str, Any] = {}
        self.slices = Slices(self, lambda: self.time_ms)  # type: ignore[arg-type]

    def run_in_executor(self, _: object, function: Callable[[], None]) -> Future[None]:
        future: Future[None] = Future()

        def run() -> None:
            try:
                function()
            except Exception as error:  # Not swallowed: the future has it.
                future.set_exception(error)
            else:
                future.set_result(None)

        self.queue.append(run)
        return future

    def begin(self, name: str, steps: Generator[str, bool, object]) -> None:
        self.slices.run(steps, lambda done: self.ended.update({name: done}))

    def turn(self) -> None:
        self.queue.popleft()()

    def work(self, *steps: tuple[str, int, int]) -> Generator[str, bool, list[str]]:
        """Each step has a name, looks at so many things, and takes so long for each."""
        done: list[str] = []
        for name, times, each_ms in steps:
            for _ in range(times):
                self.time_ms += each_ms
                if (yield name):
                    break
            else:
                done.append(name)
        return done


def test_each_gets_a_slice_in_turn() -> None:
    world = World()
    world.begin("long", world.work(("a", 10, SLICE_MS)))
    world.begin("short", world.work(("b", 3, 1)))
    world.turn()
    world.turn()
    assert list(world.ended) == ["short"]
    assert world.time_ms <= 2 * SLICE_MS
    while world.queue:
        world.turn()
    assert {name: ended.result() for name, ended in world.ended.items()} == {"short": ["b"], "long": ["a"]}


def test_a_step_that_takes_too_long_is_given_up_and_the_others_are_not() -> None:
    world = World()
    with capture_logs() as lines:
        for name in ("first", "second"):
            world.begin(name, world.work(("endless", 1_000_000, 10), ("quick", 5, 10)))
        while world.queue:
            world.turn()
    assert [ended.result() for ended in world.ended.values()] == [["quick"], ["quick"]]
    assert world.time_ms < 2 * (STEP_MS + 100)
    assert [line["what"] for line in lines] == ["endless"], "the log says so once"


def test_a_work_of_many_slow_steps_is_given_up_as_a_whole() -> None:
    world = World()
    world.begin("many", world.work(*((f"step {number}", 100, 10) for number in range(1000))))
    while world.queue:
        world.turn()
    assert len(world.ended["many"].result()) == ALL_STEPS_MS // 1000 - 1
    assert world.time_ms < ALL_STEPS_MS + 1000 * 20


def test_what_a_work_raises_is_handed_back() -> None:
    def broken() -> Generator[str, bool, None]:
        yield "step"
        raise ValueError("a bug of ours")

    world = World()
    world.begin("broken", broken())
    world.turn()
    assert isinstance(world.ended["broken"].exception(), ValueError)


def test_a_stop_waits_for_no_more_than_a_slice() -> None:
    is_under_way = asyncio.Event()
    errors: list[dict[str, Any]] = []

    def endless(loop: asyncio.AbstractEventLoop) -> Generator[str, bool, None]:
        loop.call_soon_threadsafe(is_under_way.set)
        for number in count():
            yield f"step {number}"

    async def begin_and_stop() -> float:
        ended: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        slices = Slices(loop, lambda: time.monotonic_ns() // 1_000_000)
        slices.run(endless(loop), ended.append)
        slices.run(endless(loop), ended.append)
        await is_under_way.wait()
        begin = time.monotonic()
        slices.stop()
        seconds = time.monotonic() - begin
        for _ in range(5):  # The loop hears of the slices that ended or were cancelled.
            await asyncio.sleep(0)
        assert (ended, errors) == ([], [])
        return seconds

    assert asyncio.run(asyncio.wait_for(begin_and_stop(), 30)) < 10, "the works have no end"
