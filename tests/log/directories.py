"""Log directories for the tests of `muster log`: an offsets topic with groups, and a topic of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.records import new_group_tombstone, new_offset_commit_tombstone
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.topics.catalogue import CatalogueEntry, write_catalogue
from muster.log.entries import group_of
from protocol.records.records import Record as LogRecord
from protocol.records.records import encode_batch
from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.config import LogConfig
from tests.storage.logs import fill

TIME_MS = 1_700_000_000_000
PARTITIONS = 4
OFFSETS, TOPIC = "__consumer_offsets", "orders"
OFFSETS_ID, TOPIC_ID = bytes(range(16)), bytes(range(16, 32))
ALIVE = "alive"
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=300, flush_messages=1)


def commit(group: str, partition: int, offset: int, metadata: str = "") -> CoordinatorRecord:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=3, metadata=metadata, commit_timestamp=TIME_MS + offset, topic_id=TOPIC_ID
    )
    return CoordinatorRecord(OffsetCommitKey(group=group, topic=TOPIC, partition=partition), value)


def group_record(group: str, members: Iterable[str] = ()) -> CoordinatorRecord:
    named = [
        MemberMetadata(
            member_id=name,
            client_id="c",
            client_host="/h",
            session_timeout=10_000,
            subscription=b"",
            assignment=b"",
        )
        for name in members
    ]
    value = GroupMetadataValue(
        protocol_type="consumer", generation=5, protocol="range", leader=None, members=named
    )
    return CoordinatorRecord(GroupMetadataKey(group=group), value)


def history() -> list[CoordinatorRecord]:
    """Groups that were, groups that are, and one with members."""
    records = [
        commit(f"group-{number}", part, 10 * number + part) for number in range(20) for part in range(3)
    ]
    records += [commit("группа", 0, 77, "note 😀"), group_record("group-3")]
    records += [
        commit("gone", 0, 5),
        new_offset_commit_tombstone("gone", TOPIC, 0),
        new_group_tombstone("gone"),
    ]
    records += [group_record(ALIVE, ["m-1", "m-2"]), commit(ALIVE, 0, 9)]
    return records


def make_directory(
    path: Path, records: Iterable[CoordinatorRecord] = (), partitions: int = PARTITIONS
) -> Path:
    """A directory that a daemon has closed in good order, its offsets topic holding `records`."""
    files = Files()
    directory = LogDirectory.open(path, files, node_id=0)
    topics = [
        CatalogueEntry(OFFSETS, OFFSETS_ID, partitions, {"cleanup.policy": "compact"}),
        CatalogueEntry(TOPIC, TOPIC_ID, 1, {}),
    ]
    write_catalogue(files, path, topics)
    orders = directory.open_log(TOPIC, 0, CONFIG, topic_id=TOPIC_ID)
    fill(orders, 40)
    by_partition: dict[int, list[CoordinatorRecord]] = {}
    for record in records:
        by_partition.setdefault(partition_for(group_of(record.key), partitions), []).append(record)
    for number, those in by_partition.items():
        log = directory.open_log(OFFSETS, number, CONFIG, topic_id=OFFSETS_ID)
        for record in those:
            log.append(encode_batch([LogRecord(*encode_record(record), TIME_MS)]), wall_ms=TIME_MS)
        log.flush()
    assert directory.close() == []
    return path


def flip(path: Path, position: int) -> None:
    """Turn one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def first_segment(directory: Path, partition: str) -> Path:
    return sorted((directory / partition).glob("*.log"))[0]


def everything_in(directory: Path) -> dict[str, bytes]:
    """Every file with its bytes, to see that nothing was touched."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}
