"""A herd: one large group whose members join at once with no initial delay; alone, and beside sessions that end.

How often members have to join again is chance, so both servers have as many rounds, in turns, and medians count on
both sides. Sessions that end beside it are of other groups, whose members were last heard of at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from bench.pairs import frames
from bench.pairs.crowd import DESCRIBE_VERSION, Crowd, await_coordinator
from bench.pairs.frames import HEARTBEAT
from bench.pairs.lanes import RECEIVE_BYTES, LoadError, connect_all
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Section
from bench.pairs.singles import errors_in
from bench.pairs.storms import DEADLINE_S, NO_DELAY, contending, play_in_turns
from bench.pairs.targets import judged
from harness.processes import ServerProcess, wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest

EXPIRED_S: Final = 60.0
ATTEMPTS: Final = 3
TABLE: Final = (
    "| server | s until stable | lowest to highest | JoinGroups | lowest to highest | generations |\n"
    "|---|---|---|---|---|---|"
)


@dataclass(slots=True)
class Herds:
    """What one server went through."""

    name: str
    server: ServerProcess
    seconds: list[float] = field(default_factory=list)
    joins: list[int] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)

    def herd(self, group_id: str, size: int, when: Callable[[], None] = lambda: None) -> None:
        """One more, of a group that is new; its members are connected, and join when `when` returns."""
        await_coordinator(self.server.port, [group_id])
        connections = connect_all(self.server.port, size)
        crowd = Crowd([group_id], size, connections)
        when()
        self.seconds.append(crowd.join(DEADLINE_S))
        self.joins.append(crowd.join_count)
        self.generations.append(max(member.generation_id for member in crowd.members()))
        for connection in connections:
            connection.close()

    @property
    def row(self) -> str:
        seconds, joins, generations = sorted(self.seconds), sorted(self.joins), sorted(self.generations)
        return (
            f"| {self.name} | {median(seconds):.2f} | {seconds[0]:.2f} to {seconds[-1]:.2f} "
            f"| {median(joins):,.0f} | {joins[0]:,} to {joins[-1]:,} | {generations[0]} to {generations[-1]} |"
        )


class Expiring:
    """Members of other groups whose sessions end all at once, `expiry_ms` after their last heartbeats."""

    def __init__(self, server: ServerProcess, name: str, plan: Plan) -> None:
        """Have them join, and send one last heartbeat each. Raises LoadError if a session ended before."""
        self._server = server
        group_ids = [f"{name}-{index:05d}" for index in range(plan.groups)]
        await_coordinator(server.port, group_ids)
        self.connections = connect_all(server.port, plan.groups * plan.group_size)
        try:
            crowd = Crowd(group_ids, plan.group_size, self.connections, plan.expiry_ms)
            crowd.join(DEADLINE_S)
            self.members = list(crowd.members())
            self._end_s = time.perf_counter() + plan.expiry_ms / 1000
            self.beat()
        except LoadError:
            self.close()
            raise

    def beat(self) -> None:
        """One heartbeat of each member, all in flight at once."""
        for connection, member in zip(self.connections, self.members, strict=True):
            connection.sendall(frames.heartbeat(member))
        for connection, member in zip(self.connections, self.members, strict=True):
            if error := errors_in(HEARTBEAT, connection.recv(RECEIVE_BYTES))[0]:
                raise LoadError(f"{member.group_id}: {ErrorCode(error).name} before its session was to end")

    def await_first(self) -> None:
        """Return when the first of the sessions ends."""
        time.sleep(max(0.0, self._end_s - time.perf_counter()))

    def await_last(self) -> None:
        """Return when all have ended, and let the connections go. Raises TimeoutError."""
        request = DescribeGroupsRequest(groups=list({member.group_id for member in self.members}))
        with WireClient(self._server.bootstrap) as client:

            def are_empty() -> bool:
                """Asked without a heartbeat, which would have a session begin anew."""
                return not any(group.members for group in client.ask(request, DESCRIBE_VERSION).groups)

            wait_until(are_empty, "all sessions end", EXPIRED_S)
        self.close()

    def close(self) -> None:
        for each in self.connections:
            each.close()


def herd(plan: Plan) -> list[Section]:
    return [_section(plan, "herd", plan.storm_warm_ups)]


def herd_beside_expiry(plan: Plan) -> list[Section]:
    return [_section(plan, "herd_beside_expiry", min(1, plan.storm_warm_ups))]


def _section(plan: Plan, kind: str, warm_ups: int) -> Section:
    play = _alone if kind == "herd" else _beside
    with contending(plan, NO_DELAY) as contenders:
        *ours, theirs = (Herds(name, server) for name, server in contenders.items())

        def one(each: Herds, number: str) -> None:
            play(each, f"{kind}-{number}", plan)

        play_in_turns((*ours, theirs), plan.herd_rounds, one, Herds(KAFKA, theirs.server), warm_ups)
    targets = [
        judged(f"{kind}.joins", plan, [median(each.joins) / median(theirs.joins) for each in ours]),
        judged(f"{kind}.time", plan, [median(each.seconds) / median(theirs.seconds) for each in ours]),
    ]
    beside = f", while {plan.sizes['members']:,} sessions of other groups end" if play is _beside else ""
    conditions = (
        f"{plan.herd_rounds} of each in turns, with no initial delay, after {warm_ups} not counted for Kafka "
        f"and none for Muster; the medians of both sides. Of connections that are open already; members that are "
        f"synced send a heartbeat every 3 s."
    )
    title = f"Herd: one group of {plan.sizes['herd']:,}{beside}"
    return Section(title, [TABLE, *(each.row for each in (*ours, theirs))], targets, conditions)


def _alone(herds: Herds, name: str, plan: Plan) -> None:
    herds.herd(name, plan.sizes["herd"])


def _beside(herds: Herds, name: str, plan: Plan) -> None:
    made: list[Expiring] = []

    def first_session_ends() -> None:
        made.append(expiring(herds.server, name, plan))
        made[0].await_first()

    herds.herd(name, plan.sizes["herd"], first_session_ends)
    made[0].await_last()


def expiring(server: ServerProcess, name: str, plan: Plan) -> Expiring:
    """Sessions about to end; tried again where the joins took so long that some had ended. Raises LoadError."""
    for number in range(ATTEMPTS - 1):
        try:
            return Expiring(server, f"{name}-other-{number}", plan)
        except LoadError as slow:
            print(f"{name}, {server}: {slow}; once more", flush=True)
    return Expiring(server, f"{name}-other-{ATTEMPTS}", plan)
