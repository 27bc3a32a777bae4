"""What the storage tests share: batches to append, logs to append them to, and what comes out as offsets."""

from __future__ import annotations

from pathlib import Path

from protocol.records.batch import walk
from protocol.records.records import Record, encode_batch
from storage.files import Buffer, Files
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200, flush_messages=1)
OS_SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def batch(count: int = 1, *, timestamp_ms: int = NOW_MS, size_bytes: int = 20) -> bytearray:
    """A batch of `count` records, their timestamps one millisecond apart."""
    value = b"v" * size_bytes
    return encode_batch([Record(b"k", value, timestamp_ms + number) for number in range(count)])


def open_log(directory: Path, config: LogConfig = SMALL, files: Files | None = None) -> PartitionLog:
    return PartitionLog.open(directory, config, files or Files())


def reopen(log: PartitionLog, files: Files | None = None) -> PartitionLog:
    """Close a log and open it again, as a daemon does after a clean shutdown."""
    log.close()
    return PartitionLog.open(
        log.directory,
        log.config,
        files or Files(),
        recovery_point=log.recovery_point,
        shut_down_cleanly=True,
        log_start_offset=log.log_start_offset,
    )


def fill(log: PartitionLog, batches: int, *, records: int = 1, per_flush: int = 1) -> None:
    """Append so many batches, their timestamps ten milliseconds apart."""
    for number in range(batches):
        log.append(batch(records, timestamp_ms=NOW_MS + 10 * number), wall_ms=NOW_MS)
        if (number + 1) % per_flush == 0:
            log.flush()
    log.flush()


def spans(data: Buffer) -> list[tuple[int, int]]:
    """First and last offset of each batch; all bytes must be whole batches."""
    batches = list(walk(data))
    assert sum(found.size_bytes for found in batches) == len(data)
    return [(found.base_offset, found.last_offset) for found in batches]


def all_spans(log: PartitionLog) -> list[tuple[int, int]]:
    """Every batch that replay sees, first and last offset."""
    return [(found.base_offset, found.last_offset) for found, _ in log.batches(log.log_start_offset)]
