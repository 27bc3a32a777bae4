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
from harness.processes import ServerProcess

MUSTER, COMPILED, KAFKA, FLOOR = "Muster", "Muster, compiled", "Kafka", "floor"
"""Muster is pure Python, as `make run`, the wheel and the image are; compiled is what `make compiled` builds."""

QUANTILES: Final = (0.5, 0.99, 0.999)
NOT_MEASURED: Final = "-"
VERDICTS: Final = {True: "yes", False: "**no**", None: NOT_MEASURED}

REPEATED: Final = (
    "Each connection sends one frame over and over, numbers included: the best case of a prepared request "
    "(`coordinator/server/prepared.py`); requests that differ each time were not measured."
)
"""Said of every steady load."""

TABLE: Final = (
    "| server | per second | lowest to highest | p50, us | p99, us | p99.9, us | user us | system us | RSS, MB |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio that was asked for, and the one that was measured: of pure Python, and of the compiled build.

    `compiled` is None where that build was not measured, or has no part in the figure.
    """

    what: str
    ratio: float
    bound: float
    at_least: bool = False
    compiled: float | None = None

    @property
    def is_met(self) -> bool:
        return self._keeps(self.ratio)

    @property
    def is_met_compiled(self) -> bool | None:
        return None if self.compiled is None else self._keeps(self.compiled)

    def _keeps(self, ratio: float) -> bool:
        """Whether the figure that is shown keeps to the target: the page's chart and summary know no other."""
        shown = round(ratio, 2)
        return shown >= self.bound if self.at_least else shown <= self.bound

    @property
    def row(self) -> str:
        bound = f"at {'least' if self.at_least else 'most'} {self.bound:g}"
        compiled = NOT_MEASURED if self.compiled is None else f"{self.compiled:.2f}"
        verdicts = " | ".join(VERDICTS[each] for each in (self.is_met, self.is_met_compiled))
        return f"| {self.what} | {self.ratio:.2f} | {compiled} | {bound} | {verdicts} |"


def target(what: str, ratios: Sequence[float], bound: float, at_least: bool = False) -> Target:
    """A Target of the ratios of the builds that were measured, pure Python first."""
    compiled = ratios[1] if len(ratios) > 1 else None
    return Target(what, ratios[0], bound, at_least, compiled)


@dataclass(frozen=True, slots=True)
class Section:
    """What one scenario has to say on the page; `conditions` is how it was measured, in one sentence or two."""

    title: str
    lines: list[str]
    targets: list[Target]
    conditions: str


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


def throughput(ours: Sequence[Contender], kafka: Contender, bound: float, what: str) -> Target:
    ratios = [each.per_second / kafka.best_per_second for each in ours]
    return target(f"{what}: throughput", ratios, bound, at_least=True)


def cpu(ours: Sequence[Contender], kafka: Contender, bound: float, what: str) -> Target:
    return target(f"{what}: server CPU of each", [each.cpu_us / kafka.best_cpu_us for each in ours], bound)
