"""Measures each turn of the event loop: the CPU time of its thread, and beside it the time on the wall.

A turn is what the loop does between two waits for sockets and timers; while it lasts nobody else is served. CPU
time is what it took by itself; the time on the wall has on top what it waited for: the disk, other threads that
had the interpreter, other processes that had the core. The longest is kept, and a turn beyond a limit is logged.

A turn counts when a few more have ended, as a signal takes away its time on the wall (`on_signal`). It costs one
call per turn and nothing per request. Who sees the turns is `loop_turns.py`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from storage.latencies import Latencies

log = structlog.get_logger("muster.runtime")

LONG_TURN_S: Final = 0.001
"""From here on how long a turn lasted is counted; most last a tenth of it, and are only counted."""

LONG_TURN_BOUNDS_S: Final = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

LOG_EVERY_S: Final = 1.0
"""Least time between two logged turns: of those in between, the number is logged with the next."""


RECENT: Final = 4
"""Turns that are not counted yet: a signal is handled two turns after the one that it came in."""


class Turn(NamedTuple):
    """What one turn took, or the longest one on each clock: the two need not be the same turn."""

    cpu_ms: float
    wall_ms: float


class TurnWatch:
    """Takes the end of each turn, at `turn_ended`. Event-loop thread only.

    `on_turn(cpu_s)` is called with the thread's CPU time as the next turn begins.
    """

    __slots__ = (
        "_cpu_s",
        "_is_begun",
        "_is_signalled",
        "_limit_s",
        "_logged_at_s",
        "_longest_cpu_s",
        "_longest_wall_s",
        "_now_s",
        "_on_turn",
        "_read_cpu_s",
        "_recent",
        "_unlogged",
        "busy_s",
        "counted",
        "long_turns",
        "turns",
    )

    def __init__(
        self,
        log_ms: int,
        on_turn: Callable[[float], None],
        cpu_s: Callable[[], float] = time.thread_time,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """A turn of `log_ms` of CPU time, or of time on the wall, is logged."""
        self._limit_s = log_ms / 1000
        self._on_turn = on_turn
        self._read_cpu_s, self._now_s = cpu_s, now_s
        self._cpu_s = self.busy_s = (
            0.0  # All so far: CPU time, and time on the wall in which it did not wait.
        )
        self.counted = 0
        """Number of turns that are counted so far, those before the last `forget` too;"""
        self.long_turns = Latencies(LONG_TURN_BOUNDS_S)
        """and of those the ones that lasted for LONG_TURN_S or more on the wall."""
        self._is_begun = self._is_signalled = False
        self._recent: deque[tuple[float, float]] = (
            deque()
        )  # What the last turns took, on each clock; not counted yet.
        self._longest_cpu_s = self._longest_wall_s = 0.0
        self._logged_at_s = -LOG_EVERY_S
        self._unlogged = 0
        self.turns = 0

    @property
    def longest(self) -> Turn:
        """The longest turn so far, on each clock for itself."""
        longest_cpu_s = max([self._longest_cpu_s, *(took_s for took_s, _ in self._recent)])
        longest_wall_s = max([self._longest_wall_s, *(wall_s for _, wall_s in self._recent)])
        return Turn(longest_cpu_s * 1000, longest_wall_s * 1000)

    def forget(self) -> None:
        """Begin anew with the longest turn and their number."""
        self._longest_cpu_s = self._longest_wall_s = 0.0
        self._recent.clear()
        self.turns = 0

    def on_signal(self) -> None:
        """Leave out the time on the wall of this turn and the last ones: a signal came in one of them.

        libuv begins its wait anew after a signal, and counts the wait until then as work: for an idle daemon that
        would be a turn of half a second. The signal's handler runs some turns later.
        """
        self._recent = deque((took_s, 0.0) for took_s, _ in self._recent)
        self._is_signalled = True

    def turn_ended(self, busy_s: float) -> None:
        """Count the turn that ends now: `busy_s` is all time on the wall so far in which the loop did not wait."""
        cpu_s = self._read_cpu_s()
        took_s, wall_s = cpu_s - self._cpu_s, busy_s - self.busy_s
        self._cpu_s, self.busy_s = cpu_s, busy_s
        self.turns += 1
        if not self._is_begun:
            self._is_begun = True  # Until now it was the start, which is no turn.
        else:
            self._recent.append((took_s, 0.0 if self._is_signalled else wall_s))
            self._is_signalled = False
            if len(self._recent) > RECENT:
                self._count(*self._recent.popleft())
        self._on_turn(cpu_s)

    def _count(self, took_s: float, wall_s: float) -> None:
        self.counted += 1
        if wall_s >= LONG_TURN_S:
            self.long_turns.add(wall_s)
        if took_s > self._longest_cpu_s:
            self._longest_cpu_s = took_s
        if wall_s > self._longest_wall_s:
            self._longest_wall_s = wall_s
        if took_s >= self._limit_s or wall_s >= self._limit_s:
            self._report(took_s, wall_s)

    def _report(self, took_s: float, wall_s: float) -> None:
        now_s = self._now_s()
        if now_s - self._logged_at_s < LOG_EVERY_S:
            self._unlogged += 1
            return
        self._logged_at_s = now_s
        log.warning(
            "a long turn of the event loop",
            cpu_ms=round(took_s * 1000, 1),
            wall_ms=round(wall_s * 1000, 1),
            more_not_logged=self._unlogged,
        )
        self._unlogged = 0
