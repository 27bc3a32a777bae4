"""`make bench`: heartbeats against the floor, and commits with fsync; writes docs/performance.md.

Muster's daemon and the floor run in turn, on the same frames, in the same minutes, so that a noisy
machine disturbs both; what counts is the median ratio of the pairs.

    python -m bench.performance [--connections 500] [--seconds 5] [--rounds 5] [--write]
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench import load
from bench.load import Figures
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.daemon import MusterDaemon
from tests.wire import WireClient

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
OTHERS = "## The log"
"""From this heading on the page has the figures of other benchmarks, and is left as it is."""
TOPIC = "bench"
SYNC_PROBES = 200


@contextmanager
def floor() -> Iterator[tuple[int, int]]:
    """The bare protocol as a process: (pid, port)."""
    process = subprocess.Popen([sys.executable, "-m", "bench.floor"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def heartbeats(
    daemon: MusterDaemon, count: int, seconds: float, rounds: int
) -> tuple[list[Figures], list[Figures]]:
    """Rounds of (Muster, floor), one heartbeat in flight on each of `count` connections."""
    ours: list[Figures] = []
    bare: list[Figures] = []
    members = load.connect(daemon.port, count)
    for member in members:
        load.join(member)
    frames = [load.heartbeat_frame(member) for member in members]
    with floor() as (pid, port):
        strangers = load.connect(port, count)
        load.run(members, frames, 1, daemon.pid)
        load.run(strangers, frames, 1, pid)
        for _ in range(rounds):
            ours.append(load.run(members, frames, seconds, daemon.pid))
            bare.append(load.run(strangers, frames, seconds, pid))
    load.check_answers(members, 12, load.HEARTBEAT_VERSION)
    load.close(members)
    return ours, bare


def commits(daemon: MusterDaemon, count: int, seconds: float, rounds: int) -> list[Figures]:
    """Rounds of one-partition commits under `muster.flush.policy=fsync`, one in flight per connection."""
    with WireClient(daemon.bootstrap) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
    members = load.connect(daemon.port, count)
    for index, member in enumerate(members):
        member.group_id = f"bench-commits-{index:05d}"
        load.join(member)
    frames = [load.commit_frame(member, TOPIC) for member in members]
    load.run(members, frames, 1, daemon.pid)
    figures = [load.run(members, frames, seconds, daemon.pid) for _ in range(rounds)]
    load.check_answers(members, 8, load.COMMIT_VERSION)
    load.close(members)
    return figures


def fdatasync_us(directory: Path) -> float:
    """The machine's own floor: the median of one 4 KiB append with fdatasync."""
    times = []
    with (directory / "probe").open("wb", buffering=0) as file:
        for _ in range(SYNC_PROBES):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1e6)
    return median(times)


def row(name: str, figures: list[Figures]) -> str:
    rates = sorted(each.per_second for each in figures)
    user, system = (median(each.user_us for each in figures), median(each.system_us for each in figures))
    return (
        f"| {name} | {median(rates):,.0f} | {rates[0]:,.0f} to {rates[-1]:,.0f} | {user:.1f} | {system:.1f} |"
    )


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = next(
        (line.split(":", 1)[1].strip() for line in info.splitlines() if "model name" in line), "unknown"
    )
    return (
        f"{os.cpu_count()} cores of {model}, Linux {platform.release()}, Python {platform.python_version()}, "
        f"one shared and noisy virtual machine; the load generator runs on the same cores"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--write", action="store_true", help="write docs/performance.md, not only the terminal"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        report = measure(Path(directory), options.connections, options.seconds, options.rounds)
    print(report)
    if options.write:
        _, heading, others = PAGE.read_text().partition(OTHERS)
        PAGE.write_text(f"{report}\n{heading}{others}" if heading else report)


def measure(directory: Path, count: int, seconds: float, rounds: int) -> str:
    sync_us = fdatasync_us(directory)
    overrides = {"group.initial.rebalance.delay.ms": "0", "socket.listen.backlog.size": "1024"}
    with MusterDaemon(directory / "daemon", overrides) as daemon:
        ours, bare = heartbeats(daemon, count, seconds, rounds)
        committed = commits(daemon, count, seconds, rounds)
    ratio = median(a.user_us / b.user_us for a, b in zip(ours, bare, strict=True))
    pace = median(a.per_second / b.per_second for a, b in zip(ours, bare, strict=True))
    return f"""# Performance

A first note; the comparison with Apache Kafka in one run comes later. Ratios are medians of pairs that ran in
turn on the same frames: single figures of a shared machine say little.

    make bench

Machine: {machine()}.
{count} connections, one request in flight on each, {rounds} rounds of {seconds:g} s. CPU is the server process's,
all its threads, by the operating system's accounting (10 ms ticks).

| server | per second, median | lowest to highest | user us each | system us each |
|---|---|---|---|---|
{row("Muster, heartbeats", ours)}
{row("floor, heartbeats: a bare protocol on uvloop", bare)}
{row("Muster, commits of one partition, `fsync`", committed)}

- User CPU of a heartbeat: **{ratio:.2f} times** the floor's (the bound is 2.5). Throughput: {pace:.2f} of its.
- Each of the {count} connections is the only member of its group: commits spread over all 50 offsets partitions.
- This machine's fdatasync of one 4 KiB append: {sync_us:,.0f} us (median of {SYNC_PROBES}); commits share theirs.
"""


if __name__ == "__main__":
    main()
