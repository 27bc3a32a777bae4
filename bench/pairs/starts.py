"""Starts: until the first answer of an empty server, and until the last group of a full one is served again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from bench.pairs import frames
from bench.pairs.crowd import joined
from bench.pairs.frames import FETCH, HEARTBEAT, Joined
from bench.pairs.lanes import LoadError, ask, connect
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, Section, target
from bench.pairs.servers import cpu_of
from bench.pairs.singles import PARTITIONS, TOPIC, errors_in, fill, make_topic
from bench.pairs.targets import judged
from harness.daemon import WITH_BYTECODE
from harness.processes import ServerProcess
from protocol.errors import ErrorCode

IMPORT: Final = """\
import time
start = time.perf_counter()
import muster.serve, coordinator.daemon.daemon
print(time.perf_counter() - start)
"""
IMPORT_BOUND_S: Final = 0.25
RESTART_DEADLINE_S: Final = 120.0
RETRY_S: Final = 0.01
CLEAN, KILLED = "after a clean stop", "after kill -9"
ENDS: Final = {CLEAN: "restarts.clean", KILLED: "restarts.killed"}
"""How a server ended, and the target of its next start."""

TABLE: Final = "| server | s, median | lowest to highest | server CPU, s |\n|---|---|---|---|"


def _started_in_turns(
    servers: dict[str, ServerProcess], warm_ups: int, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds to the first answer and CPU seconds of each start, but for the warm-ups.

    Each life ends with a clean stop: a broker that was killed waits out the session of the one it was before, 9 s.
    """
    times: dict[str, list[float]] = {name: [] for name in servers}
    cpu_s: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(warm_ups + rounds):
        for name, server in servers.items():
            start = time.perf_counter()
            with server:
                took_s = time.perf_counter() - start
                if number >= warm_ups:
                    times[name].append(took_s)
                    cpu_s[name].append(cpu_of(server.pid).total_us / 1e6)
                server.terminate()
    return times, cpu_s


def starts(plan: Plan) -> list[Section]:
    """Starts of servers that have run before and hold nothing: what a restart costs at least."""
    servers: dict[str, ServerProcess] = {
        name: plan.muster(name, tree=tree) for name, tree in plan.builds.items()
    }
    servers[KAFKA] = plan.new_kafka()
    times, cpu_s = _started_in_turns(servers, plan.start_warm_ups, plan.rounds)
    rows = [row(name, times[name], cpu_s[name]) for name in servers]
    imports = {
        name: sorted(_import_s(tree) for _ in range(plan.rounds)) for name, tree in plan.builds.items()
    }
    targets = [
        target(
            "start to the first answer",
            [median(times[name]) / min(times[KAFKA]) for name in plan.builds],
            0.08,
        ),
        target(
            "import of the daemon, to 250 ms",
            [median(each) / IMPORT_BOUND_S for each in imports.values()],
            1.0,
        ),
    ]
    notes = [
        f"Import of the daemon, {name}: {median(each) * 1e3:.0f} ms ({each[0] * 1e3:.0f} to {each[-1] * 1e3:.0f})."
        for name, each in imports.items()
    ]
    conditions = (
        f"{plan.rounds} starts of each in turns, of a directory that is there and empty, after a clean stop, and "
        f"after one that does not count; Kafka's best against the median of ours."
    )
    return [Section("Start to first answer", [TABLE, *rows, "", *notes], targets, conditions)]


def row(name: str, times: Sequence[float], cpu_s: Sequence[float]) -> str:
    return f"| {name} | {median(times):.2f} | {min(times):.2f} to {max(times):.2f} | {median(cpu_s):.2f} |"


def _import_s(tree: Path) -> float:
    environment = {**os.environ, **WITH_BYTECODE, "PYTHONPATH": str(tree)}
    ran = subprocess.run(
        [sys.executable, "-P", "-c", IMPORT], env=environment, capture_output=True, text=True, check=True
    )
    return float(ran.stdout)


def restarts(plan: Plan) -> list[Section]:
    """Starts with offsets and live members, which keep sending heartbeats while their server is away."""
    ended = {(how, name): _Restarts() for how in ENDS for name in (*plan.builds, KAFKA)}
    with ExitStack() as stack:
        servers: dict[str, ServerProcess] = {
            name: stack.enter_context(plan.muster(name, tree=tree)) for name, tree in plan.builds.items()
        }
        servers[KAFKA] = stack.enter_context(plan.kafka())
        members = {name: filled(server, plan.groups, plan.group_size) for name, server in servers.items()}
        for _ in range(plan.restart_rounds):
            for (how, name), restarts_ in ended.items():
                took_s, cost_s = _restart(servers[name], members[name], how)
                restarts_.times.append(took_s)
                restarts_.cpu_s.append(cost_s)
    rows = [row(f"{name}, {how}", each.times, each.cpu_s) for (how, name), each in ended.items()]
    what = f"restart with {plan.groups * PARTITIONS:,} offsets and {plan.groups * plan.group_size:,} members"
    targets = [
        judged(
            key,
            plan,
            [median(ended[how, name].times) / min(ended[how, KAFKA].times) for name in plan.builds],
        )
        for how, key in ENDS.items()
    ]
    note = "Every member's next heartbeat was answered in the generation that it was in: no rebalance."
    conditions = (
        f"{plan.restart_rounds} restarts of each and each kind in turns, with no warm-up; the time is that to the "
        f"last group served, from the start of the process. Kafka's best against the median of ours. After kill "
        f"-9 Kafka waits for its own session with the controller to end."
    )
    return [Section(what.capitalize(), [TABLE, *rows, "", note], targets, conditions)]


@dataclass(slots=True)
class _Restarts:
    """Those of one server, after one kind of end."""

    times: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def filled(server: ServerProcess, groups: int, size: int) -> list[Joined]:
    """Stable groups of `size` members, and `PARTITIONS` offsets in each group; their connections are closed."""
    make_topic(server)
    made = joined(server.port, [f"full-{index:05d}" for index in range(groups)], size)
    fill({member.group_id: (connection, member) for connection, member in made}.values())
    for connection, _ in made:
        connection.close()
    return [member for _, member in made]


def _restart(server: ServerProcess, members: Sequence[Joined], how: str) -> tuple[float, float]:
    """Seconds from the start of the process until each group's offsets could be fetched; and the CPU it took.

    Heartbeats would not do: they are answered while a shard is still being read. All members are asked after
    that: each must be answered in its generation.
    """
    server.terminate() if how == CLEAN else server.kill()
    start = time.perf_counter()
    server.start()
    with connect(server.port) as connection:
        deadline = start + RESTART_DEADLINE_S
        for group_id in dict.fromkeys(member.group_id for member in members):
            while not _is_served(connection, group_id):
                if time.perf_counter() > deadline:
                    raise LoadError(f"{group_id} is not served {RESTART_DEADLINE_S:g} s after the start")
                time.sleep(RETRY_S)
        took_s, cost_s = time.perf_counter() - start, cpu_of(server.pid).total_us / 1e6
        for member in members:
            error = errors_in(HEARTBEAT, ask(connection, frames.heartbeat(member)))[0]
            if error:
                raise LoadError(f"{member.group_id}: {ErrorCode(error).name} after a restart")
    return took_s, cost_s


def _is_served(connection: socket.socket, group_id: str) -> bool:
    error = errors_in(FETCH, ask(connection, frames.fetch(group_id, TOPIC, 0)))[0]
    if error not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        raise LoadError(f"{group_id}: {ErrorCode(error).name} after a restart")
    return not error
