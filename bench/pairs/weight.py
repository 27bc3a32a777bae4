"""What members and offsets weigh while nothing much happens: CPU of their heartbeats, and memory."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final

from bench.pairs import frames
from bench.pairs.crowd import Crowd, await_coordinator, joined
from bench.pairs.frames import Joined
from bench.pairs.lanes import RECEIVE_BYTES, LoadError, connect
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, MUSTER, Section, Target
from bench.pairs.servers import Cpu, cpu_of, resident_mb
from bench.pairs.singles import PARTITIONS, fill, make_topic
from bench.pairs.storms import DEADLINE_S
from tests.processes import ServerProcess

INTERVAL_S: Final = 3.0
CONNECTIONS_MAX: Final = 18_000
"""A process may have 20,000 descriptors here: some connections beat for two members, one after the other."""


def idle(plan: Plan) -> list[Section]:
    """Members who beat every three seconds: the share of a core that this takes."""
    used: dict[str, list[Cpu]] = {}
    with plan.muster() as ours:
        used[MUSTER] = _idle(plan, ours)
    with plan.kafka() as theirs:
        used[KAFKA] = _idle(plan, theirs)
    shares = {name: [each.total_us / 1e6 / plan.idle_s * 100 for each in used[name]] for name in used}
    rows = [
        f"| {name} | {min(shares[name]):.1f} | {', '.join(f'{e:.1f}' for e in shares[name])} |"
        for name in used
    ]
    what = f"{plan.idle_members:,} members that beat every {INTERVAL_S:g} s"
    usual = sorted(shares[MUSTER])[len(shares[MUSTER]) // 2]
    head = ["| server | % of a core, least | all rounds |", "|---|---|---|"]
    return [
        Section(f"Idle: {what}", [*head, *rows], [Target(f"{what}: CPU", usual / min(shares[KAFKA]), 0.4)])
    ]


def _idle(plan: Plan, server: ServerProcess) -> list[Cpu]:
    """CPU in each of several spans; Kafka's first ones are its warm-up like any."""
    joined_at_once = plan.groups * plan.group_size
    count = max(1, plan.idle_members // joined_at_once)
    members = crowds(server, "idle", count, plan.groups, plan.group_size)
    members = members[: plan.idle_members]
    connections = [connect(server.port) for _ in range(min(len(members), CONNECTIONS_MAX))]
    beats = [
        (connections[index % len(connections)], frames.heartbeat(member))
        for index, member in enumerate(members)
    ]
    spans = []
    for _ in range(plan.idle_rounds):
        before = cpu_of(server.pid)
        _beat(beats, plan.idle_s)
        spans.append(cpu_of(server.pid).since(before))
    for connection in connections:
        connection.close()
    return spans


def _beat(beats: Sequence[tuple[socket.socket, bytes]], seconds: float) -> None:
    """Every heartbeat once in each interval, evenly spread over it, one in flight."""
    start, turn = time.perf_counter(), 0
    total = int(len(beats) * seconds / INTERVAL_S)
    while turn < total:
        due = min(total, int((time.perf_counter() - start) / INTERVAL_S * len(beats)))
        for index in range(turn, due):
            connection, frame = beats[index % len(beats)]
            connection.sendall(frame)
            if connection.recv(RECEIVE_BYTES)[-3:-1] != b"\0\0":
                raise LoadError("a heartbeat was refused")
        turn = due
        time.sleep(0.002)


def crowds(server: ServerProcess, name: str, count: int, groups: int, size: int) -> list[Joined]:
    """`count` times `groups` stable groups, which join one crowd after the other over the same connections."""
    members: list[Joined] = []
    connections = [connect(server.port) for _ in range(groups * size)]
    for number in range(count):
        group_ids = [f"{name}-{number}-{index:05d}" for index in range(groups)]
        await_coordinator(server.port, group_ids)
        crowd = Crowd(group_ids, size, connections)
        crowd.join(DEADLINE_S)
        members += crowd.members()
    for connection in connections:
        connection.close()
    return members


def memory(plan: Plan) -> list[Section]:
    """Resident memory with many members, and with a million offsets more."""
    head = ["| server | empty, MB | with members, MB | and offsets, MB |", "|---|---|---|---|"]
    found: dict[str, tuple[float, float, float]] = {}
    with plan.muster() as ours:
        found[MUSTER] = _memory(plan, ours)
    with plan.kafka() as theirs:
        found[KAFKA] = _memory(plan, theirs)
    rows = [f"| {name} | {' | '.join(f'{each:,.0f}' for each in found[name])} |" for name in found]
    members = plan.crowds * plan.groups * plan.group_size
    what = f"{members:,} members in {plan.crowds * plan.groups:,} groups"
    targets = [
        Target(f"memory, {what}", found[MUSTER][1] / found[KAFKA][1], 0.5),
        Target(
            f"memory, with {plan.groups * PARTITIONS:,} offsets more", found[MUSTER][2] / found[KAFKA][2], 0.5
        ),
    ]
    return [Section("Memory", [*head, *rows], targets)]


def _memory(plan: Plan, server: ServerProcess) -> tuple[float, float, float]:
    make_topic(server)
    empty = resident_mb(server.pid)
    crowds(server, "memory", plan.crowds, plan.groups, plan.group_size)
    with_members = resident_mb(server.pid)
    made = joined(server.port, [f"offsets-{index:05d}" for index in range(plan.groups)], 1)
    fill(made)
    for connection, _ in made:
        connection.close()
    return empty, with_members, resident_mb(server.pid)
