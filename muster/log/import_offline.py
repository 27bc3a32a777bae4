"""Imports into a log directory that no server uses: appends offsets to the partitions of their groups.

Everything is checked before the first record is written: the file, the number of partitions, and that no
group has members. A crash in between leaves some groups imported and others not; importing again is harmless.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coordinator.effects import CoordinatorRecord
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from coordinator.offsets.committed import NO_EXPIRY
from coordinator.runtime.loading import replay_batches
from coordinator.topics.names import GROUP_METADATA_TOPIC
from muster.log.offsets import groups_with_members, new_shard
from muster.log.places import LogSource, LogToolError, open_source
from muster.log.progress import Advance
from muster.log.rows import OffsetRow
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import DecodeError, EncodeError
from protocol.records.records import CorruptBatch, encode_batch, size_upper_bound
from protocol.records.records import Record as LogRecord
from storage.directory.log_directory import LogDirectory, LogDirectoryError
from storage.files import CorruptSegment, StorageError
from storage.log.checkpoints import META_PROPERTIES, Garbled, read_meta_properties
from storage.log.config import LogConfig
from storage.log.partition_files import read_partition_metadata
from storage.log.partition_log import PartitionLog

SEGMENT_BYTES: Final = 104_857_600  # The default of offsets.topic.segment.bytes.
BATCH_BYTES: Final = 512 << 10


@dataclass(slots=True)
class Imported:
    """The number of rows and the groups that were written, and the rows that were refused."""

    rows: int = 0
    groups: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)  # By `group topic-partition`: the reason.


def import_offline(
    directory: Path,
    groups: frozenset[str],
    rows: Iterable[OffsetRow],
    keep_commit_times: bool,
    advance: Advance,
) -> Imported:
    """Append `rows`, all of `groups`. Raises LogToolError, before anything is written where that can be known."""
    source = open_source(directory)
    if source.root != source.path:
        raise LogToolError(f"{directory} is one partition; import into the log directory around it")
    count = source.offsets_partition_count()
    if count is None:
        raise LogToolError(f"there is no offsets topic in {directory}: start the server on it once")
    by_partition: dict[int, set[str]] = defaultdict(set)
    for group in groups:
        by_partition[partition_for(group, count)].add(group)
    with _open_directory(source) as held:
        logs = {
            number: _open_log(source, held, number, names) for number, names in sorted(by_partition.items())
        }
        _open_others_in_journal(source, held)
        return _append_all(source, logs, count, rows, keep_commit_times, advance)


@contextmanager
def _open_directory(source: LogSource) -> Iterator[LogDirectory]:
    """Yield the directory, locked and opened as by a daemon, and shut it down cleanly. Raises LogToolError."""
    try:
        properties = read_meta_properties(source.files, source.path / META_PROPERTIES)
        if properties is None:
            raise LogToolError(f"there is no {META_PROPERTIES} in {source.path}: no server has used it yet")
        held = LogDirectory.open(source.path, source.files, node_id=properties.node_id)
    except (LogDirectoryError, Garbled, StorageError) as error:
        raise LogToolError(str(error)) from error
    failures: list[StorageError] = []
    try:
        yield held
    except CorruptSegment as error:
        raise LogToolError(f"{error}; see `muster log verify` and `repair`") from error
    except StorageError as error:
        raise LogToolError(f"cannot {error}") from error
    finally:
        failures = held.close()
    if failures:
        raise LogToolError(f"cannot {failures[0]}")


def _open_log(source: LogSource, held: LogDirectory, number: int, groups: set[str]) -> PartitionLog:
    """Open the log of an offsets partition. Raises LogToolError if one of `groups` has members in it."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES)
    topic_id = _offsets_topic_id(source)
    log = held.open_log(GROUP_METADATA_TOPIC, number, config, topic_id=topic_id, is_replayed=True)
    shard = new_shard(number)
    try:
        replay_batches(log.batches(log.log_start_offset), shard)
        live = groups_with_members(shard, log.batches(log.log_start_offset))
    except (CorruptBatch, DecodeError) as error:
        raise LogToolError(f"{GROUP_METADATA_TOPIC}-{number} holds what cannot be read: {error}") from error
    for group in sorted(groups & live.keys()):
        raise LogToolError(
            f"group {group} has {live[group]} members: their next commit would undo the import; "
            "stop them, let the server see it, and try again (nothing was written)"
        )
    return log


def _open_others_in_journal(source: LogSource, held: LogDirectory) -> None:
    """Open every other log that the journal has something of, which is written to it: no journal stays behind."""
    entries = {entry.name: entry for entry in source.topics}
    for name in held.journal.unclaimed:
        topic, _, number = name.rpartition("-")
        entry = entries.get(topic)
        if entry is None or not int(number) < entry.partitions:
            raise LogToolError(f"the journal has records of {name}, which no topic has (nothing was written)")
        config = LogConfig(segment_bytes=SEGMENT_BYTES)
        held.open_log(topic, int(number), config, topic_id=entry.topic_id, is_replayed=True)


def _offsets_topic_id(source: LogSource) -> bytes | None:
    """The offsets topic's id, from the catalogue or else a partition's metadata; None if neither has it."""
    for entry in source.topics:
        if entry.name == GROUP_METADATA_TOPIC:
            return entry.topic_id
    found = (read_partition_metadata(source.files, place.directory) for place in source.offsets_places())
    return next((topic_id for topic_id in found if topic_id), None)


def _append_all(
    source: LogSource,
    logs: dict[int, PartitionLog],
    count: int,
    rows: Iterable[OffsetRow],
    keep_commit_times: bool,
    advance: Advance,
) -> Imported:
    now_ms = int(time.time() * 1000)
    topic_ids = {entry.name: entry.topic_id for entry in source.topics}
    done = Imported()
    gathered: dict[int, list[LogRecord]] = defaultdict(list)
    sizes: dict[int, int] = defaultdict(int)
    for row in rows:
        try:
            record = _record(row, topic_ids.get(row.topic, ZERO_UUID), now_ms, keep_commit_times)
        except EncodeError as error:
            done.refused[f"{row.group} {row.topic}-{row.partition}"] = str(error)
            continue
        number = partition_for(row.group, count)
        size_bytes = size_upper_bound([record])
        if sizes[number] + size_bytes > BATCH_BYTES:
            _append(logs[number], gathered.pop(number), now_ms)
            sizes[number] = 0
        gathered[number].append(record)
        sizes[number] += size_bytes
        done.rows += 1
        done.groups.add(row.group)
        advance(1)
    for number, left in gathered.items():
        _append(logs[number], left, now_ms)
    return done


def _append(log: PartitionLog, records: list[LogRecord], now_ms: int) -> None:
    log.append(encode_batch(records), wall_ms=now_ms)
    log.flush()


def _record(row: OffsetRow, topic_id: bytes, now_ms: int, keep_commit_times: bool) -> LogRecord:
    """The record that commits `row`; with its own times if they are kept, so that retention counts from them."""
    then_ms, expires_ms = row.commit_timestamp_ms, row.expire_timestamp_ms
    kept = keep_commit_times and then_ms is not None
    value = OffsetCommitValue(
        offset=row.offset,
        leader_epoch=-1 if row.leader_epoch is None else row.leader_epoch,
        metadata=row.metadata,
        commit_timestamp=then_ms if kept and then_ms is not None else now_ms,
        expire_timestamp=expires_ms if kept and expires_ms is not None else NO_EXPIRY,
        topic_id=topic_id,
    )
    key = OffsetCommitKey(group=row.group, topic=row.topic, partition=row.partition)
    return LogRecord(*encode_record(CoordinatorRecord(key, value)), timestamp_ms=now_ms)
