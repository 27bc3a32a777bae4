"""What it costs a job to read and decode `__consumer_offsets`: CPU time per record of all its processes.

    python -m bench.spark_decode [--records 20000000] [--job commits] [--groups 200]

An offsets log is written into a daemon's log directory, as `bench.offsets_log` has it but with every partition
committed again and again, as consumers do. Then a job reads all of it in `local[1]`: librdkafka, Arrow, the
decoder, and its tables as Parquet. Counted is the CPU time of the JVM, the Python workers and the driver, not of
the daemon, from the start of the query to its end; first in a JVM that has just started, whose compiler takes its
share, then again in the same one. The time on the clock is of little use on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

import psutil

from bench.machine import machine
from bench.offsets_log import (
    NODE_ID,
    OFFSETS_OVERRIDES,
    SHARDS,
    group_name,
    topic_name,
)
from coordinator.effects import CoordinatorRecord
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import OffsetCommitKey
from coordinator.topics.catalogue import CatalogueEntry
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.registry import new_topic_id
from coordinator.topics.store import TopicStore
from harness.daemon import MusterDaemon
from muster.spark.jobs.job import load_job
from muster.spark.jobs.options import RunOptions
from muster.spark.jobs.runner import RunProgress, run
from muster.spark.session import spark_session
from protocol.records.records import Record as LogRecord
from protocol.records.records import encode_batch
from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.config import LogConfig

ROOT: Final = Path(__file__).resolve().parent.parent
PARTITIONS_PER_GROUP: Final = 100  # Of four topics.
COMMIT_EVERY_MS: Final = 5_000  # What `auto.commit.interval.ms` is unless it is set.
SEGMENT_BYTES: Final = 1 << 30  # One segment per log: what is active is not compacted meanwhile.
# Version 4: offset, leader epoch, no metadata, time; one tagged field behind.
_VALUE: Final = Struct(">hqibq")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds by process."""

    jvm: float
    workers: float
    driver: float

    @property
    def total(self) -> float:
        return self.jvm + self.workers + self.driver

    def since(self, before: Cost) -> Cost:
        return Cost(self.jvm - before.jvm, self.workers - before.workers, self.driver - before.driver)


def cost_so_far() -> Cost:
    """The CPU time of this process, the JVM below it, and the Python workers below that."""
    jvm = workers = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            used, name = process.cpu_times(), process.name()
        except psutil.Error:  # A helper of the JVM's that has just ended.
            continue
        if name == "java":
            jvm += used.user + used.system
        elif process.ppid() != os.getpid():  # The daemon is a child of ours.
            workers += used.user + used.system
    mine = time.process_time()
    return Cost(jvm, workers, mine)


def write_log(directory: Path, records: int, groups: int) -> int:
    """Write about `records` commits into the log directory; returns how many."""
    files = Files()
    held = LogDirectory.open(directory, files, node_id=NODE_ID)
    overrides = {**OFFSETS_OVERRIDES, "segment.bytes": str(SEGMENT_BYTES)}
    entry = CatalogueEntry(GROUP_METADATA_TOPIC, new_topic_id(), SHARDS, overrides)
    logs = TopicStore(held, files).create(entry, LogConfig(segment_bytes=SEGMENT_BYTES))
    rounds = max(1, records // (groups * PARTITIONS_PER_GROUP))
    written = 0
    for partition, log in enumerate(logs):
        numbers = [
            number for number in range(groups) if partition_for(group_name(number), SHARDS) == partition
        ]
        for batch, wall_ms in _batches(numbers, rounds):
            written += len(batch)
            log.append(encode_batch(batch), wall_ms=wall_ms)
        log.flush()
    failures = held.close()
    assert not failures, failures
    return written


def _batches(groups: list[int], rounds: int) -> Iterator[tuple[list[LogRecord], int]]:
    """One batch per group and round: a consumer commits all it has, every few seconds."""
    randomness = random.Random(len(groups))
    first_ms = time.time_ns() // 1_000_000 - rounds * COMMIT_EVERY_MS
    tail = b"\x01\x00\x10" + randomness.randbytes(16)
    keys = {number: _keys(number) for number in groups}
    for turn in range(rounds):
        for number in groups:
            wall_ms = first_ms + turn * COMMIT_EVERY_MS + randomness.randrange(COMMIT_EVERY_MS)
            value = _VALUE.pack(4, 1_000_000 + turn * 37, 0, 1, wall_ms) + tail
            yield [LogRecord(key, value, wall_ms) for key in keys[number]], wall_ms


def _keys(group: int) -> list[bytes]:
    return [
        encode_record(
            CoordinatorRecord(
                OffsetCommitKey(group=group_name(group), topic=topic_name(n // 25), partition=n % 25), None
            )
        )[0]
        for n in range(PARTITIONS_PER_GROUP)
    ]


def measure(job: str, bootstrap: str, out: Path, batch_records: int | None, master: str, runs: int) -> None:
    settings = {"spark.master": master, "spark.driver.memory": "1g"}
    spark = spark_session("muster: bench", settings)
    try:
        for number in range(runs):
            options = RunOptions(bootstrap, str(out / str(number)), max_offsets_per_batch=batch_records)
            before, began = cost_so_far(), time.monotonic()
            done: RunProgress = run(spark, load_job(job), options, lambda _: None)
            cost, took_s = cost_so_far().since(before), time.monotonic() - began
            report(f"{'a new JVM' if number == 0 else 'the same JVM'}", done, cost, took_s)
    finally:
        spark.stop()


def report(how: str, done: RunProgress, cost: Cost, took_s: float) -> None:
    each = 1e6 / done.records
    print(
        f"| {how} | {done.records:,} | {done.batches} | {cost.jvm * each:.2f} | {cost.workers * each:.2f} | "
        f"{cost.driver * each:.2f} | {cost.total * each:.2f} | {done.records / cost.total:,.0f} | {took_s:.1f} |",
        flush=True,
    )


HEADINGS: Final = (
    "in", "records", "batches", "JVM, µs a record", "Python workers", "driver", "all", "records per CPU second",
    "on the clock, s",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--groups", type=int, default=200, help=f"each of {PARTITIONS_PER_GROUP} partitions")
    parser.add_argument("--records-per-batch", type=int, help="as the job has it, unless given")
    parser.add_argument("--job", default="commits")
    parser.add_argument("--master", default="local[1]")
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args()
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"Machine: {machine()}. Load average at the start: {load}.\n")
    os.environ["PYTHONPATH"] = str(ROOT)  # Spark's workers are to import what we do.
    with tempfile.TemporaryDirectory() as directory, chdir(directory):
        daemon = MusterDaemon(Path(directory) / "muster", {"offsets.topic.num.partitions": str(SHARDS)})
        write_log(daemon.log_dir, given.records, given.groups)
        with daemon:
            print(f"| {' | '.join(HEADINGS)} |\n{'|---' * len(HEADINGS)}|", flush=True)
            out = Path(directory) / "out"
            measure(given.job, daemon.bootstrap, out, given.records_per_batch, given.master, given.runs)


if __name__ == "__main__":
    main()
