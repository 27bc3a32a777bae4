"""When Python's garbage collector runs, so that no collection holds up the event loop for long.

A full collection looks at every object that lives: with 20,000 members it takes 240 ms. Python's collections of
young objects take about a millisecond, and what they find alive grows old. Here the old ones are looked at once,
some 15,000 at a time, and those still alive are frozen: no later collection visits them. So each object is looked
at a few times in all, however many live, and no collection takes more than some 5 ms.

What is frozen can still go, by its count of references, as all does that leaves no cycle behind; requests,
members, connections and topics leave none (`tests/server/test_garbage.py`). A cycle that was frozen while in use
is found by a look at everything, which happens while no client is connected, and so delays nobody.

It works where Python's own full collections are off, as `muster serve` has them; elsewhere they do all of this.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, Final

from coordinator.purgatory.delayed import TimerOwner

OFF: Final = 1_000_000
"""Threshold of Python's full collections from which they count as switched off."""

DUE: Final = 2
"""Collections of the middle generation after which old objects are looked at: each leaves up to 7,700 of them."""

CHECK_EVERY_MS: Final = 60_000
"""Interval of the check for a moment without clients: long, as an idle daemon should seldom wake up."""

WORTH_IT: Final = 20
"""Times that objects were frozen since everything was last looked at, from which it is looked at again."""


class Collector:
    """Collects old objects as they come to be, and everything when nobody is there.

    `on_loop(action)` has `action` called on the loop's thread and may be called on any. `set_timer(self, None,
    deadline_ms)` has `timer_fired` called.
    """

    def __init__(
        self,
        on_loop: Callable[[Callable[[], None]], object],
        set_timer: Callable[[TimerOwner[None], None, int | None], None],
        now_ms: Callable[[], int],
        has_clients: Callable[[], bool],
        collector: Any = gc,
    ) -> None:
        self._on_loop = on_loop
        self._set_timer = set_timer
        self._now_ms = now_ms
        self._has_clients = has_clients
        self._gc = collector
        self._is_due = False
        self._freezes = 0

    def start(self) -> None:
        """Freeze what lives so far; and begin, unless Python's own full collections are on."""
        self._gc.freeze()
        if self._gc.get_threshold()[2] < OFF:
            return
        self._gc.callbacks.append(self._on_collection)
        self._arm()

    def stop(self) -> None:
        if self._on_collection in self._gc.callbacks:
            self._gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Python's report of a collection, on whatever thread it ran: that of the loader allocates as well."""
        is_of_middle = phase == "stop" and info["generation"] == 1
        if is_of_middle and not self._is_due and self._gc.get_count()[2] >= DUE:
            self._is_due = True
            self._on_loop(self._collect_old)

    def _collect_old(self) -> None:
        """Look for cycles among the objects that have grown old since the last time, and freeze the others."""
        self._is_due = False
        self._gc.collect()
        self._gc.freeze()
        self._freezes += 1

    def timer_fired(self, key: None) -> None:
        if self._freezes >= WORTH_IT and not self._has_clients():
            self._gc.unfreeze()
            self._collect_old()
            self._freezes = 0
        self._arm()

    def _arm(self) -> None:
        self._set_timer(self, None, self._now_ms() + CHECK_EVERY_MS)
