"""What a gateway costs: data through it beside data sent to its Kafka directly, in turns, in one run.

    python -m bench.gateway [--megabytes 200] [--rounds 5]

Records of 1 KB are written and read by librdkafka with the settings that users get, but for a larger queue. CPU is
that of the node's process, without the JVM's and the client's. Targets: at most 0.8 ms of CPU a megabyte either
way, and 0.9 of the direct throughput. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.machine import machine
from bench.pairs.servers import cpu_of
from harness.gateway import Gateway
from harness.observer import Observer, unique

MB: Final = 1_000_000
RECORD_BYTES: Final = 1_000
CPU_MS_PER_MB_MAX: Final = 0.8
THROUGHPUT_MIN: Final = 0.9
TIMEOUT_S: Final = 120.0


def produce(bootstrap: str, topic: str, megabytes: int) -> None:
    """Write so much to one partition, and wait until all of it is acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.kbytes": 1 << 18})
    value = os.urandom(RECORD_BYTES)
    for _ in range(megabytes * MB // RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    if left := producer.flush(TIMEOUT_S):
        raise TimeoutError(f"{left} records were not acknowledged")


def consume(bootstrap: str, topic: str, megabytes: int) -> None:
    """Read so much of that partition, from its beginning."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    left, end_s = megabytes * MB // RECORD_BYTES, time.monotonic() + TIMEOUT_S
    while left > 0:
        if time.monotonic() > end_s:
            raise TimeoutError(f"{left} records were not read")
        left -= len(consumer.consume(min(left, 10_000), 1.0))
    consumer.close()


@dataclass(slots=True)
class Way:
    """What was measured of one way to the data, in each round."""

    mb_per_s: list[float] = field(default_factory=list)
    cpu_ms_per_mb: list[float] = field(default_factory=list)


def measure(gateway: Gateway, work: Callable[[str, str, int], None], megabytes: int, topic: str) -> list[Way]:
    """Do the work directly and through the gateway, once each; return both."""
    direct, through = Way(), Way()
    for way, bootstrap in ((direct, gateway.kafka.bootstrap), (through, gateway.bootstrap)):
        cpu, start_s = cpu_of(gateway.pid), time.perf_counter()
        work(bootstrap, topic, megabytes)
        way.mb_per_s.append(megabytes / (time.perf_counter() - start_s))
        way.cpu_ms_per_mb.append(cpu_of(gateway.pid).since(cpu).total_us / 1_000 / megabytes)
    return [direct, through]


def main() -> int:
    """Print the table; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    found = {name: (Way(), Way()) for name in ("produced", "consumed")}
    with (
        tempfile.TemporaryDirectory(prefix="bench-gateway-") as folder,
        Gateway(Path(folder)) as gateway,
    ):
        observer = Observer(gateway.bootstrap)
        for _ in range(asked.rounds + 1):
            topic = unique("data")
            observer.create_named_topic(topic, 1)
            for name, work in (("produced", produce), ("consumed", consume)):
                for kept, measured in zip(
                    found[name], measure(gateway, work, asked.megabytes, topic), strict=True
                ):
                    kept.mb_per_s += measured.mb_per_s
                    kept.cpu_ms_per_mb += measured.cpu_ms_per_mb
    print(f"{machine()}\n")
    print("| data | direct, MB/s | through, MB/s | through to direct | the node's CPU, ms/MB | verdict |")
    print("|---|---|---|---|---|---|")
    is_missed = False
    for name, (direct, through) in found.items():
        # The first round warms both sides up.
        ratios = [through.mb_per_s[each] / direct.mb_per_s[each] for each in range(1, asked.rounds + 1)]
        cpu = median(through.cpu_ms_per_mb[1:])
        is_met = median(ratios) >= THROUGHPUT_MIN and cpu <= CPU_MS_PER_MB_MAX
        is_missed |= not is_met
        print(
            f"| {name} | {median(direct.mb_per_s[1:]):.0f} | {median(through.mb_per_s[1:]):.0f} "
            f"| {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | {cpu:.2f} "
            f"| {'met' if is_met else '**missed**'} |"
        )
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
