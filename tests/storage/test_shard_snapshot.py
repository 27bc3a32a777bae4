"""A snapshot counts only for the very log beside which it was left, as it was, and only once."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from protocol.records.records import Record
from storage.files import Buffer, Files, StorageError
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from storage.log.shard_snapshot import HEADER_BYTES, SHARD_SNAPSHOT, UnusableSnapshot
from tests.batches import encode_batch

SEGMENTS = LogConfig(segment_bytes=300)  # About three batches each.
TOPIC_ID, OTHER_ID = b"t" * 16, b"o" * 16
BODY: Sequence[Buffer] = [b"what the owner", bytearray(b" knows"), memoryview(b" of its log")]
VERSION = 3
WHOLE = b"".join(BODY)


def opened(directory: Path, topic_id: bytes = TOPIC_ID, log_start_offset: int = 0) -> PartitionLog:
    return PartitionLog.open(
        directory,
        SEGMENTS,
        Files(),
        topic_id=topic_id,
        log_start_offset=log_start_offset,
    )


def append(log: PartitionLog, *values: bytes) -> None:
    for value in values:
        log.append(encode_batch([Record(b"k", value, 1_000)]), wall_ms=1_000)
    log.flush()


def written(directory: Path, values: Sequence[bytes] = (b"1", b"2", b"3", b"4", b"5", b"6")) -> Path:
    """A log of several segments that was closed, with its snapshot, whose path is returned."""
    log = opened(directory)
    append(log, *values)
    assert len(log.segments) > 1
    log.close()
    log.write_shard_snapshot(VERSION, BODY)
    return directory / SHARD_SNAPSHOT


def taken(log: PartitionLog) -> bytes | None:
    found = log.take_shard_snapshot(VERSION)
    return None if found is None else bytes(found)


def refused(log: PartitionLog, version: int = VERSION) -> str:
    """Why the snapshot is not used; it is gone all the same."""
    with pytest.raises(UnusableSnapshot) as caught:
        log.take_shard_snapshot(version)
    assert not (log.directory / SHARD_SNAPSHOT).exists()
    assert log.take_shard_snapshot(version) is None
    return str(caught.value)


def test_what_was_left_is_taken_once(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    log = opened(path.parent)
    assert taken(log) == WHOLE
    assert not path.exists()
    assert log.take_shard_snapshot(VERSION) is None


def test_any_byte_that_is_another_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    sound, log = path.read_bytes(), opened(path.parent)
    for position in range(len(sound)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(sound)
            damaged[position] ^= change
            path.write_bytes(damaged)
            assert refused(log)
    path.write_bytes(sound)
    assert taken(log) == WHOLE


def test_a_file_that_is_torn_or_goes_on_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    sound, log = path.read_bytes(), opened(path.parent)
    for length in range(len(sound)):
        for torn in (sound[:length], sound[:length].ljust(len(sound), b"\0")):
            path.write_bytes(torn)
            assert refused(log)
    path.write_bytes(sound + b"\0")
    assert "body" in refused(log)


def test_a_file_that_cannot_be_read_does_not_keep_its_log_from_being_loaded(tmp_path: Path) -> None:
    """It may lie on a bad sector of its own."""
    files = FaultyFiles(tmp_path)
    path = written(tmp_path / "c-0")
    log = PartitionLog.open(path.parent, SEGMENTS, files, topic_id=TOPIC_ID)
    files.read_fault = lambda operation: (
        OSError(errno.EIO, "Input/output error") if operation.path == path else None
    )
    assert "Input/output error" in refused(log)


def test_a_file_that_cannot_be_opened_does_neither(tmp_path: Path) -> None:
    """As of another user, or without a descriptor left."""
    path = written(tmp_path / "c-0")
    log = opened(path.parent)
    path.unlink()
    path.symlink_to(path)
    assert "symbolic links" in refused(log)


@pytest.mark.parametrize("head_bytes", [0, HEADER_BYTES])
def test_a_file_of_any_size_is_refused_unread(tmp_path: Path, head_bytes: int) -> None:
    """A terabyte of nothing, by itself and behind a header that counts."""
    path = written(tmp_path / "c-0")
    log = opened(path.parent)
    os.truncate(path, head_bytes)
    os.truncate(path, 1 << 40)
    assert "what was written" in refused(log)


def test_any_byte_of_the_log_that_is_another_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    sound, log = path.read_bytes(), opened(path.parent)
    for segment in sorted(path.parent.glob("*.log")):
        before = segment.read_bytes()
        for position in range(len(before)):
            segment.write_bytes(before[:position] + bytes([before[position] ^ 1]) + before[position + 1 :])
            path.write_bytes(sound)
            assert "another log" in refused(log)
        segment.write_bytes(before)
    path.write_bytes(sound)
    assert taken(log) == WHOLE


def test_the_snapshot_of_another_log_is_not_taken(tmp_path: Path) -> None:
    """Nor of one that is as long and ends at the same offset."""
    foreign = written(tmp_path / "c-1", (b"1", b"2", b"3", b"4", b"5", b"7"))
    path = written(tmp_path / "c-0")
    shutil.copy(foreign, path)
    assert "another log" in refused(opened(path.parent))


def test_the_snapshot_of_a_topic_that_was_made_again_is_not_taken(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    (path.parent / "partition.metadata").unlink()
    assert "another log" in refused(opened(path.parent, topic_id=OTHER_ID))


def test_a_log_that_was_appended_to_since_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    """By Kafka, say, which leaves the file where it is."""
    path = written(tmp_path / "c-0")
    log = opened(path.parent)
    append(log, b"7")
    assert "another log" in refused(log)


def test_a_log_that_ends_before_the_snapshot_is_not_taken_for_the_one_after(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    log = opened(path.parent)
    log.truncate_to(5)
    assert "another log" in refused(log)


def test_a_log_whose_first_records_were_deleted_is_another(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    assert "another log" in refused(opened(path.parent, log_start_offset=1))


def test_a_body_of_another_version_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    assert "version 1.3" in refused(opened(path.parent), VERSION + 1)


def test_an_empty_body_is_one(tmp_path: Path) -> None:
    path = written(tmp_path / "c-0")
    log = opened(path.parent)
    log.write_shard_snapshot(VERSION, [])
    assert path.stat().st_size == HEADER_BYTES
    assert taken(log) == b""


def test_a_disk_without_room_leaves_no_half_of_a_snapshot(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = PartitionLog.open(tmp_path / "c-0", SEGMENTS, files)
    append(log, b"1")
    log.close()

    def full(operation: Operation) -> OSError | int | None:
        if operation.name != "write":
            return None
        return OSError(errno.ENOSPC, "No space left on device") if operation.size_bytes < 100 else 100

    files.fault = full
    with pytest.raises(StorageError) as caught:
        log.write_shard_snapshot(VERSION, [bytes(100)])
    assert caught.value.is_no_room
    assert not (log.directory / SHARD_SNAPSHOT).exists()


def test_a_log_that_has_failed_gets_none(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = PartitionLog.open(tmp_path / "c-0", SEGMENTS, files)
    append(log, b"1")
    files.fault = lambda operation: OSError(errno.EIO, "Input/output error")
    with pytest.raises(StorageError):
        append(log, b"2")
    files.fault = lambda operation: None
    with pytest.raises(StorageError):
        log.write_shard_snapshot(VERSION, BODY)
    assert not (log.directory / SHARD_SNAPSHOT).exists()
