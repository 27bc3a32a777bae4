"""What compaction costs: how fast an offsets log is cleaned, and what commits feel of it.

    python -m bench.compaction [--seconds 10] [--offsets 200000]

First a log as the coordinator writes it is cleaned in this process, as fast as it goes and at the daemon's pace.
Then a daemon with a backlog of dirty segments is asked for commits, turn by turn with and without its cleaner:
one request in flight on each of a few connections, the latency of each measured. Prints Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

from bench.pairs.frames import COMMIT
from bench.pairs.lanes import run
from bench.pairs.singles import commit_of, lanes_of, make_topic
from coordinator.effects import CoordinatorRecord
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from coordinator.upkeep.cleaner_pace import Pace
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from protocol.records.records import Record as LogRecord
from protocol.records.records import encode_batch
from storage.cleaning.cleanable import cleanable
from storage.cleaning.compaction import Cleaned, Compaction, CompactionLimits
from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog

SEGMENT_BYTES = 4 << 20
KEYS = 20_000
RECORDS_PER_BATCH = 20
CONNECTIONS = 20
LOADING_S = 60
LIST_VERSION = 4
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES, is_compacted=True)


def offset_record(number: int) -> LogRecord:
    """One of the commits of `KEYS` partitions, which come in turn."""
    key = OffsetCommitKey(
        group=f"bench-group-{number % 1000:05d}", topic="bench-topic", partition=number % KEYS
    )
    value = OffsetCommitValue(
        offset=number, leader_epoch=-1, metadata="", commit_timestamp=NOW_MS, expire_timestamp=-1
    )
    return LogRecord(*encode_record(CoordinatorRecord(key, value)), timestamp_ms=NOW_MS)


def fill(log: PartitionLog, offsets: int, records_per_batch: int = RECORDS_PER_BATCH) -> None:
    """Write so many commits, in batches as they come of a loaded coordinator, in sealed segments."""
    for first in range(0, offsets, records_per_batch):
        batch = encode_batch([offset_record(first + number) for number in range(records_per_batch)])
        log.append(batch, wall_ms=NOW_MS)
        if first % 2000 == 0:
            log.flush()
    log.flush()
    log.roll(NOW_MS)


def clean(log: PartitionLog, pace: Callable[[int], None]) -> tuple[Cleaned, float, float]:
    """What was cleaned, the seconds it took, and those of CPU."""
    part = cleanable(log, 0, NOW_MS)
    compaction = Compaction(
        log,
        Files(),
        part,
        wall_ms=NOW_MS,
        limits=CompactionLimits(buffer_bytes=128 << 20, producer_expiration_ms=86_400_000),
        pace=pace,
    )
    began, cpu = time.perf_counter(), time.process_time()
    cleaned = compaction.run()
    return cleaned, time.perf_counter() - began, time.process_time() - cpu


def bench_speed(offsets: int) -> None:
    print("| log | MiB | MiB left | at full speed, MiB/s | of CPU, MiB/s | at the daemon's pace, MiB/s |")
    print("|---|---|---|---|---|---|")
    for records_per_batch in (1, RECORDS_PER_BATCH):
        speeds: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            paces: tuple[Callable[[int], None], ...] = (lambda _: None, Pace(Event(), lambda: float("inf")))
            for number, pace in enumerate(paces):
                log = PartitionLog.open(Path(folder) / f"c-{number}", CONFIG, Files())
                fill(log, offsets, records_per_batch)
                cleaned, seconds, cpu = clean(log, pace)
                mib = cleaned.bytes_before / 2**20
                speeds += [mib / seconds, mib / cpu]
                log.close()
            print(
                f"| {offsets:,} commits, {records_per_batch} in a batch | {mib:.0f} | "
                f"{cleaned.bytes_after / 2**20:.1f} | {speeds[0]:.1f} | {speeds[1]:.1f} | {speeds[2]:.1f} |"
            )


def dirty(log_dir: Path, partitions: int, offsets: int) -> None:
    """Make `partitions` of the daemon's offsets topic, which is stopped, dirty."""
    directory = LogDirectory.open(log_dir, Files(), node_id=1)
    for partition in range(partitions):
        fill(directory.open_log("__consumer_offsets", partition, CONFIG), offsets)
    for failure in directory.close():
        raise failure


def bench_latency(seconds: float, offsets: int, rounds: int = 3) -> None:
    print("\n| | commits/s | p50 ms | p99 ms | largest ms | cleaned meanwhile |")
    print("|---|---|---|---|---|---|")
    p99: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for cleaning in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                found, cleaned = one_round(Path(folder), cleaning, seconds, offsets)
            p99[cleaning].append(found[int(len(found) * 0.99)])
            print(
                f"| {'compacting' if cleaning else 'without'} | {len(found) / seconds:,.0f} "
                f"| {statistics.median(found):.2f} | {p99[cleaning][-1]:.2f} | {found[-1]:.1f} | {cleaned} logs |"
            )
    ratio = statistics.median(b / a for a, b in zip(p99[False], p99[True], strict=True))
    print(
        f"\np99 of a commit while compacting: **{ratio:.2f} times** that without (median of {rounds} pairs)."
    )


def one_round(folder: Path, cleaning: bool, seconds: float, offsets: int) -> tuple[list[float], int]:
    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.enable": str(cleaning).lower(),
    }
    daemon = MusterDaemon(folder, overrides)
    with daemon:
        make_topic(daemon, 1)
        daemon.terminate()
        dirty(daemon.log_dir, partitions=8, offsets=offsets)
        daemon.start()
        wait_until(partial(is_loaded, daemon), "shards are loaded", LOADING_S)
        lanes = lanes_of(daemon, "compaction", CONNECTIONS, commit_of(1), COMMIT)
        run(lanes, 0.5, daemon.pid)
        found = [each * 1000 for each in run(lanes, seconds, daemon.pid).latencies_s]
        for lane in lanes:
            lane.socket.close()
    return found, daemon.log_path.read_text().count("log cleaned")


def is_loaded(daemon: MusterDaemon) -> bool:
    """Whether every shard has loaded: all groups are listed only then."""
    with WireClient(daemon.bootstrap) as client:
        answer = client.ask(ListGroupsRequest(), LIST_VERSION)
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), answer
    return bool(answer.error_code == ErrorCode.NONE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--offsets", type=int, default=200_000)
    chosen = parser.parse_args()
    bench_speed(chosen.offsets)
    bench_latency(chosen.seconds, chosen.offsets)


if __name__ == "__main__":
    main()
