"""How cost grows: each operation at 1, 10 and 100 times the size, of Muster alone.

Nothing on the path of a request may grow with the groups, members or offsets that it does not touch. So the same
few connections ask for the same, beside more and more that only lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from bench.pairs import curves, frames
from bench.pairs.crowd import joined
from bench.pairs.curves import Curve
from bench.pairs.frames import COMMIT, FETCH, HEARTBEAT, Joined
from bench.pairs.growth_joins import REBALANCE, joins, leaders_reply_us, rebalances
from bench.pairs.lanes import Lane, ask
from bench.pairs.plan import Plan
from bench.pairs.rounds import REPEATED, Contender, Section, target
from bench.pairs.singles import PARTITIONS, TOPIC, commit_of, lanes_of, make_topic
from bench.pairs.starts import filled
from bench.pairs.weight import crowds
from harness.processes import ServerProcess

GROUPS, OFFSET_GROUPS, MEMBERS = 100, 10, 10
"""The smallest sizes: groups of one member, groups of a thousand offsets, members of one group."""

LANES: Final = 100
JOIN_AT_ONCE: Final = 1_000
AT_ONCE: Final = {"group.initial.rebalance.delay.ms": "0", "muster.flush.policy": "os"}
"""A group of one need not wait for others; and how many commits share a sync depends on the disk, not on sizes."""

FIGURE: Final = "![Cost of each operation as sizes grow, relative to the smallest](images/growth.svg)"
ABOUT: Final = (
    "What is shown is the server's CPU time for each operation, or for each partition or member "
    "of it, the median of {rounds} rounds in which sizes take turns. The p50 latency is that of a load which "
    "keeps every connection busy, so it follows the cost. Commits are kept under the policy `os`. A member joins "
    "with two requests; its join is measured while the initial delay lasts, so that it only waits. A rebalance "
    "is measured from the first join until all are stable."
)

AT_ONE_SIZE: Final = (
    "starts",
    "cold",
    "storms",
    "herd",
    "herd_beside_expiry",
    "bursts",
    "restarts",
    "idle",
    "memory",
    "consumer_heartbeats",
    "consumer_storms",
    "consumer_herd",
    "secured_heartbeats",
    "secured_produce",
    "handshakes",
    "tls_memory",
    "tls_request",
    "authorized_heartbeats",
    "authorized_commits",
    "consumer_memory",
)
"""The scenarios that no curve is drawn of."""

Servers = Mapping[int, ServerProcess]


def growth(plan: Plan) -> list[Section]:
    measured = []
    for name, tree in plan.builds.items():
        directory = plan.folder(name)
        directory.mkdir()
        measured.append(_curves(replace(plan, directory=directory, tree=tree)))
    found = measured[0]
    largest = next(curve for curve in found if curve.operation == REBALANCE).points[-1]
    note = (
        f"Of the {largest.cost_us:.0f} us of a rebalance for each of {largest.size:,} members, the leader's "
        f"answer, which names them all, takes {leaders_reply_us(largest.size):.1f} us (timed alone)."
    )
    rows = [row for curve in found for row in curve.rows]
    lines = [ABOUT.format(rounds=plan.growth_rounds), "", FIGURE, "", curves.TABLE, *rows, "", note]
    targets = [
        target(each[0].growth, [curve.relative(curve.points[-1]) for curve in each], each[0].bound)
        for each in zip(*measured, strict=True)
    ]
    conditions = (
        f"Muster alone, the table in pure Python: {plan.growth_rounds} rounds of each size in turns, of "
        f"{plan.growth_s:g} s where a load is steady, after "
        f"{plan.growth_s:g} s or {plan.growth_warm_ups} round that does not count. {REPEATED} Measured at one "
        f"size, so that their growth is not known: {', '.join(AT_ONE_SIZE)}; of storms only what the joins and "
        "rebalances of one group show here."
    )
    return [Section("How cost grows", lines, targets, conditions)]


def _curves(plan: Plan) -> list[Curve]:
    """Every operation, of the build that `plan` names."""
    return [*_beside_others(plan), *_with_more_inside(plan), joins(plan)]


def _beside_others(plan: Plan) -> Iterator[Curve]:
    """What groups ask for that others live beside; then the others have offsets too."""
    with _servers(plan) as servers:
        for step, server in servers.items():
            at_once = min(GROUPS * step, JOIN_AT_ONCE)
            crowds(server, "other", GROUPS * step // at_once, at_once, 1)
        groups = {GROUPS * step: server for step, server in servers.items()}
        yield _curve(plan, "heartbeat, by other groups", groups, frames.heartbeat, HEARTBEAT)
        yield _curve(plan, "commit, by other groups", groups, commit_of(1), COMMIT)
        for step, server in servers.items():
            filled(server, OFFSET_GROUPS * step, 1)
        offsets = {OFFSET_GROUPS * PARTITIONS * step: server for step, server in servers.items()}
        yield _curve(plan, "commit, by others' offsets", offsets, commit_of(1), COMMIT)
        yield _curve(plan, "fetch, by others' offsets", offsets, _fetch, FETCH)


@contextmanager
def _servers(plan: Plan) -> Iterator[Servers]:
    """A server for each step, all up at once, so that they can take turns."""
    with ExitStack() as stack:
        servers: dict[int, ServerProcess] = {
            step: stack.enter_context(plan.muster(f"beside-{step}", AT_ONCE)) for step in plan.steps
        }
        for server in servers.values():
            make_topic(server)
        yield servers


def _with_more_inside(plan: Plan) -> Iterator[Curve]:
    """Commits with more in each; heartbeats in one group, as it has more members; and whole rebalances."""
    delay = {"group.initial.rebalance.delay.ms": f"{plan.growth_delay_ms}"}
    with plan.muster("inside", {**AT_ONCE, **delay}) as server:
        make_topic(server)
        wide = {size: _committing(plan, server, size) for size in (*plan.steps, plan.steps[-1] * 10)}
        whole = _measured(plan, "commit, for each of its partitions", dict.fromkeys(wide, server), wide)
        yield _of_each(whole)
        grown = {MEMBERS * step: _members_of_one(server, MEMBERS * step) for step in plan.steps}
        yield _measured(plan, "heartbeat, by its group's members", dict.fromkeys(grown, server), grown)
        yield rebalances(server, plan)


def _committing(plan: Plan, server: ServerProcess, partitions: int) -> list[Lane]:
    return lanes_of(server, f"wide-{partitions}", _lanes(plan) // 2, commit_of(partitions), COMMIT)


def _of_each(whole: Curve) -> Curve:
    """The cost of each of the parts that an operation is made of; it has to fall."""
    points = [replace(each, costs_us=[cost / each.size for cost in each.costs_us]) for each in whole.points]
    return replace(whole, points=points, bound=1.0)


def _curve(
    plan: Plan,
    operation: str,
    servers: Servers,
    frame_of: Callable[[Joined], bytes],
    api: tuple[int, int],
) -> Curve:
    prefix = operation.replace(" ", "-")
    lanes = {size: lanes_of(server, prefix, _lanes(plan), frame_of, api) for size, server in servers.items()}
    return _measured(plan, operation, servers, lanes)


def _measured(plan: Plan, operation: str, servers: Servers, lanes: Mapping[int, Sequence[Lane]]) -> Curve:
    contenders = {size: Contender(f"{size:,}", servers[size], lanes[size]) for size in servers}
    curve = curves.steady(operation, contenders, plan)
    for lane in (lane for each in lanes.values() for lane in each):
        lane.socket.close()
    return curve


def _lanes(plan: Plan) -> int:
    return min(LANES, plan.connections)


def _fetch(member: Joined) -> bytes:
    """Fetch what the group of the same number has committed under the load before."""
    return frames.fetch(member.group_id.replace("fetch", "commit"), TOPIC, 0)


def _members_of_one(server: ServerProcess, size: int) -> list[Lane]:
    """Load as many of its members as the smallest group has, each on its connection; the others only live."""
    made = joined(server.port, [f"one-{size}"], size)
    for connection, _ in made[MEMBERS:]:
        connection.close()
    lanes = []
    for connection, member in made[:MEMBERS]:
        frame = frames.heartbeat(member)
        lanes.append(Lane(connection, frame, ask(connection, frame)))
    return lanes
