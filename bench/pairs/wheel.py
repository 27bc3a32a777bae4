"""The timing wheel against the loop's own timers and a plain heap: what a timer costs, as they grow in number.

Each holds `count` timers with deadlines spread over ten minutes, as sessions have them. Then some are added and
cancelled, and in the end all expire. A heap cannot take out what is in its middle: it marks it, and throws the
marked ones away when they come up, as `asyncio` does.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections.abc import Callable
from typing import Final, Protocol

from bench.pairs.plan import Plan
from bench.pairs.rounds import Section, Target
from coordinator.purgatory.timing_wheel import TimerEntry, TimingWheel

SPAN_MS: Final = 600_000
CHANGES: Final = 10_000
TRIES: Final = 3
CHANGE_TRIES: Final = 5  # Within each: `CHANGES` take milliseconds, which anything can double.
MANY: Final = 1_000_000
"""So many are tried once: to make them takes longest, and the noise is spread over them."""

BOUND: Final = 1.5


class Timers(Protocol):
    """Timers by a handle: what is measured."""

    def add(self, deadline_ms: int) -> object: ...
    def cancel(self, handle: object) -> None: ...
    def expire_all(self) -> int:
        """Let everything expire; return how many timers did."""


class Counted(TimerEntry):
    """The entry of one timer."""

    __slots__ = ()

    def fire(self, now_ms: int) -> None:
        """Nothing: it is the wheel that is measured."""


class OnWheel:
    def __init__(self) -> None:
        self._wheel = TimingWheel(0)

    def add(self, deadline_ms: int) -> object:
        entry = Counted(deadline_ms)
        self._wheel.add(entry)
        return entry

    def cancel(self, handle: object) -> None:
        assert isinstance(handle, Counted)
        handle.cancel()

    def expire_all(self) -> int:
        """Turn by turn, as the loop does: to the next deadline each time."""
        expired = 0
        while (next_ms := self._wheel.next_deadline_ms()) is not None:
            due = self._wheel.advance(next_ms)
            for entry in due:
                entry.fire(next_ms)
            expired += len(due)
        return expired


class OnHeap:
    def __init__(self) -> None:
        self._heap: list[list[int]] = []
        self._sequence = 0

    def add(self, deadline_ms: int) -> object:
        self._sequence += 1
        entry = [deadline_ms, self._sequence, 1]
        heapq.heappush(self._heap, entry)
        return entry

    def cancel(self, handle: object) -> None:
        assert isinstance(handle, list)
        handle[2] = 0

    def expire_all(self) -> int:
        expired = 0
        while self._heap:
            expired += heapq.heappop(self._heap)[2]
        return expired


class OnLoop:
    """asyncio's own loop, whose clock is set by hand: nobody waits ten minutes."""

    def __init__(self) -> None:
        self._loop = asyncio.SelectorEventLoop()
        self._now_s = 0.0
        self._loop.time = lambda: self._now_s  # type: ignore[method-assign]  # Its clock is ours.
        self._expired = 0

    def add(self, deadline_ms: int) -> object:
        return self._loop.call_at(deadline_ms / 1000, self._expire)

    def cancel(self, handle: object) -> None:
        assert isinstance(handle, asyncio.TimerHandle)
        handle.cancel()

    def _expire(self) -> None:
        self._expired += 1

    def expire_all(self) -> int:
        self._now_s = SPAN_MS / 1000 + 1
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()
        self._loop.close()
        return self._expired


def costs_us(make: Callable[[], Timers], count: int, seed: int = 7) -> tuple[float, float, float]:
    """Microseconds to add, cancel and let expire one timer while there are `count`: the least of some tries."""
    seeds = range(seed, seed + (1 if count >= MANY else TRIES))
    tries = [_costs_us(make(), count, random.Random(each)) for each in seeds]
    return min(each[0] for each in tries), min(each[1] for each in tries), min(each[2] for each in tries)


def _costs_us(timers: Timers, count: int, draw: random.Random) -> tuple[float, float, float]:
    for deadline_ms in _deadlines(count, draw):
        timers.add(deadline_ms)
    changes = [_changes_s(timers, _deadlines(CHANGES, draw)) for _ in range(CHANGE_TRIES)]
    start = time.perf_counter()
    expired = timers.expire_all()
    expire_us = (time.perf_counter() - start) / count * 1e6
    assert expired == count
    add_us, cancel_us = (min(column) / CHANGES * 1e6 for column in zip(*changes, strict=True))
    return add_us, cancel_us, expire_us


def _changes_s(timers: Timers, deadlines: list[int]) -> tuple[float, float]:
    """Seconds to add these, and to cancel them again."""
    start = time.perf_counter()
    handles = [timers.add(deadline_ms) for deadline_ms in deadlines]
    added = time.perf_counter()
    for handle in handles:
        timers.cancel(handle)
    return added - start, time.perf_counter() - added


def _deadlines(count: int, draw: random.Random) -> list[int]:
    return [draw.randrange(1, SPAN_MS) for _ in range(count)]


def wheel(plan: Plan) -> list[Section]:
    kinds: dict[str, Callable[[], Timers]] = {"wheel": OnWheel, "heapq": OnHeap, "loop.call_at": OnLoop}
    found = {(name, count): costs_us(make, count) for count in plan.timers for name, make in kinds.items()}
    rows = [
        f"| {name} | {count:,} | {' | '.join(f'{each:.2f}' for each in found[name, count])} |"
        for name in kinds
        for count in plan.timers
    ]
    head = ["| timers in | how many | add, us | cancel, us | expire, us |", "|---|---|---|---|---|"]
    few, many = (found["wheel", count] for count in (plan.timers[0], plan.timers[-1]))
    names = ("add", "cancel", "expire")
    what = f"timing wheel, {plan.timers[-1]:,} timers to {plan.timers[0]:,}"
    targets = [Target(f"{what}: {name}", b / a, BOUND) for name, a, b in zip(names, few, many, strict=True)]
    conditions = "In the process of the bench itself, in pure Python in both builds; the least of some tries."
    return [Section("The timing wheel", [*head, *rows], targets, conditions)]
