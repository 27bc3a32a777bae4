"""What the tests of compaction share: logs of keyed batches, a cleaning on demand, and what a log says then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from protocol.records.batch import Batch
from protocol.records.records import Codec, Record, read_records
from storage.cleaning.cleanable import cleanable
from storage.cleaning.compaction import Cleaned, Compaction, CompactionLimits
from storage.files import Files
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from tests.batches import encode_batch

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
RETENTION_MS = 1000
COMPACTED = LogConfig(
    flush_messages=1,
    segment_bytes=1000,
    index_interval_bytes=200,
    is_compacted=True,
    delete_retention_ms=RETENTION_MS,
)
MARKER_KEY = Struct(">hh")
ABORT, COMMIT = 0, 1


def record(key: str | None, value: str | None, timestamp_ms: int = NOW_MS) -> Record:
    return Record(
        None if key is None else key.encode(), None if value is None else value.encode(), timestamp_ms
    )


def put(
    log: PartitionLog, *pairs: tuple[str, str | None], timestamp_ms: int = NOW_MS, **options: object
) -> None:
    """One batch of these keys and values, flushed. `options` are `encode_batch`'s."""
    records = [record(key, value, timestamp_ms) for key, value in pairs]
    log.append(encode_batch(records, **options), wall_ms=timestamp_ms)  # type: ignore[arg-type]
    log.flush()


def end_transaction(log: PartitionLog, producer_id: int, kind: int, timestamp_ms: int = NOW_MS) -> None:
    """A marker, as a transaction coordinator writes it."""
    marker = Record(MARKER_KEY.pack(0, kind), b"\0" * 6, timestamp_ms)
    batch = encode_batch(
        [marker], producer_id=producer_id, producer_epoch=0, transactional=True, control=True
    )
    log.append(batch, wall_ms=timestamp_ms)
    log.flush()


def roll(log: PartitionLog) -> None:
    """Make all there is cleanable: what comes next goes into a new segment."""
    log.roll(NOW_MS)


def clean(
    log: PartitionLog,
    files: Files | None = None,
    *,
    checkpoint: int = 0,
    wall_ms: int = NOW_MS,
    buffer_bytes: int = 1 << 20,
    producer_expiration_ms: int = DAY_MS,
) -> Cleaned:
    """One cleaning, here and now."""
    part = cleanable(log, checkpoint, wall_ms)
    return Compaction(
        log,
        files or Files(),
        part,
        wall_ms=wall_ms,
        limits=CompactionLimits(buffer_bytes, producer_expiration_ms),
        pace=lambda _: None,
    ).run()


def batches(log: PartitionLog) -> list[Batch]:
    return [batch for batch, _ in log.batches(log.log_start_offset)]


def data_records(log: PartitionLog) -> Iterator[Record]:
    """Every record but the markers."""
    for batch, data in log.batches(log.log_start_offset):
        if not batch.is_control:
            yield from read_records(data, batch)


def table(log: PartitionLog) -> dict[str, str]:
    """What the log says, read from its start: the value of each key."""
    found: dict[str, str] = {}
    for each in data_records(log):
        key = (each.key or b"").decode()
        found.pop(key, None)
        if each.value is not None:
            found[key] = each.value.decode()
    return found


def texts(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of every record."""
    return [
        (each.offset, (each.key or b"").decode(), None if each.value is None else each.value.decode())
        for each in data_records(log)
    ]


def open_compacted(
    directory: Path, files: Files | None = None, config: LogConfig = COMPACTED
) -> PartitionLog:
    return PartitionLog.open(directory, config, files or Files())


CODECS = tuple(Codec)
