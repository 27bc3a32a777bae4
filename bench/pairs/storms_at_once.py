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
from bench.pairs.crowd import Crowd, await_coordinator
from bench.pairs.frames import HEARTBEAT
from bench.pairs.lanes import RECEIVE_BYTES, LoadError, ask, connect
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Section
from bench.pairs.singles import errors_in
from bench.pairs.storms import DEADLINE_S, NO_DELAY, contending
from bench.pairs.targets import judged
from harness.processes import ServerProcess, wait_until
from protocol.errors import ErrorCode

EXPIRED_S: Final = 60.0
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
        connections = [connect(self.server.port) for _ in range(size)]
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
    """Members of other groups whose sessions end all at once, `session_ms` after they were heard of last."""

    def __init__(self, server: ServerProcess, name: str, plan: Plan) -> None:
        """Have them join, and send one last heartbeat each. Raises LoadError if a session ended before."""
        group_ids = [f"{name}-{index:05d}" for index in range(plan.groups)]
        await_coordinator(server.port, group_ids)
        self.connections = [connect(server.port) for _ in range(plan.groups * plan.group_size)]
        crowd = Crowd(group_ids, plan.group_size, self.connections, plan.expiry_ms)
        crowd.join(DEADLINE_S)
        self.members = list(crowd.members())
        self._end_s = time.perf_counter() + plan.expiry_ms / 1000
        self.beat()

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
        """Return when the last has ended, and let the connections go. Raises TimeoutError."""
        time.sleep(max(0.0, self._end_s - time.perf_counter()) + 1.0)
        connection, frame = self.connections[-1], frames.heartbeat(self.members[-1])
        gone = [ErrorCode.UNKNOWN_MEMBER_ID]
        wait_until(lambda: errors_in(HEARTBEAT, ask(connection, frame)) == gone, "sessions end", EXPIRED_S)
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
        for number in range(warm_ups):
            play(Herds(KAFKA, theirs.server), f"warm-{kind}-{number}", plan)
        for number in range(plan.herd_rounds):
            for each in (*ours, theirs):
                play(each, f"{kind}-{number}", plan)
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
    expiring = Expiring(herds.server, f"{name}-other", plan)
    herds.herd(name, plan.sizes["herd"], expiring.await_first)
    expiring.await_last()
