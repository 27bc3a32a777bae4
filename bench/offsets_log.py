"""Test data for loading: an offsets log as the daemon writes it, of as many offsets as are asked for.

A group commits like a member does, for a share of one topic's partitions at a time, in no order; a turn of the
loop gathers some commits of the groups of one shard into one batch. `records_per_batch=1` is the bad case: an
idle daemon that cuts a batch for every commit of one partition.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.records import new_empty_group_metadata_record
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from coordinator.topics.catalogue import CatalogueEntry
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.registry import new_topic_id
from coordinator.topics.store import TopicStore
from protocol.records.records import Record as LogRecord
from protocol.records.records import encode_batch
from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog

SHARDS: Final = 50
GROUPS: Final = 1000
TOPICS_PER_GROUP: Final = 10
PARTITIONS_PER_COMMIT: Final = 25  # What one of four members of a topic with 100 partitions owns.
OFFSETS_OVERRIDES: Final = {"cleanup.policy": "compact", "compression.type": "producer"}
NODE_ID: Final = 1


def group_name(number: int) -> str:
    return f"payments-service-{number:05d}"


def topic_name(number: int) -> str:
    return f"orders-of-region-{number:02d}"


def committed_offset(number: int, partition: int) -> int:
    return 1_000_000 + 37 * partition + number


def write_offsets_log(
    directory: Path,
    offsets: int,
    records_per_batch: int,
    *,
    segment_bytes: int = 100 << 20,
    groups: int = GROUPS,
) -> None:
    """Write `offsets` commits of as many groups, each offset once, into the log directory `directory`.

    The daemon finds it as a clean shutdown leaves it.
    """
    files = Files()
    held = LogDirectory.open(directory, files, node_id=NODE_ID)
    entry = CatalogueEntry(
        GROUP_METADATA_TOPIC,
        new_topic_id(),
        SHARDS,
        {**OFFSETS_OVERRIDES, "segment.bytes": str(segment_bytes)},
    )
    logs = TopicStore(held, files).create(entry, LogConfig(segment_bytes=segment_bytes))
    randomness = random.Random(offsets)
    topic_ids = [randomness.randbytes(16) for _ in range(TOPICS_PER_GROUP)]
    for partition, log in enumerate(logs):
        owned = [number for number in range(groups) if partition_for(group_name(number), SHARDS) == partition]
        _write(log, _records(owned, offsets // groups, topic_ids, randomness), records_per_batch)
    failures = held.close()
    assert not failures, failures


def _records(
    groups: Sequence[int], offsets: int, topic_ids: Sequence[bytes], randomness: random.Random
) -> Iterator[LogRecord]:
    """Each group's metadata record, then its commits, mixed with those of the others."""
    wall_ms = int(time.time() * 1000)
    for number in groups:
        key, value = encode_record(new_empty_group_metadata_record(group_name(number), wall_ms))
        yield LogRecord(key, value, wall_ms)
    commits = []
    for number in groups:
        for topic in range(TOPICS_PER_GROUP):
            partitions = list(range(offsets // TOPICS_PER_GROUP))
            randomness.shuffle(partitions)
            commits += [
                (number, topic, partitions[first : first + PARTITIONS_PER_COMMIT])
                for first in range(0, len(partitions), PARTITIONS_PER_COMMIT)
            ]
    randomness.shuffle(commits)
    for count, (number, topic, partitions) in enumerate(commits):
        for partition in partitions:
            commit = _commit(number, topic, topic_ids[topic], partition, wall_ms + count // 8)
            yield LogRecord(*encode_record(commit), wall_ms + count // 8)


def _commit(number: int, topic: int, topic_id: bytes, partition: int, wall_ms: int) -> CoordinatorRecord:
    value = OffsetCommitValue(
        offset=committed_offset(number, partition), leader_epoch=0, metadata="", commit_timestamp=wall_ms,
        topic_id=topic_id,
    )  # fmt: skip
    return CoordinatorRecord(
        OffsetCommitKey(group=group_name(number), topic=topic_name(topic), partition=partition), value
    )


def _write(log: PartitionLog, records: Iterator[LogRecord], records_per_batch: int) -> None:
    gathered: list[LogRecord] = []
    for record in records:
        gathered.append(record)
        if len(gathered) == records_per_batch:
            _append(log, gathered)
    if gathered:
        _append(log, gathered)
    log.flush()


def _append(log: PartitionLog, gathered: list[LogRecord]) -> None:
    log.append(encode_batch(gathered), wall_ms=gathered[-1].timestamp_ms)
    gathered.clear()
