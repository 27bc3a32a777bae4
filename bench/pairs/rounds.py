"""Rounds that alternate between contenders, and what is said of them: medians, spread, ratios.

A noisy machine disturbs neighbours in time alike, so contenders take turns. Against Kafka the odds are on its
side: its best round counts, after a minute under the same load, and of ours the median.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from bench.pairs import lanes
from bench.pairs.lanes import Lane, Load
from bench.pairs.servers import resident_mb
from tests.processes import ServerProcess

MUSTER, PURE, KAFKA, FLOOR = "Muster", "Muster, pure Python", "Kafka", "floor"
QUANTILES: Final = (0.5, 0.99, 0.999)

TABLE: Final = (
    "| server | per second | lowest to highest | p50, us | p99, us | p99.9, us | user us | system us | RSS, MB |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio that was asked for, and the one that was measured."""

    what: str
    ratio: float
    bound: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """By the figure that is shown: the page's chart and summary know no other."""
        shown = round(self.ratio, 2)
        return shown >= self.bound if self.at_least else shown <= self.bound

    @property
    def row(self) -> str:
        bound = f"at {'least' if self.at_least else 'most'} {self.bound:g}"
        return f"| {self.what} | {self.ratio:.2f} | {bound} | {'yes' if self.is_met else '**no**'} |"


@dataclass(frozen=True, slots=True)
class Section:
    """What one scenario has to say on the page."""

    title: str
    lines: list[str]
    targets: list[Target]


@dataclass(slots=True)
class Contender:
    """A server with the lanes that load it, and its rounds."""

    name: str
    server: ServerProcess
    lanes: Sequence[Lane]
    loads: list[Load] = field(default_factory=list)
    resident_mb: float = 0.0

    def load(self, seconds: float, in_flight: int) -> Load:
        done = lanes.run(self.lanes, seconds, self.server.pid, in_flight)
        self.resident_mb = resident_mb(self.server.pid)
        return done

    def of(self, figure: Callable[[Load], float]) -> float:
        return median(figure(each) for each in self.loads)

    @property
    def per_second(self) -> float:
        return self.of(lambda load: load.per_second)

    @property
    def best_per_second(self) -> float:
        return max(load.per_second for load in self.loads)

    @property
    def cpu_us(self) -> float:
        return self.of(lambda load: load.cpu.total_us)

    @property
    def best_cpu_us(self) -> float:
        return min(load.cpu.total_us for load in self.loads)

    @property
    def user_us(self) -> float:
        return self.of(lambda load: load.cpu.user_us)

    @property
    def row(self) -> str:
        rates = sorted(load.per_second for load in self.loads)
        quantiles = [median(load.latency_us(share) for load in self.loads) for share in QUANTILES]
        return (
            f"| {self.name} | {median(rates):,.0f} | {rates[0]:,.0f} to {rates[-1]:,.0f} | "
            f"{' | '.join(f'{each:,.0f}' for each in quantiles)} | {self.user_us:.1f} | "
            f"{self.of(lambda load: load.cpu.system_us):.1f} | {self.resident_mb:.0f} |"
        )


def take_turns(
    contenders: Sequence[Contender], rounds: int, seconds: float, in_flight: int, warm_s: float
) -> None:
    """Warm each one up (Kafka for `warm_s`, the others a second), then play the rounds in turns."""
    for contender in contenders:
        contender.load(warm_s if contender.name == KAFKA else min(1.0, warm_s), in_flight)
    for _ in range(rounds):
        for contender in contenders:
            contender.loads.append(contender.load(seconds, in_flight))


def throughput(ours: Contender, kafka: Contender, bound: float, what: str) -> Target:
    return Target(f"{what}: throughput", ours.per_second / kafka.best_per_second, bound, at_least=True)


def cpu(ours: Contender, kafka: Contender, bound: float, what: str) -> Target:
    return Target(f"{what}: server CPU of each", ours.cpu_us / kafka.best_cpu_us, bound)
