"""How long something took, counted by upper bounds: a histogram in plain integers, read while it is filled.

One thread adds. Knows nothing of what is measured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

FAST_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds for what takes milliseconds as a rule."""


class Latencies:
    """Counts of durations: `counts[i]` of those up to `bounds_s[i]` and above the bound before, then the rest."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: Sequence[float] = FAST_S) -> None:
        """`bounds_s` rise."""
        self.bounds_s = tuple(bounds_s)
        self.counts = [0] * (len(self.bounds_s) + 1)
        self.sum_s = 0.0

    def add(self, took_s: float) -> None:
        """Count one that took so long; a negative time counts as none."""
        took_s = max(took_s, 0.0)
        self.counts[bisect_left(self.bounds_s, took_s)] += 1
        self.sum_s += took_s
