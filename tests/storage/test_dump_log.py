"""Apache Kafka's own tool reads our files: `kafka-dump-log` checks segments against both their indexes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness import java_tools
from protocol.records.records import Codec
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from tests.storage.cleaning import (
    ABORT,
    COMPACTED,
    NOW_MS,
    RETENTION_MS,
    batches,
    clean,
    data_records,
    end_transaction,
    open_compacted,
    put,
    roll,
)
from tests.storage.logs import fill, open_log

pytestmark = pytest.mark.usefixtures("java")
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=1000, flush_messages=1)


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


def test_kafka_dump_log_reads_what_a_cleaning_left(tmp_path: Path) -> None:
    """Thinned, emptied and moved batches of every codec, and a marker with a delete horizon."""
    log = open_compacted(tmp_path / "c-0", config=replace(COMPACTED, segment_bytes=20_000))
    txn = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    for number in range(100):
        pairs = [(f"k{(number * 7 + each) % 90}", None if each == 2 else "v" * number) for each in range(4)]
        put(log, *pairs, codec=Codec(number % 5))
        if number % 20 == 19:
            put(log, ("k1", "aborted"), base_sequence=number, **txn)
            end_transaction(log, 5, ABORT)
            roll(log)
    for wall_ms in (NOW_MS, NOW_MS + RETENTION_MS - 1):
        put(log, ("last", "1"))
        roll(log)
        clean(log, wall_ms=wall_ms)
    left = batches(log)
    assert any(batch.has_delete_horizon for batch in left)
    assert any(batch.has_delete_horizon and batch.is_control for batch in left)
    assert not all(batch.record_count for batch in left)
    expected = [each.offset for each in data_records(log)]
    times = [each.timestamp_ms for each in data_records(log)]
    log.close()
    output = dump(log)
    assert output.count("isvalid: true") == len(left)
    records = re.findall(
        r"^\| offset: (\d+) CreateTime: (\d+) .*? sequence: (?!.*endTxnMarker)", output, re.MULTILINE
    )
    assert [int(offset) for offset, _ in records] == expected
    assert [int(time) for _, time in records] == times
    assert f"deleteHorizonMs: OptionalLong[{NOW_MS + RETENTION_MS}]" in output
    assert not re.search(
        r"isvalid: false|mismatch|Found timestamp|should be|not found|invalid bytes", output
    ), output
