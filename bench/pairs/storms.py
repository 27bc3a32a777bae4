"""Join storms: all members join at once, until every group is stable.

The initial delay is on, so both servers gather the same members into the same number of joins; what is compared is
the time beyond it, and the server's CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from bench.pairs.crowd import Crowd, await_coordinator
from bench.pairs.lanes import connect
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Section, target
from bench.pairs.servers import cpu_of
from harness.processes import ServerProcess

DELAYS: Final = 2
"""The initial delay begins once more if a member has joined in it, and here every one has (docs/kafka.md 3)."""

DEADLINE_S: Final = 150.0
TABLE: Final = (
    "| server | s beyond the delay | lowest to highest | server CPU, s | lowest to highest |\n"
    "|---|---|---|---|---|"
)


@dataclass(slots=True)
class Storms:
    """The storms that one server went through."""

    name: str
    server: ServerProcess
    delay_s: float
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def storm(self, name: str, groups: int, size: int) -> None:
        """One more, of groups that are new; they are left to stand when it is over."""
        group_ids = [f"{name}-{index:05d}" for index in range(groups)]
        await_coordinator(self.server.port, group_ids)
        connections = [connect(self.server.port) for _ in range(groups * size)]
        before = cpu_of(self.server.pid)
        took_s = Crowd(group_ids, size, connections).join(DEADLINE_S)
        self.seconds.append(took_s - self.delay_s)
        self.cpu_s.append(cpu_of(self.server.pid).since(before).total_us / 1e6)
        for connection in connections:
            connection.close()

    @property
    def row(self) -> str:
        times, cpu_s = sorted(self.seconds), sorted(self.cpu_s)
        return (
            f"| {self.name} | {median(times):.2f} | {times[0]:.2f} to {times[-1]:.2f} "
            f"| {median(cpu_s):.2f} | {cpu_s[0]:.2f} to {cpu_s[-1]:.2f} |"
        )


def storms(plan: Plan) -> list[Section]:
    few = max(1, plan.connections // 10)
    with ExitStack() as stack:
        contenders: dict[str, ServerProcess] = {
            name: stack.enter_context(plan.muster(name, tree=tree)) for name, tree in plan.builds.items()
        }
        contenders[KAFKA] = stack.enter_context(plan.kafka())
        many = _section(plan, contenders, groups=plan.connections * 2, size=10, bound=0.6)
        large = _section(plan, contenders, groups=1, size=few * 40, bound=0.7)
    return [many, large]


def _section(
    plan: Plan, contenders: Mapping[str, ServerProcess], groups: int, size: int, bound: float
) -> Section:
    delay_s = DELAYS * plan.initial_delay_ms / 1000
    *ours, theirs = (Storms(name, server, delay_s) for name, server in contenders.items())
    for number in range(plan.storm_warm_ups):
        Storms(KAFKA, theirs.server, delay_s).storm(f"warm-{groups}-{number}", groups, size)
    for number in range(plan.rounds):
        for each in (*ours, theirs):
            each.storm(f"storm-{groups}-{number}", groups, size)
    what = f"{groups:,} groups of {size:,}" if groups > 1 else f"one group of {size:,}"
    targets = [
        target(
            f"join storm, {what}: time beyond the delay",
            [median(each.seconds) / min(theirs.seconds) for each in ours],
            bound,
        ),
        target(
            f"join storm, {what}: server CPU",
            [median(each.cpu_s) / min(theirs.cpu_s) for each in ours],
            bound,
        ),
    ]
    conditions = (
        f"{plan.rounds} storms of each in turns, of connections that are open already, after "
        f"{plan.storm_warm_ups} that do not count for Kafka and none for Muster; Kafka's "
        f"best against the median of ours."
    )
    return Section(
        f"Join storm: {what}", [TABLE, *(each.row for each in (*ours, theirs))], targets, conditions
    )
