"""What members and offsets weigh while nothing much happens: CPU of their heartbeats, and memory."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final

from bench.pairs import frames
from bench.pairs.crowd import Crowd, await_coordinator, joined
from bench.pairs.frames import Joined
from bench.pairs.lanes import RECEIVE_BYTES, LoadError, connect_all
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Section, target
from bench.pairs.servers import cpu_of, resident_mb
from bench.pairs.singles import PARTITIONS, fill, make_topic
from bench.pairs.storms import DEADLINE_S
from harness.processes import ServerProcess

INTERVAL_S: Final = 3.0
PACE: Final = 1.1
"""How much longer than planned a span may take: a slower load would make the server look idler."""

CONNECTIONS_MAX: Final = 14_000
"""Of 20,000 descriptors a daemon keeps a quarter for files, and lets who comes then wait. So some connections
beat for two members, one after the other."""


def idle(plan: Plan) -> list[Section]:
    """Members who beat every three seconds: the share of a core that this takes."""
    shares: dict[str, list[float]] = {}
    for name, tree in plan.builds.items():
        with plan.muster(name, tree=tree) as ours:
            shares[name] = _idle(plan, ours)
    with plan.kafka() as theirs:
        shares[KAFKA] = _idle(plan, theirs)
    rows = [
        f"| {name} | {min(shares[name]):.1f} | {', '.join(f'{e:.1f}' for e in shares[name])} |"
        for name in shares
    ]
    what = f"{plan.idle_members:,} members that beat every {INTERVAL_S:g} s"
    head = ["| server | % of a core, least | all rounds |", "|---|---|---|"]
    cost = target(f"{what}: CPU", [max(shares[name]) / min(shares[KAFKA]) for name in plan.builds], 0.4)
    conditions = (
        f"{plan.idle_rounds} spans of {plan.idle_s:g} s of each server, one server after the other and Kafka "
        f"last, with no warm-up but the joins; the load kept its pace in all of them. Kafka's best span against "
        f"our worst. Each member's heartbeat is one frame, sent again and again."
    )
    return [Section(f"Idle: {what}", [*head, *rows], [cost], conditions)]


def _idle(plan: Plan, server: ServerProcess) -> list[float]:
    """Per cent of a core in each of several spans. Raises LoadError if a span took longer than planned."""
    joined_at_once = plan.groups * plan.group_size
    count = max(1, plan.idle_members // joined_at_once)
    members = crowds(server, "idle", count, plan.groups, plan.group_size)
    members = members[: plan.idle_members]
    connections = connect_all(server.port, min(len(members), CONNECTIONS_MAX))
    beats = [
        (connections[index % len(connections)], frames.heartbeat(member))
        for index, member in enumerate(members)
    ]
    spans = []
    for _ in range(plan.idle_rounds):
        before, start = cpu_of(server.pid), time.perf_counter()
        _beat(beats, plan.idle_s)
        took_s = time.perf_counter() - start
        if took_s > plan.idle_s * PACE:
            raise LoadError(
                f"heartbeats of {plan.idle_s:g} s took {took_s:.1f} s: the load did not keep its pace"
            )
        spans.append(cpu_of(server.pid).since(before).total_us / 1e6 / took_s * 100)
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
    connections = connect_all(server.port, groups * size)
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
    for name, tree in plan.builds.items():
        with plan.muster(name, tree=tree) as ours:
            found[name] = _memory(plan, ours)
    with plan.kafka() as theirs:
        found[KAFKA] = _memory(plan, theirs)
    rows = [f"| {name} | {' | '.join(f'{each:,.0f}' for each in found[name])} |" for name in found]
    members = plan.crowds * plan.groups * plan.group_size
    what = f"{members:,} members in {plan.crowds * plan.groups:,} groups"
    targets = [
        target(f"memory, {what}", [found[name][1] / found[KAFKA][1] for name in plan.builds], 0.5),
        target(
            f"memory, with {plan.groups * PARTITIONS:,} offsets more",
            [found[name][2] / found[KAFKA][2] for name in plan.builds],
            0.5,
        ),
    ]
    conditions = (
        "One sample of each server, one after the other: resident memory, all of a JVM's heap included."
    )
    return [Section("Memory", [*head, *rows], targets, conditions)]


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
