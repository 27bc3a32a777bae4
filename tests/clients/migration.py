"""Living members go from the classic protocol to the consumer protocol and back, one by one, under load.

Members of several libraries, in turns, are a process each. A round replaces every member by one of the new
protocol, and each of them by a classic one again. After each replacement the group must be Stable with all
partitions shared; after each half of a round it is of the one kind. The broker may be killed in the middle of one
round. At the end the books must agree: see `ledger`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from harness.processes import ServerProcess
from tests.clients.fleet import Fleet, Worker
from tests.clients.ledgered import LedgeredGroup

SETTINGS = {
    "group.initial.rebalance.delay.ms": "200",
    "auto.create.topics.enable": "false",
    # No member is to wait long for what it has to be told: there are a hundred replacements in five rounds.
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "200",
}
NEW = {"protocol": "consumer", "assignor": "uniform"}
CLASSIC = {"protocol": "classic", "session_timeout_ms": 30_000}
PARTITIONS_EACH = 2  # So each member has a busy one.


@dataclass(frozen=True, slots=True)
class Plan:
    """How many members go up and down how many times; whether the broker is killed amid the middle round.

    `assignor` is that of classic members. As in Kafka, a group that librdkafka leads with "cooperative-sticky" is
    not upgraded (A54): it writes user data into assignments.
    """

    members: int
    rounds: int
    kills: bool = False
    families: tuple[str, ...] = ("java", "confluent")
    assignor: str = "range"


class Migration:
    """One run, on a broker of its own."""

    def __init__(self, broker: ServerProcess, log_dir: Path, plan: Plan) -> None:
        self._fleet = Fleet(broker.bootstrap, log_dir)
        self._plan = plan
        self._group = LedgeredGroup(broker, self._fleet, plan.members * PARTITIONS_EACH)
        self._began_s = time.monotonic()

    def run(self) -> str:
        """A sentence of figures. Raises AssertionError where a commit is lost or doubled."""
        try:
            classic = {**CLASSIC, "assignor": self._plan.assignor}
            families = islice(cycle(self._plan.families), self._plan.members)
            members = [self._group.start(family, **classic) for family in families]
            self._group.await_shared(*members)
            self._group.await_under_way(*members)
            for number in range(self._plan.rounds):
                self._roll(members, NEW, kills=self._plan.kills and number == self._plan.rounds // 2)
                self._roll(members, classic)
            ledger = self._group.finish(*members)
            figures = self._group.figures(ledger)
            assert self._plan.kills or not ledger.repeated, figures
        finally:
            self._fleet.close()
        return f"{self._plan} in {time.monotonic() - self._began_s:.0f} s: {figures}"

    def _roll(self, members: list[Worker], config: Mapping[str, object], *, kills: bool = False) -> None:
        for number, member in enumerate(members):
            lives = len(member.of("closed"))
            member.become(**config)
            member.wait_for(lambda: len(member.of("closed")) > lives, f"{member.name} closes")  # noqa: B023 - at once.
            if kills and number == len(members) // 2:
                self._group.end_broker("kill")
            self._group.await_shared(*members)
            self._group.await_progress(member)
        kind = self._group.kind()
        print(f"{time.monotonic() - self._began_s:7.2f} s: all are {config}, the group is {kind}", flush=True)
        assert kind == str(config["protocol"]).upper(), kind
