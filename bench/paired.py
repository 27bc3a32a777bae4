"""Two contenders, measured in the same rounds: the change from one to the other, its interval, and the verdict.

Pure arithmetic; it knows nothing of what is measured. The interval is distribution-free: two order statistics of
the rounds' changes, between which the median lies with at least 95 % probability whatever the noise looks like,
as long as rounds are independent. With 15 rounds they are the fourth and the twelfth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb
from statistics import median
from typing import Final

CONFIDENCE: Final = 0.95
TABLE: Final = (
    "| what | unit | old, median | new, median | change of user CPU | 95 % interval | allowed | verdict "
    "| change of all CPU, not judged |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


class Verdict(StrEnum):
    """What an interval of changes says; more is worse, and `allowed` is how much more may be."""

    TOO_FEW = "too few rounds"
    BETTER = "better"
    NOT_WORSE = "not worse"
    NOT_SHOWN_WORSE = (
        "not shown worse"  # The interval reaches beyond what is allowed, and lies within it too.
    )
    WORSE = "**worse**"


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the median of the changes lies, with the probability `coverage`."""

    low: float
    median: float
    high: float
    coverage: float

    def verdict(self, allowed: float) -> Verdict:
        """Worse is only what lies wholly beyond `allowed`, better what lies wholly below no change."""
        if self.coverage < CONFIDENCE:
            return Verdict.TOO_FEW
        if self.low > allowed:
            return Verdict.WORSE
        if self.high < 0:
            return Verdict.BETTER
        return Verdict.NOT_WORSE if self.high <= allowed else Verdict.NOT_SHOWN_WORSE


def interval_of(changes: Sequence[float]) -> Interval:
    """The narrowest pair of order statistics, as far from one end as from the other, that covers 95 %.

    Fewer than six changes cannot: then it is from the least to the greatest, and `coverage` says how little.
    """
    ordered, count = sorted(changes), len(changes)
    skipped = 0
    while coverage(count, skipped + 1) >= CONFIDENCE:
        skipped += 1
    low, high = ordered[skipped], ordered[count - 1 - skipped]
    return Interval(low, median(ordered), high, coverage(count, skipped))


def coverage(count: int, skipped: int) -> float:
    """Probability that the median lies between the values that are left when `skipped` go from either end."""
    missed = sum(comb(count, below) for below in range(skipped + 1))
    return max(0.0, 1 - 2 * missed / (1 << count))


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU of one contender in one round, in the comparison's unit for each operation."""

    user: float
    total: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of work by both contenders; `rounds` has the old one's cost first."""

    what: str
    unit: str
    rounds: Sequence[tuple[Spent, Spent]]
    allowed: float  # Of the change: in the unit if `is_absolute`, else in per cent.
    is_absolute: bool = False

    @property
    def user(self) -> Interval:
        return interval_of([self._change(old.user, new.user) for old, new in self.rounds])

    @property
    def total(self) -> Interval:
        return interval_of([self._change(old.total, new.total) for old, new in self.rounds])

    @property
    def verdict(self) -> Verdict:
        return self.user.verdict(self.allowed)

    @property
    def row(self) -> str:
        """A line of `TABLE`."""
        sides = (median(pair[side].user for pair in self.rounds) for side in (0, 1))
        measure = self.unit if self.is_absolute else "%"
        changed = f"{self.user.median:+.2f} {measure} | {_between(self.user)} | {self.allowed:+g} {measure}"
        unjudged = f"{self.total.median:+.2f} {measure} ({_between(self.total)})"
        costs = " | ".join(f"{each:.2f}" for each in sides)
        return f"| {self.what} | {self.unit} | {costs} | {changed} | {self.verdict} | {unjudged} |"

    def _change(self, old: float, new: float) -> float:
        if not old:
            raise ValueError(f"{self.what}: too little work for the kernel's ticks to see any of it")
        return new - old if self.is_absolute else (new / old - 1) * 100


def _between(interval: Interval) -> str:
    return f"{interval.low:+.2f} to {interval.high:+.2f}"


def turns(number: int, each: int) -> list[int]:
    """Who is measured when in round `number`: contender 0 or 1, `each` times both, in the order 0 1 1 0 0 1 ...

    Odd rounds begin with the other one, so that what drifts with time is for neither.
    """
    first = number % 2
    pairs = ((first, 1 - first), (1 - first, first))
    return [side for turn in range(each) for side in pairs[turn % 2]]
