"""What an authorizer with many ACLs costs Muster: heartbeats and commits of a plain listener, with and without.

Rounds are those of `bench.paired_loads`: daemons of their own, slices in turns, user CPU by the kernel's ticks.
The ACLs are in the log directory before a daemon starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.paired import TABLE, Comparison
from bench.paired_loads import Amounts, Contender, Load, Run, load_of_commits, load_of_heartbeats, steady
from bench.pairs.plan import Plan
from bench.pairs.rounds import Section
from bench.pairs.servers import muster
from bench.pairs.singles import TOPIC
from bench.pairs.targets import judged
from coordinator.security.acl_store import AclStore
from coordinator.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from harness.daemon import MusterDaemon
from storage.files import Files

AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
ANYBODY, ANY_HOST = "User:ANONYMOUS", "*"
"""Who clients of a plain listener are."""

GROUPS: Final = "alone-"
"""What the groups' names begin with in `paired_loads.senders_of`."""

ALLOWED_PERCENT: Final = 5.0


@dataclass(frozen=True, slots=True)
class Authorized(Contender):
    """The same tree with an authorizer, and with `count` ACLs."""

    count: int

    def daemon(self, directory: Path, overrides: dict[str, str]) -> MusterDaemon:
        made = muster(directory / self.name, {**overrides, **AUTHORIZER}, self.tree)
        made.log_dir.mkdir(parents=True)
        created = AclStore(made.log_dir, Files()).create(acls(self.count))
        assert len(created.added) == self.count
        return made


def acls(count: int) -> list[Acl]:
    """What the load needs, by a prefix and by name, and `count` in all: most are of others, to the same groups."""
    needed = [
        _allowed(ResourceType.GROUP, GROUPS, ANYBODY, Operation.READ, PatternType.PREFIXED),
        _allowed(ResourceType.TOPIC, TOPIC, ANYBODY, Operation.READ),
        _allowed(ResourceType.TOPIC, TOPIC, ANYBODY, Operation.CREATE),
    ]
    others = [
        _allowed(kind, f"{name}{number:05d}", f"User:user-{number:05d}", Operation.READ)
        for number in range(count // 2)
        for kind, name in ((ResourceType.GROUP, GROUPS), (ResourceType.TOPIC, "topic-"))
    ]
    return [*needed, *others][:count]


def _allowed(
    kind: ResourceType,
    name: str,
    principal: str,
    operation: Operation,
    pattern: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(kind, name, pattern, principal, ANY_HOST, operation, Permission.ALLOW)


def heartbeats(plan: Plan) -> list[Section]:
    return [_section(plan, "heartbeats", load_of_heartbeats)]


def commits(plan: Plan) -> list[Section]:
    return [_section(plan, "commits", load_of_commits)]


def _section(plan: Plan, what: str, load: Callable[[Amounts], Load]) -> Section:
    amounts = Amounts(
        connections=plan.connections, heartbeats=plan.authorized_heartbeats, commits=plan.authorized_commits
    )
    rows, ratios = [TABLE], []
    for name, tree in plan.builds.items():
        contenders = (Contender("without", tree), Authorized("with", tree, plan.acls))
        run = Run(plan.folder(name), contenders, plan.authorized_rounds, amounts)
        compared = Comparison(f"{what}, {name}", "us", steady(run, load(amounts)), ALLOWED_PERCENT)
        rows.append(compared.row)
        ratios.append(1 + compared.user.median / 100)
    conditions = (
        f"Old is without an authorizer, new with one and {plan.acls:,} ACLs. {plan.authorized_rounds} rounds, "
        f"each with two daemons of its own that take turns within it; {plan.connections:,} plain connections, 1 "
        f"in flight. The interval holds the median with a probability of at least 95 % (`bench/paired.py`); the "
        f"ratio is that median."
    )
    target = judged(f"authorized_{what}", plan, ratios)
    return Section(f"An authorizer with {plan.acls:,} ACLs: {what}", rows, [target], conditions)
