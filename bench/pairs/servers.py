"""The servers that are compared, each a process on loopback, and what the operating system says they cost."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from harness.daemon import ROOT, MusterDaemon
from harness.kafka_broker import SMALL, KafkaBroker, MeasuredKafka
from harness.processes import HOST, ServerProcess

KAFKA_HEAP: Final = "1g"
KAFKA_START_S: Final = 180.0
"""After kill -9 it opens all of a thousand partitions again, which has taken over a minute on a busy machine."""

KAFKA_THREADS: Final = {"num.network.threads": "3", "num.io.threads": "8"}
TICK_US: Final = 1_000_000 / os.sysconf("SC_CLK_TCK")
PROCESS_CLOCK: Final = 2
"""`clock_getcpuclockid` makes the clock of a process of its inverted id above three bits that say which one."""

LONGEST_TURN: Final = "the longest turn of the event loop"
"""What the daemon logs when it stops."""

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

KAFKA_PRODUCTION: Final = {
    **SMALL,
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "log.cleaner.dedupe.buffer.size": "134217728",
    **KAFKA_THREADS,
}
"""Kafka's own defaults where the broker for tests has smaller ones; but one node can have only one replica."""


class Floor(ServerProcess):
    """The bare protocol of `bench.floor`."""

    @property
    def log_dir(self) -> Path:
        return self.data_dir

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "bench.floor", str(self.port)]

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0


class LongestTurn(NamedTuple):
    """Of one life of a daemon, on each clock; the two need not be the same turn."""

    cpu_ms: float
    wall_ms: float


class WatchedDaemon(MusterDaemon):
    """A daemon that is stopped, not killed, when its work is done, and says how long its turns were."""

    longest_turns: Sequence[LongestTurn] = ()
    """Of each life that was stopped; known once the daemon is left as a context."""

    def __exit__(self, *error: object) -> None:
        try:
            if self._process is not None and error[0] is None:
                self.terminate()
        finally:
            super().__exit__(*error)
        reports = [
            json.loads(line) for line in self.log_path.read_text().splitlines() if LONGEST_TURN in line
        ]
        self.longest_turns = [LongestTurn(each["cpu_ms"], each["wall_ms"]) for each in reports]


def muster(
    directory: Path,
    overrides: Mapping[str, str] | None = None,
    tree: Path = ROOT,
    listeners: Mapping[str, str] | None = None,
) -> WatchedDaemon:
    """The daemon with the settings that users get, but for `overrides`; of this checkout, or of `tree`.

    `listeners` are the protocols of those beside PLAINTEXT, by their names.
    """
    return WatchedDaemon(directory, overrides, tree=tree, listeners=listeners)


def kafka(
    directory: Path,
    overrides: Mapping[str, str] | None = None,
    listeners: Mapping[str, str] | None = None,
) -> KafkaBroker:
    config = {**KAFKA_PRODUCTION, **(overrides or {})}
    broker = MeasuredKafka(directory, config, heap=KAFKA_HEAP, listeners=listeners)
    broker.start_timeout_s = KAFKA_START_S
    return broker


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU time in microseconds, of all threads of a process."""

    user_us: float
    system_us: float

    @property
    def total_us(self) -> float:
        return self.user_us + self.system_us

    def since(self, before: Cpu) -> Cpu:
        return Cpu(self.user_us - before.user_us, self.system_us - before.system_us)

    def each(self, count: int) -> Cpu:
        return Cpu(self.user_us / count, self.system_us / count)


def cpu_of(pid: int) -> Cpu:
    """What the process has used so far, by the operating system's accounting."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return Cpu(int(fields[11]) * TICK_US, int(fields[12]) * TICK_US)


def cpu_us(pid: int) -> float:
    """All CPU time of the process so far, to the microsecond: for what is short beside the ticks of `cpu_of`."""
    return time.clock_gettime_ns(~pid << 3 | PROCESS_CLOCK) / 1e3


def resident_mb(pid: int) -> float:
    """Resident memory now, in megabytes (10^6)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6
