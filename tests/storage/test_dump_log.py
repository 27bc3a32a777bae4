"""Apache Kafka's own tool reads our files: `kafka-dump-log` checks segments against both their indexes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from storage.log_config import LogConfig
from storage.partition_log import PartitionLog
from tests import java_tools
from tests.storage.logs import fill, open_log

pytestmark = pytest.mark.usefixtures("java")
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=1000)


def dump(log: PartitionLog) -> str:
    """What the tool says about every file of the log."""
    files = [
        path for path in sorted(log.directory.iterdir()) if path.suffix in (".log", ".index", ".timeindex")
    ]
    command = [java_tools.java(), "-cp", java_tools.classpath(), "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--deep-iteration", "--files", ",".join(map(str, files))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return result.stdout + result.stderr


def test_kafka_dump_log_reads_segments_and_indexes_and_finds_nothing_wrong(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", CONFIG)
    fill(log, 600, records=2, per_flush=7)
    live = dump(log)
    log.close()
    closed = dump(log)
    for output in (live, closed):
        offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
        assert offsets == list(range(1200))
        assert output.count("isvalid: true") == 600
        assert "isvalid: false" not in output
        assert not re.search(r"mismatch|Found timestamp|should be|not found|invalid bytes|rror", output), (
            output
        )
        assert len(re.findall(r"^offset: \d+ position: \d+", output, re.MULTILINE)) > 30
        assert len(re.findall(r"^timestamp: \d+ offset: \d+", output, re.MULTILINE)) > 30
