"""Kafka's own tool reads a simulated history: every record of it, by its offsets decoder."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import java_tools
from tools.simulate.history import Options, Simulation, choose

OPTIONS = Options(
    groups=200, days=0.05, end_ms=1_767_225_600_000, seed=2, partitions=3, commits_max=30_000,
    log_ends_every_ms=900_000,
)  # fmt: skip

pytestmark = pytest.mark.timeout(300)


def dump(*arguments: str) -> str:
    command = [java_tools.java(), "-Xmx512m", "-cp", java_tools.classpath()]
    command += ["org.apache.kafka.tools.DumpLogSegments", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert "Found timestamp mismatch" not in done.stdout
    assert "isvalid: false" not in done.stdout
    return done.stdout


def logs(path: Path, topic: str) -> str:
    return ",".join(map(str, sorted(path.glob(f"{topic}-*/*.log"))))


def test_kafkas_dump_log_reads_every_record(java: None, tmp_path: Path) -> None:
    simulation = Simulation(OPTIONS, choose(OPTIONS), tmp_path / "logs")
    done = simulation.run(lambda _: None)
    dumped = dump("--offsets-decoder", "--files", logs(tmp_path / "logs", "__consumer_offsets"))
    kinds = re.findall(r'"?type"?:"?(\w+)', dumped)
    assert kinds, dumped[:2_000]
    assert len(re.findall(r"key: \{", dumped)) == done.commits + done.group_records
    plan, topic = int(simulation.lanes.plan[0]), int(simulation.lanes.topic[0])
    assert f'"group":"{simulation.lanes.plans[plan].group_id}"' in dumped
    assert f'"topic":"{simulation.choice.topics.names[topic]}"' in dumped
    assert f'"offset":{simulation.lanes.committed.max()}' in dumped
    events = dump("--print-data-log", "--files", logs(tmp_path / "logs", "__group_events"))
    assert events.count("payload: {") == done.events > 0


def test_kafkas_dump_log_finds_the_indexes_sound(java: None, tmp_path: Path) -> None:
    Simulation(OPTIONS, choose(OPTIONS), tmp_path / "logs").run(lambda _: None)
    indexes = [*tmp_path.glob("logs/__*/*.index"), *tmp_path.glob("logs/__*/*.timeindex")]
    printed = dump("--index-sanity-check", "--files", ",".join(map(str, sorted(indexes))))
    assert printed.count("passed sanity check") == len(indexes)
    ends = sorted(tmp_path.glob("logs/*.events-*/*.log"))[:20]
    assert dump("--deep-iteration", "--files", ",".join(map(str, ends))).count("| offset: ") > 20
