"""Join storms: all members of many groups join at once, until every group is stable.

With the initial delay both servers gather the same members into the same number of joins, and what is compared is
the time beyond it, and the server's CPU. Without it a group begins with whoever is there first.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Protocol, TypeVar

from bench.pairs.crowd import Crowd, await_coordinator
from bench.pairs.lanes import connect_all
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Section
from bench.pairs.servers import cpu_of
from bench.pairs.targets import judged
from harness.processes import ServerProcess

DELAYS: Final = 2
"""The initial delay begins once more if a member has joined in it, and here every one has (docs/kafka.md 3)."""

NO_DELAY: Final = {"group.initial.rebalance.delay.ms": "0"}
SIZE: Final = 10
DEADLINE_S: Final = 150.0
TABLE: Final = (
    "| server | s beyond any delay | lowest to highest | server CPU, s | lowest to highest |\n"
    "|---|---|---|---|---|"
)


class Joining(Protocol):
    """A crowd of members of either protocol."""

    def join(self, deadline_s: float) -> float: ...


AnyCrowd = TypeVar("AnyCrowd", bound=Joining)
Contender = TypeVar("Contender")


@dataclass(slots=True)
class Storms:
    """The storms that one server went through."""

    name: str
    server: ServerProcess
    delay_s: float = 0.0
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def storm(self, name: str, groups: int, size: int) -> None:
        """One more, of groups that are new; they are left to stand when it is over."""
        self.join(name, groups, size, Crowd)

    def join(
        self,
        name: str,
        groups: int,
        size: int,
        gather: Callable[[Sequence[str], int, Sequence[socket.socket]], AnyCrowd],
    ) -> AnyCrowd:
        """Have the members that `gather` makes of group ids, size and connections join, and return them."""
        group_ids = [f"{name}-{index:05d}" for index in range(groups)]
        await_coordinator(self.server.port, group_ids)
        connections = connect_all(self.server.port, groups * size)
        crowd = gather(group_ids, size, connections)
        before = cpu_of(self.server.pid)
        self.seconds.append(crowd.join(DEADLINE_S) - self.delay_s)
        self.cpu_s.append(cpu_of(self.server.pid).since(before).total_us / 1e6)
        for connection in connections:
            connection.close()
        return crowd

    @property
    def row(self) -> str:
        return self.times

    @property
    def times(self) -> str:
        """A row as far as its times."""
        times, cpu_s = sorted(self.seconds), sorted(self.cpu_s)
        return (
            f"| {self.name} | {median(times):.2f} | {times[0]:.2f} to {times[-1]:.2f} "
            f"| {median(cpu_s):.2f} | {cpu_s[0]:.2f} to {cpu_s[-1]:.2f} |"
        )


def play_in_turns(
    every: Sequence[Contender],
    rounds: int,
    play: Callable[[Contender, str], None],
    warm_up: Contender,
    warm_ups: int,
) -> None:
    """Let each play its rounds, in turns, after some that do not count; `play` is given what to name them."""
    for number in range(warm_ups):
        play(warm_up, f"warm-{number}")
    for number in range(rounds):
        for each in every:
            play(each, str(number))


def storms(plan: Plan) -> list[Section]:
    sections = []
    for kind, overrides in (("delay", {}), ("at_once", NO_DELAY)):
        directory = plan.directory / kind
        directory.mkdir()
        with contending(replace(plan, directory=directory), overrides) as contenders:
            sections.append(_section(plan, contenders, kind))
    return sections


@contextmanager
def contending(plan: Plan, overrides: Mapping[str, str]) -> Iterator[dict[str, ServerProcess]]:
    """Every build and Kafka, all up at once, with these settings over those of the plan."""
    with ExitStack() as stack:
        contenders: dict[str, ServerProcess] = {
            name: stack.enter_context(plan.muster(name, overrides, tree))
            for name, tree in plan.builds.items()
        }
        contenders[KAFKA] = stack.enter_context(plan.kafka(overrides))
        yield contenders


def _section(plan: Plan, contenders: Mapping[str, ServerProcess], kind: str) -> Section:
    groups, delay_s = plan.connections * 2, 0.0
    if kind == "delay":
        delay_s = DELAYS * plan.initial_delay_ms / 1000
    *ours, theirs = (Storms(name, server, delay_s) for name, server in contenders.items())
    warm_up = Storms(KAFKA, theirs.server, delay_s)

    def play(each: Storms, number: str) -> None:
        each.storm(f"storm-{kind}-{number}", groups, SIZE)

    play_in_turns((*ours, theirs), plan.rounds, play, warm_up, plan.storm_warm_ups)
    what = f"{groups:,} groups of {SIZE}, {'the initial delay of both' if delay_s else 'no initial delay'}"
    targets = [
        judged(f"storm.{kind}.time", plan, [median(each.seconds) / min(theirs.seconds) for each in ours]),
        judged(f"storm.{kind}.cpu", plan, [median(each.cpu_s) / min(theirs.cpu_s) for each in ours]),
    ]
    conditions = (
        f"{plan.rounds} storms of each in turns, of connections that are open already, after "
        f"{plan.storm_warm_ups} that do not count for Kafka and none for Muster; Kafka's "
        f"best against the median of ours."
    )
    return Section(
        f"Join storm: {what}", [TABLE, *(each.row for each in (*ours, theirs))], targets, conditions
    )
