"""How the cost of coming together grows with the members of a group: of a whole rebalance, and of one more join.

In every round the same number of members join, in many small groups or in one large one: so a round takes long
enough to be measured, and all but the size of the group is the same.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final

from bench.pairs import curves, frames
from bench.pairs.crowd import ANSWER_HEADER_BYTES, REBALANCE_MS, Crowd, await_coordinator
from bench.pairs.curves import Curve
from bench.pairs.frames import JOIN, PROTOCOL, PROTOCOL_TYPE, SUBSCRIPTION
from bench.pairs.lanes import LoadError, ask, connect_all
from bench.pairs.plan import Plan
from bench.pairs.servers import cpu_us
from bench.pairs.storms import DEADLINE_S
from coordinator.groups.classic.answers import join_answer
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member, OfferedProtocol
from harness.processes import ServerProcess
from protocol.codec.codec import decode
from protocol.errors import ErrorCode
from protocol.framing import response_frame
from protocol.messages.join_group import JoinGroupResponse

MEMBERS: Final = 20
"""Members of the smallest group."""

REBALANCE: Final = "rebalance, for each member"
LATER: Final = 5
"""One newcomer for so many members of a group that wait already: those are measured."""

LONG_DELAY: Final = {"group.initial.rebalance.delay.ms": "3600000"}
QUIET_S: Final = 0.05
QUIET_US: Final = 1_000.0
"""A server that used less than this in `QUIET_S` has done what it was asked for."""

QUIET_TRIES: Final = 400
REPLY_TRIES: Final = 5


def rebalances(server: ServerProcess, plan: Plan) -> Curve:
    """The cost from the first JoinGroup until all groups are stable, for each member."""

    def cost_us(size: int, name: str) -> float:
        group_ids = _group_ids(f"rebalance-{name}", size, plan)
        await_coordinator(server.port, group_ids)
        connections = connect_all(server.port, len(group_ids) * size)
        before = _when_quiet(server.pid)
        Crowd(group_ids, size, connections).join(DEADLINE_S)
        cost = _when_quiet(server.pid) - before
        _close(connections)
        return cost / len(connections)

    return curves.in_turns(REBALANCE, _sizes(plan), plan, cost_us)


def joins(plan: Plan) -> Curve:
    """One more member joins a group whose members wait for the initial delay to pass."""
    with plan.muster("joins", LONG_DELAY) as server:

        def cost_us(size: int, name: str) -> float:
            group_ids = _group_ids(f"join-{name}", size, plan)
            await_coordinator(server.port, group_ids)
            waiting = connect_all(server.port, len(group_ids) * size)
            later = connect_all(server.port, len(waiting) // LATER)
            _join(waiting, group_ids)
            before = _when_quiet(server.pid)
            _join(later, group_ids)
            cost = _when_quiet(server.pid) - before
            _close([*waiting, *later])
            return cost / len(later)

        return curves.in_turns("join, by members that wait", _sizes(plan), plan, cost_us)


def leaders_reply_us(size: int) -> float:
    """The making and the encoding of the leader's JoinGroup answer, for each member that it names."""
    group = Group("group", protocol_name=PROTOCOL)
    for index in range(size):
        group.add(_member(f"{frames.CLIENT_ID}-{index:036d}"), PROTOCOL_TYPE)
    leader = group.members[group.leader or ""]
    times = []
    for _ in range(REPLY_TRIES):
        start = time.perf_counter()
        response_frame(1, join_answer(group, leader, JOIN[1]), JOIN[1])
        times.append(time.perf_counter() - start)
    return min(times) * 1e6 / size


def _member(member_id: str) -> Member:
    offered = (OfferedProtocol(PROTOCOL, SUBSCRIPTION),)
    return Member(member_id, None, frames.CLIENT_ID, "", REBALANCE_MS, frames.SESSION_MS, offered)


def _sizes(plan: Plan) -> list[int]:
    return [MEMBERS * step for step in plan.steps]


def _group_ids(name: str, size: int, plan: Plan) -> list[str]:
    """The ids of as many groups of `size` as have the members of the largest one."""
    return [f"{name}-{index:05d}" for index in range(max(_sizes(plan)) // size)]


def _join(connections: Sequence[socket.socket], group_ids: Sequence[str]) -> None:
    """A member on each connection: it is given an id, comes back with it, and is left to wait for the answer."""
    for index, connection in enumerate(connections):
        group_id = group_ids[index % len(group_ids)]
        answer = ask(connection, frames.join(group_id, "", REBALANCE_MS))
        joined = decode(JoinGroupResponse, JOIN[1], answer, ANSWER_HEADER_BYTES)
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            raise LoadError(f"{group_id}: JoinGroup was answered {ErrorCode(joined.error_code).name}")
        connection.sendall(frames.join(group_id, joined.member_id, REBALANCE_MS))


def _when_quiet(pid: int) -> float:
    """What the server's CPU time is, in microseconds, as soon as it has nothing left to do."""
    used = cpu_us(pid)
    for _ in range(QUIET_TRIES):
        time.sleep(QUIET_S)
        before, used = used, cpu_us(pid)
        if used - before < QUIET_US:
            return used
    raise LoadError("the server is never done")


def _close(connections: Sequence[socket.socket]) -> None:
    for connection in connections:
        connection.close()
