"""The timing wheel against a plain heap and the loop's own timers: what a timer costs, as they grow in number.

Each holds one deadline for each key, as the coordinator's sessions have them: `count` timers spread over ten
minutes. Then more are added and cancelled, and in the end all expire, turn by turn. A heap cannot take out what is
in its middle: it skips what is no longer under its key, and is made again once that is more than half.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from bench.pairs.plan import Plan
from bench.pairs.rounds import Section, Target
from coordinator.purgatory.delayed import KeyedTimers
from coordinator.purgatory.timing_wheel import TimingWheel

SPAN_MS: Final = 600_000
CHUNKS: Final = 10
"""How many times a tenth of the timers is added and cancelled again."""

ROUNDS: Final = 3
BOUND: Final = 1.0
WHEEL, HEAP, LOOP = "wheel", "heapq", "loop.call_at"

OnDue = Callable[[Hashable, int], None]


class Timers(Protocol):
    """One deadline for each key: what is measured."""

    def set(self, key: Hashable, deadline_ms: int | None) -> None:
        """Have `key` come due at `deadline_ms` and at no time set before; None: never."""

    def expire_all(self) -> None:
        """Let everything come due, millisecond by millisecond."""


class WheelTimers(KeyedTimers):
    """What the coordinator uses, turned as its loop does: to the next deadline each time."""

    def __init__(self, on_due: OnDue) -> None:
        self._turned = TimingWheel(0)
        super().__init__(self._turned, on_due)

    def advance(self, now_ms: int) -> None:
        """Report what is due."""
        for entry in self._turned.advance(now_ms):
            entry.fire(now_ms)

    def expire_all(self) -> None:
        while (next_ms := self._turned.next_deadline_ms()) is not None:
            self.advance(next_ms)


Item = tuple[int, int, Hashable]  # Deadline, sequence, key: C compares them.


class HeapTimers:
    """The same promises as `KeyedTimers` on one heap, with lazy deletion."""

    SPARE: Final = 100
    """Items that no key has any more, beside half of them, before the heap is made again."""

    def __init__(self, on_due: OnDue) -> None:
        self._on_due = on_due
        self._heap: list[Item] = []
        self._items: dict[Hashable, Item] = {}
        self._sequence = 0

    def set(self, key: Hashable, deadline_ms: int | None) -> None:
        if deadline_ms is None:
            self._items.pop(key, None)
        else:
            self._sequence += 1
            self._items[key] = item = (deadline_ms, self._sequence, key)
            heappush(self._heap, item)
        if len(self._heap) > 2 * len(self._items) + self.SPARE:
            self._heap = list(self._items.values())
            heapify(self._heap)

    def next_deadline_ms(self) -> int | None:
        heap, items = self._heap, self._items
        while heap:
            if items.get(heap[0][2]) is heap[0]:
                return heap[0][0]
            heappop(heap)
        return None

    def advance(self, now_ms: int) -> None:
        """Report what is due, but nothing that an earlier one of the same turn cancels or sets again."""
        heap, items = self._heap, self._items
        due = []
        while heap and heap[0][0] <= now_ms:
            due.append(heappop(heap))
        for item in due:
            key = item[2]
            if items.get(key) is item:
                del items[key]
                self._on_due(key, now_ms)

    def expire_all(self) -> None:
        while (next_ms := self.next_deadline_ms()) is not None:
            self.advance(next_ms)


class LoopTimers:
    """asyncio's own loop, whose clock is set by hand: nothing waits ten minutes."""

    def __init__(self, on_due: OnDue) -> None:
        self._on_due = on_due
        self._loop = asyncio.SelectorEventLoop()
        self._now_s = 0.0
        self._loop.time = lambda: self._now_s  # type: ignore[method-assign]  # Its clock is ours.
        self._handles: dict[Hashable, asyncio.TimerHandle] = {}

    def set(self, key: Hashable, deadline_ms: int | None) -> None:
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()
        if deadline_ms is not None:
            self._handles[key] = self._loop.call_at(deadline_ms / 1000, self._expire, key)

    def _expire(self, key: Hashable) -> None:
        del self._handles[key]
        self._on_due(key, SPAN_MS)

    def expire_all(self) -> None:
        """All in one turn: the least that this can cost."""
        self._now_s = SPAN_MS / 1000 + 1
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()
        self._loop.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU microseconds of one timer."""

    add: float
    cancel: float
    expire: float

    @property
    def total(self) -> float:
        return self.add + self.cancel + self.expire


KINDS: Final[dict[str, Callable[[OnDue], Timers]]] = {WHEEL: WheelTimers, HEAP: HeapTimers, LOOP: LoopTimers}


def costs(count: int, kinds: Sequence[str] = tuple(KINDS)) -> dict[str, Cost]:
    """What a timer of each kind costs while there are `count`: each step's least of rounds taken in turns."""
    found: dict[str, list[Cost]] = {name: [] for name in kinds}
    for seed in range(ROUNDS):
        for name in kinds:
            found[name].append(cost(KINDS[name], count, random.Random(seed)))
    return {name: _least(each) for name, each in found.items()}


def _least(rounds: Sequence[Cost]) -> Cost:
    return Cost(*(min(getattr(each, step) for each in rounds) for step in ("add", "cancel", "expire")))


def cost(make: Callable[[OnDue], Timers], count: int, draw: random.Random) -> Cost:
    """Measure once, from empty to empty."""
    expired: list[Hashable] = []
    timers = make(lambda key, _: expired.append(key))
    _set_all(timers, _deadlines("held", count, draw))
    gc.collect()  # What is left of the contender before is not at this one's expense.
    changes = [_change(timers, _deadlines(chunk, count // CHUNKS, draw)) for chunk in range(CHUNKS)]
    start_s = time.process_time()
    timers.expire_all()
    expire_s = time.process_time() - start_s
    assert len(expired) == count
    add_s, cancel_s = (sum(column) for column in zip(*changes, strict=True))
    return Cost(*(each / count * 1e6 for each in (add_s, cancel_s, expire_s)))


def _change(timers: Timers, deadlines: dict[Hashable, int]) -> tuple[float, float]:
    """Seconds to add these, and to cancel them again."""
    start_s = time.process_time()
    _set_all(timers, deadlines)
    added_s = time.process_time()
    for key in deadlines:
        timers.set(key, None)
    return added_s - start_s, time.process_time() - added_s


def _set_all(timers: Timers, deadlines: dict[Hashable, int]) -> None:
    for key, deadline_ms in deadlines.items():
        timers.set(key, deadline_ms)


def _deadlines(name: Hashable, count: int, draw: random.Random) -> dict[Hashable, int]:
    """Deadlines by keys that are tuples, as the coordinator's are."""
    return {(name, number): draw.randrange(1, SPAN_MS) for number in range(count)}


def wheel(plan: Plan) -> list[Section]:
    found = {count: costs(count) for count in plan.timers}
    rows = [
        f"| {name} | {count:,} | {each.add:.2f} | {each.cancel:.2f} | {each.expire:.2f} | {each.total:.2f} |"
        for name in KINDS
        for count, each in ((count, by_name[name]) for count, by_name in found.items())
    ]
    head = [
        "| timers in | how many | add, us | cancel, us | expire, us | together, us |",
        "|---|---|---|---|---|---|",
    ]
    most = plan.timers[-1]
    ratio = found[most][WHEEL].total / found[most][HEAP].total
    what = f"timing wheel to heapq, {most:,} timers: add, cancel and expire together"
    conditions = (
        "In the process of the bench itself, in pure Python in both builds: CPU time, each step's least of "
        f"{ROUNDS} rounds in which the kinds take turns. All set and cancel by key; the heap deletes lazily."
    )
    return [Section("The timing wheel", [*head, *rows], [Target(what, ratio, BOUND)], conditions)]
