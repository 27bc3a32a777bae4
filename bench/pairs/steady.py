"""Steady load: heartbeats and commits, a fixed number in flight on each connection."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from bench.pairs import frames
from bench.pairs.frames import COMMIT, HEARTBEAT
from bench.pairs.lanes import Lane, ask, connect
from bench.pairs.plan import Plan
from bench.pairs.rounds import (
    FLOOR,
    KAFKA,
    REPEATED,
    TABLE,
    Contender,
    Section,
    Target,
    cpu,
    take_turns,
    target,
    throughput,
)
from bench.pairs.servers import Floor
from bench.pairs.singles import PARTITIONS, commit_of, lanes_of, make_topic
from harness.processes import ServerProcess

SYNC_PROBES: Final = 200
MANY: Final = 9
"""Times the connections: 4,500 to each of four servers, of one process that may have 20,000 descriptors."""
POLICIES: Final = ("fsync", "os")


def floor_lanes(server: ServerProcess, like: Sequence[Lane]) -> list[Lane]:
    """The same frames for the floor."""
    made = []
    for lane in like:
        connection = connect(server.port)
        made.append(Lane(connection, lane.frame, ask(connection, lane.frame)))
    return made


def close(contenders: Sequence[Contender]) -> None:
    for contender in contenders:
        for lane in contender.lanes:
            lane.socket.close()


def heartbeats(plan: Plan) -> list[Section]:
    """Heartbeats on few and on many connections, and with sixteen in flight."""
    sections = []
    with ExitStack() as stack:
        servers: dict[str, ServerProcess] = {
            name: stack.enter_context(plan.muster(name, tree=tree)) for name, tree in plan.builds.items()
        }
        servers[KAFKA] = stack.enter_context(plan.kafka())
        servers[FLOOR] = stack.enter_context(Floor(plan.directory / "floor"))
        many = plan.connections * MANY
        for count, in_flight in ((plan.connections, 1), (many, 1), (plan.connections, 16)):
            sections.append(_heartbeats(plan, servers, count, in_flight))
    return sections


def _heartbeats(plan: Plan, servers: dict[str, ServerProcess], count: int, in_flight: int) -> Section:
    contenders = [
        Contender(
            name,
            servers[name],
            lanes_of(servers[name], f"beat-{count}-{in_flight}", count, frames.heartbeat, HEARTBEAT),
        )
        for name in (*plan.builds, KAFKA)
    ]
    contenders.append(Contender(FLOOR, servers[FLOOR], floor_lanes(servers[FLOOR], contenders[0].lanes)))
    take_turns(contenders, plan.rounds, plan.seconds, in_flight, plan.warm_s)
    close(contenders)
    ours, (theirs, bare) = contenders[:-2], contenders[-2:]
    what = f"heartbeats, {count:,} connections, {in_flight} in flight"
    targets = [throughput(ours, theirs, 2.5 if in_flight > 1 else 1.4, what)]
    if in_flight == 1:
        targets += [
            cpu(ours, theirs, 0.60, what),
            target(f"{what}: user CPU, to the floor's", [each.user_us / bare.user_us for each in ours], 1.8),
            Target(f"{what}: the floor's own CPU", bare.cpu_us / theirs.best_cpu_us, 0.5),
        ]
    lines = [TABLE, *(each.row for each in contenders)]
    return Section(what.capitalize(), lines, targets, _conditions(plan))


def _conditions(plan: Plan) -> str:
    return (
        f"{plan.rounds} rounds of {plan.seconds:g} s in turns, after {plan.warm_s:g} s of the same load for Kafka "
        f"and {min(1.0, plan.warm_s):g} s for the others; Kafka's best round against the median of the others'. "
        f"{REPEATED}"
    )


def commits(plan: Plan) -> list[Section]:
    """Commits of one partition, under both flush policies, and of a thousand."""
    with ExitStack() as stack:
        servers: dict[str, ServerProcess] = {
            f"{name}, `{policy}`": stack.enter_context(
                plan.muster(f"{name}-{policy}", {"muster.flush.policy": policy}, tree)
            )
            for policy in POLICIES
            for name, tree in plan.builds.items()
        }
        servers[KAFKA] = stack.enter_context(plan.kafka())
        for server in servers.values():
            make_topic(server)
        single = _commits(plan, servers, plan.connections, 1)
        whole = _commits(plan, servers, max(1, plan.connections // 10), PARTITIONS)
    return [_commits_of_one(plan, single), _commits_of_a_thousand(plan, whole)]


def _commits_of_one(plan: Plan, single: list[Contender]) -> Section:
    count = len(plan.builds)
    fsync, os_, kafka_ = single[:count], single[count:-1], single[-1]
    what = "commits of one partition"
    targets = [
        throughput(fsync, kafka_, 1.5, f"{what}, `fsync`"),
        cpu(fsync, kafka_, 0.6, f"{what}, `fsync`"),
        throughput(os_, kafka_, 2.0, f"{what}, `os`"),
    ]
    sync_us = fdatasync_us(plan.directory)
    note = f"This machine's own fdatasync of a 4 KiB append: {sync_us:,.0f} us (median of {SYNC_PROBES})."
    title = f"Commits of one partition, {plan.connections:,} groups"
    return Section(title, [TABLE, *(e.row for e in single), "", note], targets, _conditions(plan))


def _commits_of_a_thousand(plan: Plan, whole: list[Contender]) -> Section:
    count = len(plan.builds)
    fsync, os_, kafka_ = whole[:count], whole[count:-1], whole[-1]
    targets = [
        throughput(fsync, kafka_, 1.0, "commits of 1,000 partitions, `fsync`"),
        throughput(os_, kafka_, 1.0, "commits of 1,000 partitions, `os`"),
    ]
    rows = [TABLE, *(e.row for e in whole)]
    return Section(f"Commits of {PARTITIONS:,} partitions", rows, targets, _conditions(plan))


def _commits(plan: Plan, servers: dict[str, ServerProcess], count: int, partitions: int) -> list[Contender]:
    contenders = [
        Contender(
            name, server, lanes_of(server, f"commit-{partitions}", count, commit_of(partitions), COMMIT)
        )
        for name, server in servers.items()
    ]
    take_turns(contenders, plan.rounds, plan.seconds, 1, plan.warm_s)
    close(contenders)
    return contenders


def fdatasync_us(directory: Path) -> float:
    """The machine's own floor of a commit that is kept: the median of one 4 KiB append with fdatasync."""
    times = []
    with (directory / "probe").open("wb", buffering=0) as file:
        for _ in range(SYNC_PROBES):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1e6)
    return median(times)
