"""Sealed segments that are cut, grown or gone are noticed; healthy ones are never called corrupt."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from protocol.records.batch import walk
from protocol.topic_partition import TopicPartition
from storage.directory.log_directory import LogDirectory, LogDirectoryError
from storage.files import CorruptSegment, Files, StorageError
from storage.log.partition_log import PartitionLog
from storage.log.sealed_segments import SEALED_SEGMENTS, read_sealed_segments
from storage.log.segment import base_offset_of
from tests.storage.cleaning import COMPACTED, NOW_MS, RETENTION_MS, clean, put
from tests.storage.directories import kill, take
from tests.storage.test_compaction_crash import QuickFiles

NAME = TopicPartition("c", 0)
SMALL = replace(COMPACTED, segment_bytes=600)
JOINED = replace(COMPACTED, segment_bytes=1500)
POINTS = "recovery-point-offset-checkpoint"


def compact(directory: LogDirectory, log: PartitionLog, files: Files, step: int = 0) -> None:
    """A cleaning as the daemon's cleaner does it, which joins segments."""
    log.config = JOINED
    cleaned = clean(log, files, wall_ms=NOW_MS + step * RETENTION_MS)
    directory.set_cleaned(NAME, log, cleaned.end_offset)
    log.config = SMALL


def write(log: PartitionLog, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        put(log, (f"k{number % 23}", f"{number}" * 9))


def living(root: Path, is_compacted: bool = True) -> LogDirectory:
    """A directory with a log of several sealed segments, checkpointed."""
    files = QuickFiles()
    directory = take(root, files)
    log = directory.open_log(*NAME, SMALL)
    write(log, 40)
    directory.checkpoint()
    if is_compacted:
        compact(directory, log, files)
        write(log, 14, 40)
        directory.checkpoint()
    return directory


def end(directory: LogDirectory, how: str) -> None:
    if how == "clean":
        assert directory.close() == []
    else:
        kill(directory)


def start(root: Path) -> PartitionLog:
    directory = take(root, QuickFiles())
    try:
        return directory.open_log(*NAME, SMALL)
    finally:
        kill(directory)


def sealed_files(root: Path) -> list[Path]:
    paths = sorted((root / "c-0").glob("*.log"))
    return [path for path in paths[:-1] if path.stat().st_size]


@pytest.mark.parametrize("how", ["clean", "killed"])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_cut_at_any_batch_of_any_sealed_segment_is_noticed(
    tmp_path: Path, how: str, is_compacted: bool
) -> None:
    end(living(tmp_path / "logs", is_compacted), how)
    cuts = 0
    for path in sealed_files(tmp_path / "logs"):
        data = path.read_bytes()
        for length in [found.position for found in walk(data)]:  # Where batches begin, byte 0 first.
            copy = shutil.copytree(tmp_path / "logs", tmp_path / "copy")
            damaged = copy / "c-0" / path.name
            damaged.write_bytes(data[:length])
            with pytest.raises(CorruptSegment) as corrupt:
                start(copy)
            assert (corrupt.value.path, corrupt.value.byte) == (damaged, length)
            assert damaged.stat().st_size == length, "never cut, never mended"
            shutil.rmtree(copy)
            cuts += 1
    assert cuts > 20
    start(tmp_path / "logs")


@pytest.mark.parametrize("nth", range(4))
def test_a_sealed_segment_that_is_gone_is_noticed_at_every_start(tmp_path: Path, nth: int) -> None:
    """Also where the partition stayed out of service, and checkpoints and a clean stop came in between."""
    end(living(tmp_path, is_compacted=False), "clean")
    path = sealed_files(tmp_path)[nth]
    path.unlink()
    for _ in range(2):
        directory = take(tmp_path)
        log = directory.add_log(*NAME, SMALL)
        with pytest.raises(CorruptSegment, match=rf"{path.name}.*gone.*remove {SEALED_SEGMENTS}"):
            log.recover()
        directory.checkpoint()
        assert directory.close() == []


def test_a_sealed_segment_that_grew_is_noticed(tmp_path: Path) -> None:
    end(living(tmp_path), "killed")
    path = sealed_files(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(data + data[-100:])
    with pytest.raises(CorruptSegment) as corrupt:
        start(tmp_path)
    assert corrupt.value.byte == len(data)


def forget_list(root: Path) -> None:
    (root / SEALED_SEGMENTS).unlink()


def rewrite_points(root: Path) -> None:
    (root / POINTS).write_text("0\n2\nc 0 54\nd 0 0\n")


@pytest.mark.parametrize("exchange", [forget_list, rewrite_points, lambda root: (root / POINTS).unlink()])
def test_segments_of_another_program_are_taken_as_they_are(
    tmp_path: Path, exchange: Callable[[Path], None]
) -> None:
    """A list that does not belong to the recovery points is removed, so that it never comes to count again."""
    end(living(tmp_path), "clean")
    points = (tmp_path / POINTS).read_text()
    sealed_files(tmp_path)[0].unlink()
    exchange(tmp_path)
    start(tmp_path)
    assert not (tmp_path / SEALED_SEGMENTS).exists()
    (tmp_path / POINTS).write_text(points)
    start(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"recovery_points": 1}', '{"crc32c": 1, "recovery_points": 1, "partitions": {}}']
)
def test_a_garbled_list_is_logged_and_not_used(tmp_path: Path, text: str) -> None:
    end(living(tmp_path), "clean")
    (tmp_path / SEALED_SEGMENTS).write_text(text)
    directory = take(tmp_path)
    if directory.warnings:
        assert [SEALED_SEGMENTS in warning and "not used" in warning for warning in directory.warnings] == [
            True
        ]
    else:
        assert text == '{"recovery_points": 1}', "of other recovery points"
    directory.open_log(*NAME, SMALL)
    assert directory.close() == []
    assert listed(tmp_path) == {path.name: path.stat().st_size for path in sealed_files(tmp_path)}


def test_a_list_that_cannot_be_read_is_no_list_that_is_not_there(tmp_path: Path) -> None:
    end(living(tmp_path), "clean")
    files = FaultyFiles(tmp_path)
    files.read_fault = lambda op: OSError(errno.EIO, "no") if op.path.name == SEALED_SEGMENTS else None
    with pytest.raises(StorageError, match="no"):
        read_sealed_segments(files, tmp_path)


def listed(root: Path) -> dict[str, int]:
    document = json.loads((root / SEALED_SEGMENTS).read_text())
    return {f"{int(base):020d}.log": size for base, size in document["partitions"].get("c-0", {}).items()}


def test_the_list_says_what_there_is_after_each_change(tmp_path: Path) -> None:
    directory = living(tmp_path)
    log = directory._logs[NAME]

    def is_whole() -> bool:
        return listed(tmp_path) == {each.path.name: each.size_bytes for each in log.segments[:-1]}

    assert is_whole()
    compact(directory, log, QuickFiles())
    assert is_whole()
    log.config = replace(SMALL, retention_bytes=1000)
    assert log.apply_retention(NOW_MS)
    assert is_whole()
    directory.delete_records(NAME, log, log.segments[1].base_offset, NOW_MS)
    assert is_whole()
    write(log, 30)
    directory.truncate(*NAME, log.segments[2].base_offset)  # Its predecessor is written on.
    assert len(log.segments) == 2
    assert is_whole()
    directory.delete_log(*NAME)
    assert listed(tmp_path) == {}
    directory.close()


def test_a_start_and_a_checkpoint_without_a_change_write_nothing(tmp_path: Path) -> None:
    end(living(tmp_path), "clean")
    files = FaultyFiles(tmp_path)
    directory = take(tmp_path, files)
    directory.open_log(*NAME, SMALL)
    directory.checkpoint()
    assert SEALED_SEGMENTS not in {operation.path.name for operation in files.operations}
    directory.close()


def test_without_recovery_points_a_cleaning_writes_no_list(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = directory.open_log(*NAME, SMALL)
    write(log, 20)
    compact(directory, log, QuickFiles())
    assert not (tmp_path / SEALED_SEGMENTS).exists()
    directory.close()


def test_partitions_that_are_gone_are_forgotten_at_a_start(tmp_path: Path) -> None:
    end(living(tmp_path), "clean")
    shutil.rmtree(tmp_path / "c-0")
    directory = take(tmp_path)
    assert listed(tmp_path) == {}
    write(directory.open_log(*NAME, SMALL), 30)
    kill(directory)
    start(tmp_path)


def test_a_full_disk_keeps_no_segment_from_being_deleted(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    end(living(tmp_path), "clean")
    directory = take(tmp_path, files)
    log = directory.open_log(*NAME, replace(SMALL, retention_bytes=1000))
    files.run_out_of_room()
    assert log.apply_retention(NOW_MS)
    assert log.failure is None
    assert not (tmp_path / SEALED_SEGMENTS).exists()
    files.fault = None
    files.crash()
    start(tmp_path)


def life(root: Path, files: Files) -> None:
    """Everything that makes, changes and deletes sealed segments."""
    directory = take(root, files)
    log = directory.open_log(*NAME, SMALL)
    for step in range(2):
        write(log, 16, step * 16)
        directory.checkpoint()
        compact(directory, log, files, step)
        log.roll(NOW_MS)
        directory.checkpoint()  # The name of the last segment may be lost with the power, the list is not.
        write(log, 8, step * 16)
        log.config = replace(SMALL, retention_bytes=1200)
        log.apply_retention(NOW_MS)
        log.config = SMALL
        directory.checkpoint()
        directory.delete_records(NAME, log, log.segments[1].base_offset + 1, NOW_MS)
        write(log, 12, step)
        directory.checkpoint()
        directory.truncate(*NAME, log.segments[-2].base_offset)
        write(log, 2)
        directory.checkpoint()
    directory.close()
    again = take(root, files)
    log = again.open_log(*NAME, SMALL)
    write(log, 8)
    again.checkpoint()
    again.delete_log(*NAME)
    log = again.open_log(*NAME, SMALL)
    write(log, 8)
    again.close()


def begin_again(root: Path) -> None:
    """A start, a little work, a kill, and another start; nothing is corrupt."""
    files = QuickFiles()
    for _ in range(2):
        directory = take(root, files)
        log = directory.open_log(*NAME, SMALL)
        write(log, 3)
        kill(directory)


def test_a_crash_at_any_moment_never_turns_a_healthy_log_into_a_corrupt_one(tmp_path: Path) -> None:
    root, scratch, points = tmp_path / "logs", tmp_path / "scratch", 0
    root.mkdir()
    files = FaultyFiles(root)

    def look(operation: Operation) -> None:
        nonlocal points
        if "index" in operation.path.suffix:
            return  # What becomes of these is nothing to the list.
        points += 1
        for chance in (None, Random(points)):
            scratch.mkdir()
            files.put_image(scratch, chance)
            begin_again(scratch)
            shutil.rmtree(scratch)
        if points % 4 == 0:  # A kill, which leaves all that was written.
            begin_again(shutil.copytree(root, scratch))
            shutil.rmtree(scratch)

    files.fault = look
    life(root, files)
    assert points > 300


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_error_at_any_moment_never_turns_a_healthy_log_into_a_corrupt_one(
    tmp_path: Path, number: int
) -> None:
    for nth in range(0, 2000, 11):
        root = tmp_path / str(nth)
        root.mkdir()
        files = FaultyFiles(root)
        files.fail(nth, number)
        try:
            life(root, files)
        except CorruptSegment:
            raise
        except (StorageError, LogDirectoryError):
            pass  # What the daemon would see; checked below is what it leaves.
        if not any(each.name.startswith("failed") for each in files.operations):
            assert nth > 400
            return
        files.fault = None
        copy = shutil.copytree(root, tmp_path / "copy")
        begin_again(copy)
        files.crash()
        begin_again(root)
        shutil.rmtree(root)
        shutil.rmtree(copy)
    pytest.fail("the life has fewer operations than this")


@pytest.mark.parametrize("kind", ["compaction", "retention", "truncation"])
def test_a_checkpoint_amid_a_change_says_nothing_of_what_is_changing(tmp_path: Path, kind: str) -> None:
    root, scratch, points = tmp_path / "logs", tmp_path / "scratch", 0
    root.mkdir()
    files = FaultyFiles(root)
    directory = take(root, files)
    log = directory.open_log(*NAME, SMALL)
    write(log, 40)

    def look(operation: Operation) -> None:
        nonlocal points
        if operation.path.parent.name != NAME.directory_name and operation.path.name != NAME.directory_name:
            return
        files.fault = None  # What the checkpoint does does not count.
        directory.checkpoint()
        files.fault = look
        points += 1
        for chance in (None, Random(points)):
            scratch.mkdir()
            files.put_image(scratch, chance)
            begin_again(scratch)
            shutil.rmtree(scratch)

    files.fault = look
    if kind == "compaction":
        compact(directory, log, files)
    elif kind == "retention":
        log.config = replace(SMALL, retention_bytes=1200)
        log.apply_retention(NOW_MS)
    else:
        directory.truncate(*NAME, log.segments[2].base_offset)
    assert points > 10


def test_base_offsets_are_read_from_names(tmp_path: Path) -> None:
    end(living(tmp_path), "clean")
    known = read_sealed_segments(Files(), tmp_path)
    assert known is not None
    assert sorted(known[NAME]) == [base_offset_of(path.name) for path in sealed_files(tmp_path)]
