"""How long the event loop may be held: 20 ms, or as much more as this machine is slower than others."""

from __future__ import annotations

import time
from functools import cache

LONGEST_S = 0.020
STEPS = 2_000_000
"""Of an empty loop in Python, which may take the place of the 20 ms where they take longer."""


@cache
def longest_s() -> float:
    """What may be held, in seconds of this thread's CPU time."""
    return max(LONGEST_S, min(_seconds_of_steps() for _ in range(3)))


def _seconds_of_steps() -> float:
    began = time.thread_time()
    for _ in range(STEPS):
        pass
    return time.thread_time() - began
