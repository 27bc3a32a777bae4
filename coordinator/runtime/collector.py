"""When Python's garbage collector runs, so that no collection holds up the event loop for long.

A full collection looks at every object that lives: with 20,000 members it takes 240 ms. Python's own way to
avoid that, three generations, looks at each object that stays three times, which is a tenth of the CPU of a storm
of joins. Here an object is looked at once, with some thousands of others that are as young, and frozen if it is
alive: no later collection visits it. So no collection takes more than a few ms, however many objects live.

What is frozen can still go, by its count of references, as all does that leaves no cycle behind; requests,
members, connections and topics leave none (`tests/server/test_garbage.py`). A cycle that was frozen while in use
is found by a look at everything, which happens while no client is connected and so little lives that it takes no
longer than a turn may.

It works where Python's own full collections are off, as `muster serve` has them; elsewhere they do all of this.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

from coordinator.purgatory.delayed import TimerOwner

OFF: Final = 1_000_000
"""Threshold of Python's full collections from which they count as switched off."""

YOUNG: Final = 4_000
"""Number of new objects after which the young are looked at: 1 ms if all of them live.

Objects that go are subtracted, old ones too. While members join consumer groups as many go as come, so that Python
looked at 40,000 at once, for 12 ms of a turn's 20: the young are looked at as well whenever the loop is busy.
"""

CHECK_EVERY_MS: Final = 60_000
"""Interval of the check for a moment without clients: long, as an idle daemon should seldom wake up."""

WORTH_IT: Final = 75
"""Times that objects were frozen since everything was last looked at, from which it is looked at again."""

FEW_BLOCKS: Final = 100_000
"""Blocks of memory beyond those of the start up to which everything is looked at: 15 ms of a turn's 20.

They are counted in microseconds, frozen objects would be in milliseconds. An object has two or three of them.
"""


class Turns(Protocol):
    """Who knows how busy the loop is."""

    on_busy: Callable[[], None] | None


class Collector:
    """Freezes objects that were looked at once, and looks at everything when nobody is there.

    `set_timer(self, None, deadline_ms)` has `timer_fired` called.
    """

    def __init__(
        self,
        set_timer: Callable[[TimerOwner[None], None, int | None], None],
        now_ms: Callable[[], int],
        has_clients: Callable[[], bool],
        turns: Turns,
        collector: Any = gc,
        allocated_blocks: Callable[[], int] = sys.getallocatedblocks,
    ) -> None:
        self._set_timer = set_timer
        self._now_ms = now_ms
        self._has_clients = has_clients
        self._turns = turns
        self._gc = collector
        self._allocated_blocks = allocated_blocks
        self._blocks_at_start = 0
        self._thresholds: tuple[int, int, int] | None = None  # Those of before, from `start` to `stop`.
        self._freezes = 0

    def start(self) -> None:
        """Freeze what lives so far; and begin, unless Python's own full collections are on."""
        self._gc.freeze()
        self._blocks_at_start = self._allocated_blocks()
        if self._gc.get_threshold()[2] < OFF:
            return
        self._thresholds = self._gc.get_threshold()
        self._gc.set_threshold(YOUNG, OFF, OFF)
        self._gc.callbacks.append(self._on_collection)
        self._turns.on_busy = self._look_at_young
        self._arm()

    def stop(self) -> None:
        if self._thresholds is not None:
            self._gc.callbacks.remove(self._on_collection)
            self._gc.set_threshold(*self._thresholds)
            self._thresholds = None
            self._turns.on_busy = None

    def _look_at_young(self) -> None:
        self._gc.collect(0)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Freeze what Python has just found alive among the young, on whatever thread that was: it is one step."""
        if phase == "stop" and info["generation"] == 0:
            self._gc.freeze()
            self._freezes += 1

    def timer_fired(self, key: None) -> None:
        if self._freezes >= WORTH_IT and not self._has_clients() and self._is_little():
            self._gc.unfreeze()
            self._gc.collect()
            self._gc.freeze()
            self._freezes = 0
        self._arm()

    def _is_little(self) -> bool:
        return self._allocated_blocks() - self._blocks_at_start <= FEW_BLOCKS

    def _arm(self) -> None:
        self._set_timer(self, None, self._now_ms() + CHECK_EVERY_MS)
