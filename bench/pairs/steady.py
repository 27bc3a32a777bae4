"""Steady load: heartbeats and commits, a fixed number in flight on each connection."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from bench.pairs import frames, generator
from bench.pairs.frames import COMMIT, HEARTBEAT
from bench.pairs.generator import GeneratedLoad
from bench.pairs.lanes import Lane, ask, connect
from bench.pairs.plan import MANY, Plan
from bench.pairs.rounds import (
    FLOOR,
    KAFKA,
    TABLE,
    Contender,
    Section,
    Target,
    cpus,
    take_turns,
    target,
    throughputs,
)
from bench.pairs.servers import Floor
from bench.pairs.singles import PARTITIONS, commit_of, lanes_of, make_topic
from bench.pairs.targets import judged
from harness.processes import ServerProcess

SYNC_PROBES: Final = 200
DEEP: Final = 16
POLICIES: Final = ("fsync", "os")
GENERATED: Final = (
    "The load is `bench/pairs/generator.c`, the same for all: each request has a correlation id of its own, "
    "and each commit offsets one higher than the last."
)


def floor_lanes(server: ServerProcess, like: Sequence[Lane]) -> list[Lane]:
    """The same frames for the floor."""
    made = []
    for lane in like:
        connection = connect(server.port)
        made.append(Lane(connection, lane.frame, ask(connection, lane.frame)))
    return made


def close(contenders: Sequence[Contender]) -> None:
    for each in contenders:
        close_lanes(each.lanes)


def close_lanes(lanes: Sequence[Lane]) -> None:
    for lane in lanes:
        lane.socket.close()


def heartbeats(plan: Plan) -> list[Section]:
    """Heartbeats on few and on many connections, and with sixteen in flight."""
    with ExitStack() as stack:
        servers: dict[str, ServerProcess] = {
            name: stack.enter_context(plan.muster(name, tree=tree)) for name, tree in plan.builds.items()
        }
        servers[KAFKA] = stack.enter_context(plan.kafka())
        servers[FLOOR] = stack.enter_context(Floor(plan.directory / "floor"))
        return [
            _heartbeats(plan, servers, "few", plan.warm_s),
            _heartbeats(plan, servers, "many", plan.warm_again_s),
            _heartbeats(plan, servers, "deep", plan.warm_again_s),
        ]


def _heartbeats(plan: Plan, servers: dict[str, ServerProcess], kind: str, warm_s: float) -> Section:
    count = plan.connections * (MANY if kind == "many" else 1)
    in_flight = DEEP if kind == "deep" else 1
    contenders = [
        contender(
            name,
            servers[name],
            lanes_of(servers[name], f"beat-{count}-{in_flight}", count, frames.heartbeat, HEARTBEAT),
        )
        for name in (*plan.builds, KAFKA)
    ]
    contenders.append(contender(FLOOR, servers[FLOOR], floor_lanes(servers[FLOOR], contenders[0].lanes)))
    take_turns(contenders, plan.rounds, plan.seconds, in_flight, warm_s)
    close(contenders)
    ours, (theirs, bare) = contenders[:-2], contenders[-2:]
    what = f"heartbeats, {count:,} connections, {in_flight} in flight"
    targets = [judged(f"heartbeats.{kind}.throughput", plan, throughputs(ours, theirs))]
    if in_flight == 1:
        targets += [
            judged(f"heartbeats.{kind}.cpu", plan, cpus(ours, theirs)),
            target(f"{what}: user CPU, to the floor's", [each.user_us / bare.user_us for each in ours], 1.8),
            Target(f"{what}: the floor's own CPU", bare.cpu_us / theirs.best_cpu_us, 0.5),
        ]
    return Section(what.capitalize(), lines(contenders), targets, conditions(plan, warm_s))


def contender(name: str, server: ServerProcess, lanes: Sequence[Lane]) -> Contender:
    return Contender(name, server, lanes, generator.run)


def lines(contenders: Sequence[Contender]) -> list[str]:
    """The table, and what the generator itself takes: beside that much no server can show what it is worth."""
    own = ", ".join(
        f"{median(load.own_us for load in each.loads if isinstance(load, GeneratedLoad)):.1f} ({each.name})"
        for each in contenders
    )
    return [TABLE, *(each.row for each in contenders), "", f"The generator's own CPU of each, us: {own}."]


def conditions(plan: Plan, warm_s: float) -> str:
    return (
        f"{plan.rounds} rounds of {plan.seconds:g} s in turns, after {warm_s:g} s of the same load for Kafka "
        f"and {min(1.0, warm_s):g} s for the others; Kafka's best round against the median of the others'. "
        f"{GENERATED}"
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
        single = _commits(plan, servers, 1, plan.warm_s)
        whole = _commits(plan, servers, PARTITIONS, plan.warm_again_s)
    return [_commits_of_one(plan, single), _commits_of_a_thousand(plan, whole)]


def _commits_of_one(plan: Plan, single: list[Contender]) -> Section:
    count = len(plan.builds)
    fsync, os_, kafka_ = single[:count], single[count:-1], single[-1]
    targets = [
        judged("commits.fsync.throughput", plan, throughputs(fsync, kafka_)),
        judged("commits.fsync.cpu", plan, cpus(fsync, kafka_)),
        judged("commits.os.throughput", plan, throughputs(os_, kafka_)),
    ]
    sync_us = fdatasync_us(plan.directory)
    note = f"This machine's own fdatasync of a 4 KiB append: {sync_us:,.0f} us (median of {SYNC_PROBES})."
    title = f"Commits of one partition, {plan.connections:,} groups"
    return Section(title, [*lines(single), "", note], targets, conditions(plan, plan.warm_s))


def _commits_of_a_thousand(plan: Plan, whole: list[Contender]) -> Section:
    fsync, kafka_ = whole[: len(plan.builds)], whole[-1]
    targets = [
        judged("whole.fsync.throughput", plan, throughputs(fsync, kafka_)),
        judged("whole.fsync.cpu", plan, cpus(fsync, kafka_)),
    ]
    title = f"Commits of {PARTITIONS:,} partitions"
    return Section(title, lines(whole), targets, conditions(plan, plan.warm_again_s))


def _commits(
    plan: Plan, servers: dict[str, ServerProcess], partitions: int, warm_s: float
) -> list[Contender]:
    count = plan.connections if partitions == 1 else max(1, plan.connections // 10)
    contenders = [
        contender(
            name, server, lanes_of(server, f"commit-{partitions}", count, commit_of(partitions), COMMIT)
        )
        for name, server in servers.items()
    ]
    take_turns(contenders, plan.rounds, plan.seconds, 1, warm_s)
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
