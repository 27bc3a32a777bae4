"""`make bench-throughput`: MB/s produced and consumed, paired with Apache Kafka 4.3.1 in the same run.

Both servers are up all the while, with their production defaults (Kafka with a heap of 1 GB); rounds alternate
between them, so that a noisy machine disturbs both. In a round a librdkafka producer in a process of its own
fills a new topic (acks=all, uncompressed), then another process reads it from the start. What counts is
the median of the ratios of the pairs, and the CPU that the server itself needs for a megabyte.

    python -m bench.throughput [--rounds 5] [--megabytes 400] [--bytes 1024 100] [--only muster]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from bench.pairs.servers import KAFKA_HEAP, KAFKA_THREADS, cpu_of
from bench.throughput_client import BATCH_RECORDS
from harness.daemon import MusterDaemon
from harness.kafka_broker import SMALL, MeasuredKafka
from harness.processes import ServerProcess
from harness.wire import WireClient
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest

MB: Final = 1_000_000
CREATE_VERSION, DELETE_VERSION = 5, 4
ROUND_TIMEOUT_S: Final = 150

WORKS: Final = ("produce", "consume")


@dataclass(frozen=True, slots=True)
class Figure:
    """One client's round against one server."""

    mb_per_second: float
    server_ms_per_mb: float
    client_ms_per_mb: float


@dataclass(slots=True)
class Figures:
    """All rounds of one server, by what was done."""

    server: ServerProcess
    rounds: dict[str, list[Figure]] = field(default_factory=lambda: {work: [] for work in WORKS})
    peak_rss_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class Topic:
    """What is written to a topic and read from it: `records` of `size` bytes."""

    name: str
    partitions: int
    records: int
    size: int


def client(
    work: str, server: ServerProcess, topic: Topic, settings: Mapping[str, str] | None = None
) -> Figure:
    """Run one client process to its end; what it measured, and what it cost the server.

    `settings` are librdkafka's, over those that both have.
    """
    command = [sys.executable, "-m", "bench.throughput_client", work, "--bootstrap", server.bootstrap]
    numbers = {"--partitions": topic.partitions, "--records": topic.records, "--bytes": topic.size}
    command += ["--topic", topic.name, *(str(part) for pair in numbers.items() for part in pair)]
    before = cpu_of(server.pid)
    done = subprocess.run(
        command,
        input=json.dumps(dict(settings or {})),
        capture_output=True,
        text=True,
        timeout=ROUND_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{work} against {server}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    megabytes = topic.records * topic.size / MB
    server_ms = cpu_of(server.pid).since(before).total_us / 1000
    return Figure(megabytes / report["seconds"], server_ms / megabytes, report["cpu_s"] * 1000 / megabytes)


@contextmanager
def made_topic(server: ServerProcess, topic: Topic) -> Iterator[None]:
    """A topic for one round, deleted after it so that the disk does not fill."""
    with WireClient(server.bootstrap) as admin:
        wanted = CreatableTopic(name=topic.name, num_partitions=topic.partitions, replication_factor=1)
        made = admin.ask(CreateTopicsRequest(topics=[wanted]), CREATE_VERSION).topics[0]
        assert made.error_code == 0, made
        try:
            yield
        finally:
            admin.ask(DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=10_000), DELETE_VERSION)


def records_of(megabytes: int, size: int) -> int:
    """As many records as `throughput_client` can write in whole batches of its own."""
    return megabytes * MB // size // BATCH_RECORDS * BATCH_RECORDS


def one_round(figures: Figures, name: str, partitions: int, megabytes: int, size: int) -> None:
    topic = Topic(name, partitions, records_of(megabytes, size), size)
    with made_topic(figures.server, topic):
        for work in WORKS:
            figures.rounds[work].append(client(work, figures.server, topic))
    figures.peak_rss_mb = max(figures.peak_rss_mb, peak_rss_mb(figures.server.pid))


def peak_rss_mb(pid: int) -> float:
    """The most that was resident so far, by the kernel's own high-water mark."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / MB


def row(name: str, figures: Figures, work: str) -> str:
    rounds = figures.rounds[work]
    rates = sorted(each.mb_per_second for each in rounds)
    server = median(each.server_ms_per_mb for each in rounds)
    own = median(each.client_ms_per_mb for each in rounds)
    return (
        f"| {name}, {work} | {median(rates):.0f} | {rates[0]:.0f} to {rates[-1]:.0f} "
        f"| {server:.2f} | {own:.2f} | {figures.peak_rss_mb:.0f} |"
    )


def ratio(ours: Figures, theirs: Figures, work: str) -> str:
    """The median of the pairs' ratios, and their spread."""
    pairs = zip(ours.rounds[work], theirs.rounds[work], strict=True)
    ratios = sorted(our.mb_per_second / their.mb_per_second for our, their in pairs)
    return f"{median(ratios):.2f} times Kafka's ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def compare(servers: dict[str, ServerProcess], asked: argparse.Namespace, size: int) -> list[str]:
    """All rounds with records of `size` bytes: the rows of a table, then the ratios."""
    figures = {name: Figures(server) for name, server in servers.items()}
    for number in range(asked.warm_up + asked.rounds):
        for name, each in figures.items():
            if number == asked.warm_up:
                each.rounds = Figures(each.server).rounds
            one_round(each, f"{name}-{size}-{number}", asked.partitions, asked.megabytes, size)
    lines = [row(name, each, work) for work in WORKS for name, each in figures.items()]
    if len(figures) == len(NAMES):
        ours, theirs = figures[NAMES[0]], figures[NAMES[1]]
        lines += ["", *(f"- {work}, {size} bytes: {ratio(ours, theirs, work)}" for work in WORKS)]
    return lines


NAMES: Final = ("Muster", "Kafka")
HEAD: Final = (
    "| server | MB/s, median | lowest to highest | server CPU, ms/MB | client CPU, ms/MB | peak RSS, MB |\n"
    "|---|---|---|---|---|---|"
)


def start(name: str, directory: Path) -> ServerProcess:
    if name == "Muster":
        return MusterDaemon(directory / name)
    return MeasuredKafka(directory / name, {**SMALL, **KAFKA_THREADS}, heap=KAFKA_HEAP)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=400, help="of record values in a round")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that do not count: Java compiles")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--bytes", type=int, nargs="+", default=[1024, 100], help="sizes of a record's value")
    parser.add_argument("--only", choices=NAMES, help="one server alone, while developing")
    asked = parser.parse_args(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-throughput-")))
        names = [asked.only] if asked.only else NAMES
        servers = {name: stack.enter_context(start(name, directory)) for name in names}
        for size in asked.bytes:
            rounds = f"{asked.rounds} rounds of {asked.megabytes} MB"
            print(f"\nRecords of {size} bytes, {asked.partitions} partitions, {rounds}\n\n{HEAD}")
            print("\n".join(compare(servers, asked, size)), flush=True)


if __name__ == "__main__":
    main()
