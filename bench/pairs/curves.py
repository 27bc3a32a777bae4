"""What an operation costs at growing sizes: the rows of a table, and the same read back from the page.

Sizes take turns round by round, so that a noisy machine disturbs them alike; what counts is the median of each,
relative to that of the smallest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from bench.pairs.plan import Plan
from bench.pairs.rounds import Contender, take_turns

BOUND: Final = 1.5
"""The bound is not 1: at 100 times the size a look-up takes as many steps, and finds less in the CPU's caches."""

TABLE: Final = (
    "| operation | size | CPU of each, us | lowest to highest | to the smallest | p50, us |\n"
    "|---|---|---|---|---|---|"
)
ROW: Final = re.compile(r"^\| ([^|]+) \| ([\d,]+) \| [\d.]+ \| [\d.]+ to [\d.]+ \| ([\d.]+) \|", re.MULTILINE)


@dataclass(slots=True)
class Point:
    """One size: what each round cost the server, in microseconds of CPU for one operation."""

    size: int
    costs_us: list[float] = field(default_factory=list)
    # The median of each round, where answers are timed.
    latencies_us: list[float] = field(default_factory=list)

    @property
    def cost_us(self) -> float:
        return median(self.costs_us)


@dataclass(frozen=True, slots=True)
class Curve:
    """One operation, from the smallest size to the largest."""

    operation: str
    points: Sequence[Point]
    bound: float = BOUND

    @property
    def growth(self) -> str:
        """What is asked of it, in words."""
        smallest, largest = self.points[0], self.points[-1]
        return f"cost at {largest.size // smallest.size:,} times the size to that at 1: {self.operation}"

    @property
    def rows(self) -> list[str]:
        return [self._row(point) for point in self.points]

    def relative(self, point: Point) -> float:
        return point.cost_us / max(self.points[0].cost_us, 1e-9)

    def _row(self, point: Point) -> str:
        latency = f"{median(point.latencies_us):,.0f}" if point.latencies_us else ""
        return (
            f"| {self.operation} | {point.size:,} | {point.cost_us:.1f} "
            f"| {min(point.costs_us):.1f} to {max(point.costs_us):.1f} | {self.relative(point):.2f} | {latency} |"
        )


def read_back(text: str) -> dict[str, list[tuple[int, float]]]:
    """The operations whose rows are in `text`: what they cost at each size, relative to the smallest."""
    found: dict[str, list[tuple[int, float]]] = {}
    for operation, size, relative in ROW.findall(text):
        found.setdefault(operation, []).append((int(size.replace(",", "")), float(relative)))
    return found


def steady(operation: str, contenders: Mapping[int, Contender], plan: Plan) -> Curve:
    """Measure a steady load of each size, the same number of requests in flight in all of them."""
    take_turns(list(contenders.values()), plan.growth_rounds, plan.growth_s, 1, plan.growth_s)
    points = [
        Point(
            size,
            [load.cpu.total_us for load in contender.loads],
            [load.latency_us(0.5) for load in contender.loads],
        )
        for size, contender in contenders.items()
    ]
    return Curve(operation, points)


def in_turns(operation: str, sizes: Sequence[int], plan: Plan, cost_us: Callable[[int, str], float]) -> Curve:
    """`cost_us` is asked for each size in each round, with a name of its own; the warm-up does not count."""
    points = [Point(size) for size in sizes]
    for number in range(plan.growth_warm_ups + plan.growth_rounds):
        for point in points:
            cost = cost_us(point.size, f"{point.size}-{number}")
            if number >= plan.growth_warm_ups:
                point.costs_us.append(cost)
    return Curve(operation, points)
