"""Rounds that alternate between contenders, and what is said of them: medians, spread, ratios.

A noisy machine disturbs neighbours in time alike, so contenders take turns. Against Kafka the odds are on its
side: its best round counts, after a minute under the same load, and of ours the median.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Protocol

from bench.pairs.lanes import Lane
from bench.pairs.lanes import run as run_in_python
from bench.pairs.servers import Cpu, resident_mb
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
"""Said of a load that `lanes.run` makes."""

TABLE: Final = (
    "| server | per second | lowest to highest | p50, us | p99, us | p99.9, us | user us | system us | RSS, MB |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio that was asked for, and the one that was measured: of pure Python, and of the compiled build.

    `compiled` is None where that build was not measured, or has no part in the figure; `compiled_bound` is None
    where as much is asked of it as of pure Python.
    """

    what: str
    ratio: float
    bound: float
    at_least: bool = False
    compiled: float | None = None
    compiled_bound: float | None = None

    @property
    def is_met(self) -> bool:
        return self._keeps(self.ratio, self.bound)

    @property
    def is_met_compiled(self) -> bool | None:
        if self.compiled is None:
            return None
        return self._keeps(self.compiled, self.bound if self.compiled_bound is None else self.compiled_bound)

    def _keeps(self, ratio: float, bound: float) -> bool:
        """Whether the figure that is shown keeps to the target: the page's chart and summary know no other."""
        shown = round(ratio, 2)
        return shown >= bound if self.at_least else shown <= bound

    @property
    def row(self) -> str:
        bounds = [self.bound] if self.compiled_bound is None else [self.bound, self.compiled_bound]
        bound = f"at {'least' if self.at_least else 'most'} {' / '.join(f'{each:g}' for each in bounds)}"
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


class Measured(Protocol):
    """What one round did and what it cost the server, whichever generator made the load."""

    @property
    def cpu(self) -> Cpu: ...

    @property
    def per_second(self) -> float: ...

    def latency_us(self, share: float) -> float: ...


Run = Callable[[Sequence[Lane], float, int, int], Measured]
"""Loads a server over lanes: for so many seconds, its process id, and how many requests are in flight on each."""


@dataclass(slots=True)
class Contender:
    """A server with the lanes that load it, the generator that does, and its rounds."""

    name: str
    server: ServerProcess
    lanes: Sequence[Lane]
    run: Run = run_in_python
    loads: list[Measured] = field(default_factory=list)
    resident_mb: float = 0.0

    def load(self, seconds: float, in_flight: int) -> Measured:
        done = self.run(self.lanes, seconds, self.server.pid, in_flight)
        self.resident_mb = resident_mb(self.server.pid)
        return done

    def of(self, figure: Callable[[Measured], float]) -> float:
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


def throughputs(ours: Sequence[Contender], kafka: Contender) -> list[float]:
    """The median of each of ours to Kafka's best round."""
    return [each.per_second / kafka.best_per_second for each in ours]


def cpus(ours: Sequence[Contender], kafka: Contender) -> list[float]:
    """The CPU of each operation, the median of each of ours to Kafka's best round."""
    return [each.cpu_us / kafka.best_cpu_us for each in ours]
