"""How long a start with many committed offsets takes and what it costs in memory; how fast they are appended.

    python -m bench.loading [--offsets 1000000 5000000] [--records-per-batch 200]

For each number of offsets the log is written once (`bench.offsets_log`) and the daemon is started on it three
times: on the log alone, after its own clean stop, which leaves snapshots of its shards, and after a kill -9.
Ready is when the daemon answers, served when the last of its shards has answered an OffsetFetch; then a group of
each is compared with what was written. Heartbeats are sent and timed while shards load. Where there is Java,
Apache Kafka is started on the same segments and asked the same, up to as many offsets as its heap (1 GiB, as its
start script has it) holds. Last, one log takes batches under each flush policy.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final

from bench.machine import machine
from bench.offsets_log import (
    GROUPS,
    SHARDS,
    TOPICS_PER_GROUP,
    committed_offset,
    group_name,
    topic_name,
    write_offsets_log,
)
from coordinator.groups.partitioning import partition_for
from harness import java_tools
from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker, MeasuredKafka
from harness.kafka_groups import NOT_YET, await_coordinator
from harness.processes import ServerProcess
from harness.swap import swap_in
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from protocol.records.records import Record, encode_batch
from storage.files import Files
from storage.log.config import INT64_MAX, LogConfig
from storage.log.partition_log import PartitionLog

FETCH_VERSION = 9
HEARTBEAT_VERSION = 4
HEARTBEAT_EVERY_S = 0.002
ASK_AGAIN_S = 0.01
IDLE_SECONDS = 2.0
APPEND_SECONDS = 3.0
SERVED_DEADLINE_S = 300.0
RECORDS_PER_APPEND = (1, 25, 1000)
SETTINGS: Final = {"offsets.topic.num.partitions": str(SHARDS)}
KAFKA_HEAP = "1g"
FIRST, CLEAN, KILLED = "first", "clean", "after kill -9"


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a server."""

    server: str
    how: str
    ready_s: float
    served_s: float
    cpu_s: float
    resident_mb: float
    peak_mb: float
    loading_ms: tuple[float, float, float]  # How long heartbeats took: p50, p99, largest.
    idle_ms: tuple[float, float, float]  # The same afterwards: what the machine and its others add.


def resident_mb(pid: int) -> tuple[float, float]:
    """Resident memory now, and the most it ever was."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return kib["VmRSS"] / 1024, kib["VmHWM"] / 1024


def cpu_s(pid: int) -> float:
    """User and system time of all threads so far, in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Heartbeats:
    """Sends a heartbeat every so often on a thread and keeps how long each answer took."""

    def __init__(self, bootstrap: str) -> None:
        self._client = WireClient(bootstrap)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.took_ms: list[float] = []
        self._thread.start()

    def _run(self) -> None:
        beat = HeartbeatRequest(group_id=group_name(0), generation_id=1, member_id="unknown")
        with self._client as client:
            while not self._ended.wait(HEARTBEAT_EVERY_S):
                began = time.perf_counter()
                client.ask(beat, HEARTBEAT_VERSION)
                self.took_ms.append((time.perf_counter() - began) * 1000)

    def end(self) -> tuple[float, float, float]:
        """p50, p99 and the largest, in milliseconds."""
        self._ended.set()
        self._thread.join()
        if len(self.took_ms) < 2:
            return (0.0, 0.0, 0.0)
        cuts = quantiles(self.took_ms, n=100)
        return cuts[49], cuts[98], max(self.took_ms)


def one_of_each_shard() -> Collection[int]:
    """The number of a group in each shard."""
    return {partition_for(group_name(number), SHARDS): number for number in range(GROUPS)}.values()


def wait_until_served(client: WireClient) -> None:
    """Return when every shard has answered an OffsetFetch. Raises TimeoutError."""
    one = OffsetFetchRequestTopics(name=topic_name(0), partition_indexes=[0])
    deadline = time.monotonic() + SERVED_DEADLINE_S
    for number in one_of_each_shard():
        wanted = OffsetFetchRequestGroup(group_id=group_name(number), topics=[one])
        while (error := fetch(client, wanted).error_code) != ErrorCode.NONE:
            assert error in NOT_YET, error
            if time.monotonic() > deadline:
                raise TimeoutError(f"{group_name(number)} is not served: {ErrorCode(error).name}")
            time.sleep(ASK_AGAIN_S)


def check_offsets(client: WireClient, offsets: int) -> None:
    """Raises AssertionError unless every offset of one group in each shard is as it was written."""
    for number in one_of_each_shard():
        group = fetch(client, OffsetFetchRequestGroup(group_id=group_name(number), topics=None))
        found = {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }
        expected = {
            (topic_name(topic), partition): committed_offset(number, partition)
            for topic in range(TOPICS_PER_GROUP)
            for partition in range(offsets // GROUPS // TOPICS_PER_GROUP)
        }
        assert found == expected, f"{group_name(number)}: {len(found)} offsets are not as they were written"


def fetch(client: WireClient, wanted: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    group: OffsetFetchResponseGroup = client.ask(OffsetFetchRequest(groups=[wanted]), FETCH_VERSION).groups[0]
    return group


def measure_start(server: ServerProcess, how: str, offsets: int) -> Start:
    began = time.monotonic()
    server.start()
    ready_s = time.monotonic() - began
    heartbeats = Heartbeats(server.bootstrap)
    with WireClient(server.bootstrap) as client:
        wait_until_served(client)
        served_s = time.monotonic() - began
        loading_ms, took_cpu_s = heartbeats.end(), cpu_s(server.pid)
        heartbeats = Heartbeats(server.bootstrap)
        time.sleep(IDLE_SECONDS)
        idle_ms, memory_mb = heartbeats.end(), resident_mb(server.pid)
        check_offsets(client, offsets)
    name = "Muster" if isinstance(server, MusterDaemon) else f"Kafka {java_tools.KAFKA_VERSION}"
    return Start(name, how, ready_s, served_s, took_cpu_s, *memory_mb, loading_ms, idle_ms)


def measure_starts(server: ServerProcess, offsets: int) -> list[Start]:
    """The first start on the log, one after the server's own clean stop, and one after a kill."""
    try:
        starts = [measure_start(server, FIRST, offsets)]
        server.terminate()
        starts.append(measure_start(server, CLEAN, offsets))
        server.kill()
        starts.append(measure_start(server, KILLED, offsets))
    finally:
        server.kill()
    return starts


def kafka_on(log_dir: Path, directory: Path) -> KafkaBroker:
    """A Kafka, cleanly stopped, that has the offsets topic of `log_dir`. Raises JavaUnavailable."""
    broker = MeasuredKafka(directory, SETTINGS, heap=KAFKA_HEAP)
    with broker:
        with WireClient(broker.bootstrap) as client:  # Has it make the topic.
            await_coordinator(client, [group_name(number) for number in one_of_each_shard()])
        broker.terminate()
    swap_in(log_dir, broker.log_dir, SHARDS)
    return broker


def append_rate(directory: Path, flush_messages: int, records_per_append: int) -> tuple[float, float]:
    """Records a second that one log takes, a flush for each batch, and MB a second."""
    log = PartitionLog.open(
        directory, LogConfig(segment_bytes=100 << 20, flush_messages=flush_messages), Files()
    )
    records = [Record(bytes(60), bytes(42), 1_700_000_000_000) for _ in range(records_per_append)]
    batch = encode_batch(records)
    count, began = 0, time.monotonic()
    while time.monotonic() < began + APPEND_SECONDS:
        log.append(bytearray(batch), wall_ms=1_700_000_000_000)
        log.flush()
        count += 1
    took_s = time.monotonic() - began
    log.close()
    return count * records_per_append / took_s, count * len(batch) / took_s / 1e6


def start_row(offsets: int, records_per_batch: int, start: Start) -> str:
    beats = (" / ".join(f"{took:.1f}" for took in each) for each in (start.loading_ms, start.idle_ms))
    figures = (
        start.server, f"{offsets:,}", str(records_per_batch), start.how, f"{start.ready_s:.2f}",
        f"{start.served_s:.2f}", f"{start.cpu_s:.2f}", f"{start.resident_mb:.0f}", f"{start.peak_mb:.0f}", *beats,
    )  # fmt: skip
    return f"| {' | '.join(figures)} |"


HEADINGS = (
    "server", "offsets", "records in a batch", "start", "ready, s", "last shard served, s", "CPU, s",
    "resident, MB", "at most, MB", "heartbeats while loading, ms: p50 / p99 / most", "the same when idle",
)  # fmt: skip


def report_starts(offsets: Sequence[int], records_per_batch: Sequence[int], kafka_offsets: int) -> None:
    print(f"| {' | '.join(HEADINGS)} |\n{'|---' * len(HEADINGS)}|")
    pairs: list[tuple[Start, Start]] = []
    for count in offsets:
        for records in records_per_batch:
            with tempfile.TemporaryDirectory() as directory:
                beside_kafka = count <= kafka_offsets
                starts = starts_on_one_log(Path(directory), count, records, beside_kafka)
            print("\n".join(start_row(count, records, start) for start in starts), flush=True)
            if beside_kafka:
                pairs += zip(starts[:3], starts[3:], strict=True)
    for ours, theirs in pairs:
        print(ratio_line(ours, theirs))


def starts_on_one_log(
    directory: Path, offsets: int, records_per_batch: int, beside_kafka: bool
) -> list[Start]:
    """The starts of Muster, then those of Kafka, if wanted, on a log that is written once."""
    daemon = MusterDaemon(directory / "muster", SETTINGS)
    write_offsets_log(daemon.log_dir, offsets, records_per_batch)
    broker = kafka_on(daemon.log_dir, directory / "kafka") if beside_kafka else None
    starts = measure_starts(daemon, offsets)
    return starts + (measure_starts(broker, offsets) if broker is not None else [])


def ratio_line(ours: Start, theirs: Start) -> str:
    return (
        f"\n{ours.how}: the last shard is served in {ours.served_s / theirs.served_s:.2f} of Kafka's time, "
        f"with {ours.resident_mb / theirs.resident_mb:.2f} of its memory."
    )


def has_java() -> bool:
    try:
        java_tools.kafka_jars()
    except java_tools.JavaUnavailable as error:
        print(f"Without Kafka: {error}\n")
        return False
    return bool(java_tools.java())


def report_appends() -> None:
    print("\n| `flush.messages` | records in a batch | records a second | MB a second |\n|---|---|---|---|")
    for flush_messages in (1, INT64_MAX):
        for records in RECORDS_PER_APPEND:
            with tempfile.TemporaryDirectory() as directory:
                rate, megabytes = append_rate(Path(directory) / "appended-0", flush_messages, records)
            print(f"| {flush_messages} | {records} | {rate:,.0f} | {megabytes:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--offsets", type=int, nargs="*", default=[1_000_000, 5_000_000])
    parser.add_argument("--records-per-batch", type=int, nargs="*", default=[200])
    parser.add_argument("--no-appends", action="store_true", help="starts only")
    parser.add_argument(
        "--kafka-offsets", type=int, default=1_000_000, help="at most so many on Kafka; 0: none"
    )
    options = parser.parse_args()
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"Machine: {machine()}. Load average at the start: {load}.\n")
    kafka_offsets = options.kafka_offsets if options.kafka_offsets and has_java() else 0
    report_starts(options.offsets, options.records_per_batch, kafka_offsets)
    if not options.no_appends:
        report_appends()


if __name__ == "__main__":
    main()
