"""One journal for several logs: frames, what is behind them, checkpoints, and what a start makes of it all."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from storage.directory.log_directory import LogDirectory, LogDirectoryError
from storage.files import CorruptSegment, Files, StorageError
from storage.journal import journal as journal_module
from storage.journal.files import DIRECTORY
from storage.journal.frames import Part
from storage.journal.journal import CARRY_OVER_FILES, Journal
from storage.log.partition_log import PartitionLog
from storage.log.staged_log import StagedLog
from tests.storage.directories import take
from tests.storage.journals import Shards, journal_files
from tests.storage.logs import NOW_MS, OS_SMALL, batch

Fault = Callable[[Operation], OSError | None]


@pytest.fixture
def disk(tmp_path: Path) -> FaultyFiles:
    (tmp_path / "disk").mkdir()
    return FaultyFiles(tmp_path / "disk")


@pytest.fixture
def shards(disk: FaultyFiles) -> Shards:
    return Shards(disk.root, disk).opened()


def failing(name: str, place: str, number: int = errno.EIO) -> Fault:
    """Fails all such operations at this place."""
    return lambda operation: OSError(number, "fault") if operation.is_at(name, place) else None


def stick(shards: Shards, disk: FaultyFiles, index: int = 0) -> None:
    """Have a log fail so that what is behind it cannot be written; its segments are synced."""
    shards.journal.checkpoint(NOW_MS)
    shards.commit(index, 2)
    disk.fault = failing("write", f"t-{index}/", errno.ENOSPC)
    ((log, error),) = shards.journal.write_behind()
    assert log is shards.logs[index]
    assert error is not None
    disk.fault = None


# The turn.


def test_what_is_staged_in_all_logs_is_one_frame_one_write_and_one_sync(
    shards: Shards, disk: FaultyFiles
) -> None:
    shards.commit()
    disk.operations.clear()
    shards.put(0, 3)
    shards.put(1)
    assert shards.journal.write(shards.logs) == {}
    assert [operation.name for operation in disk.operations] == ["write", "sync"]
    assert [log.durable_offset for log in shards.logs] == [4, 1]
    frames = journal_files(disk.root).read()
    assert [[name for name, _ in frame.parts] for frame in frames] == [["t-0"], ["t-0", "t-1"]]


def test_without_anything_staged_there_is_no_frame(shards: Shards, disk: FaultyFiles) -> None:
    assert shards.journal.write(shards.logs) == {}
    assert disk.operations == []


@pytest.mark.parametrize(
    ("name", "number"), [("write", errno.EIO), ("sync", errno.EIO), ("write", errno.ENOSPC)]
)
def test_a_failed_frame_fails_the_logs_it_is_of_and_no_others(
    shards: Shards, disk: FaultyFiles, name: str, number: int
) -> None:
    shards.commit(0)
    shards.put(0)
    disk.fault = failing(name, DIRECTORY, number)
    failed = shards.journal.write([shards.logs[0]])
    assert failed.keys() == {shards.logs[0]}
    assert failed[shards.logs[0]].errno == number
    assert shards.logs[0].failure is failed[shards.logs[0]]
    assert shards.logs[0].durable_offset == 1
    disk.fault = None
    shards.commit(1)
    shards.journal.write_behind()
    shards.logs[0].fail_back()
    shards.commit(0)
    disk.crash()
    after = shards.again().opened()
    assert [after.offsets(0), after.offsets(1)] == [[0, 1], [0]]


def test_what_a_failed_frame_left_does_not_come_back_behind_a_log_that_serves_again(
    shards: Shards, disk: FaultyFiles
) -> None:
    """It may be whole in the file, though its sync failed."""
    shards.commit(0)
    shards.put(0)
    disk.fault = failing("sync", DIRECTORY)
    shards.journal.write(shards.logs)
    with pytest.raises(StorageError):
        shards.logs[0].fail_back()
    disk.fault = None
    shards.logs[0].fail_back()
    assert shards.offsets(0) == [0]
    assert shards.again().opened().offsets(0) == [0]


def test_a_log_that_has_failed_takes_no_part_in_a_frame_and_the_others_do(shards: Shards) -> None:
    broken = StorageError("write", shards.path, "broken", errno.EIO)
    shards.put(0)
    shards.put(1)
    shards.logs[0].frame_failed(broken)
    failed = shards.journal.write(shards.logs)
    assert failed.keys() == {shards.logs[0]}
    assert shards.logs[0].failure is broken, "the first error is the one that is shown"
    assert shards.logs[1].durable_offset == 1


def test_a_log_that_is_cut_back_while_a_frame_passes_it_over_serves(
    shards: Shards, disk: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread wrote behind it, failed, and was told first."""
    stick(shards, disk)
    log = shards.logs[0]
    mender, frame_failed = Thread(target=log.fail_back), log.frame_failed

    def overtaken(error: StorageError) -> None:
        mender.start()
        mender.join(0.2)
        frame_failed(error)

    monkeypatch.setattr(log, "frame_failed", overtaken)
    assert shards.journal.write([log]).keys() == {log}
    mender.join()
    assert log.failure is None


def test_readers_are_told_of_what_was_written_behind_and_owners_of_what_could_not_be(
    shards: Shards, disk: FaultyFiles
) -> None:
    shards.commit(0)
    shards.commit(1)
    assert shards.journal.bytes_behind == 2 * len(batch())
    disk.fault = failing("write", "t-1/")
    outcomes = dict(shards.journal.write_behind())
    assert shards.journal.bytes_behind == 0
    assert outcomes[shards.logs[0]] is None
    assert outcomes[shards.logs[1]] is shards.logs[1].failure is not None
    disk.fault = None
    assert shards.journal.write_behind() == []


def test_a_bug_in_one_log_keeps_no_other_from_being_written_and_is_raised(
    shards: Shards, disk: FaultyFiles
) -> None:
    def bug(operation: Operation) -> None:
        if operation.is_at("write", "t-0/"):
            raise ZeroDivisionError

    for index in range(2):
        shards.commit(index)
    disk.fault = bug
    with pytest.raises(ZeroDivisionError):
        shards.journal.write_behind()
    assert [log.written_offset for log in shards.logs] == [0, 1]
    disk.fault = None
    assert sorted(shards.logs.index(log) for log, _ in shards.journal.write_behind()) == [0, 1]
    assert [log.written_offset for log in shards.logs] == [1, 1]


def test_a_checkpoint_that_ends_with_an_error_keeps_that_of_a_log_for_the_next_call(
    shards: Shards, disk: FaultyFiles
) -> None:
    shards.commit(0)
    disk.fault = failing("write", "t-0/")

    def bug() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shards.journal.checkpoint(NOW_MS, bug)
    assert shards.journal.write_behind() == [(shards.logs[0], shards.logs[0].failure)]
    assert shards.journal.write_behind() == []


def test_readers_are_told_of_what_a_checkpoint_wrote(shards: Shards) -> None:
    shards.commit(0)
    shards.journal.checkpoint(NOW_MS)
    assert shards.journal.write_behind() == [(shards.logs[0], None)]
    assert shards.logs[0].take_written_bytes() == len(batch())
    assert shards.journal.write_behind() == []


# Checkpoints.


def test_a_checkpoint_syncs_the_segments_before_the_journal_s_files_go(
    shards: Shards, disk: FaultyFiles
) -> None:
    shards.commit(0)
    shards.commit(1)
    shards.journal.write_behind()
    shards.commit(0)
    disk.operations.clear()
    assert shards.journal.checkpoint(NOW_MS) == []
    done = [f"{operation.name} {operation.path.relative_to(disk.root)}" for operation in disk.operations]
    gone = done.index(f"unlink {DIRECTORY}/{1:020d}.journal")
    segment = "00000000000000000000.log"
    assert done.index(f"write t-0/{segment}") < done.index(f"sync t-0/{segment}") < gone
    assert done.index(f"sync t-1/{segment}") < gone
    assert done.index("sync t-0") < gone
    assert done[gone + 1] == f"sync {DIRECTORY}"
    assert shards.journal.files.numbers == [2]
    disk.crash()
    after = shards.again().opened()
    assert [after.offsets(0), after.offsets(1)] == [[0, 1], [0]]


def test_a_checkpoint_is_needed_where_something_was_written_since(shards: Shards) -> None:
    assert not shards.journal.needs_checkpoint
    shards.commit()
    assert shards.journal.needs_checkpoint
    shards.journal.checkpoint(NOW_MS)
    assert not shards.journal.needs_checkpoint


def test_what_comes_while_a_checkpoint_runs_is_in_a_file_that_stays(
    shards: Shards, disk: FaultyFiles
) -> None:
    shards.commit(0)
    shards.commit(1)
    turns: list[int] = []

    def meanwhile() -> None:
        turns.append(0)
        shards.commit(0)

    shards.journal.checkpoint(NOW_MS, meanwhile)
    assert len(turns) == 2, "between the syncs of two logs"
    assert shards.journal.needs_checkpoint
    disk.crash()
    after = shards.again().opened()
    assert [after.offsets(0), after.offsets(1)] == [[0, 1, 2], [0]]


def test_a_log_that_cannot_be_written_holds_back_the_files_it_needs(
    shards: Shards, disk: FaultyFiles
) -> None:
    stick(shards, disk)
    for _ in range(2):
        shards.commit(1)
        assert shards.journal.checkpoint(NOW_MS) == []
    for _ in range(3):
        assert shards.journal.checkpoint(NOW_MS) == []
    assert shards.journal.files.numbers == [1, 2, 3], "one more where there are frames, not each time"
    assert shards.journal.needs_checkpoint
    shutil.copytree(disk.root, disk.root.parent / "crashed")
    after = Shards(disk.root.parent / "crashed", Files()).opened()
    assert [after.offsets(0), after.offsets(1)] == [[0, 1], [0, 1]]
    shards.logs[0].fail_back()
    shards.journal.checkpoint(NOW_MS)
    assert shards.journal.files.numbers == [3]
    disk.crash()
    assert shards.again().opened().offsets(0) == [0, 1]


def test_a_log_that_fails_in_a_checkpoint_holds_the_files_back(shards: Shards, disk: FaultyFiles) -> None:
    shards.commit(0)
    shards.commit(1)
    shards.journal.write_behind()
    disk.fault = failing("sync", "t-1/")
    ((log, error),) = shards.journal.checkpoint(NOW_MS)
    assert (log, error) == (shards.logs[1], shards.logs[1].failure)
    assert shards.journal.files.numbers == [1, 2]
    disk.fault = None
    disk.crash()
    assert shards.again().opened().offsets(1) == [0]


def test_what_a_bug_kept_from_its_sync_still_holds_its_files_back(shards: Shards, disk: FaultyFiles) -> None:
    shards.commit(0)
    shards.commit(1)

    def bug() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shards.journal.checkpoint(NOW_MS, bug)
    assert shards.journal.needs_checkpoint
    shards.journal.checkpoint(NOW_MS)
    disk.crash()
    after = shards.again().opened()
    assert [after.offsets(0), after.offsets(1)] == [[0], [0]]


@pytest.mark.parametrize("name", ["create", "sync", "write"])
def test_a_checkpoint_that_can_make_no_file_leaves_the_journal_as_it_was(
    shards: Shards, disk: FaultyFiles, name: str
) -> None:
    shards.commit(0)
    disk.fault = failing(name, DIRECTORY)
    with pytest.raises(StorageError):
        shards.journal.checkpoint(NOW_MS)
    disk.fault = None
    assert shards.journal.needs_checkpoint
    shards.commit(0)
    disk.crash()
    assert shards.again().opened().offsets(0) == [0, 1]


@pytest.mark.parametrize("counted", [0, 1])
def test_after_a_bug_behind_a_frame_no_other_follows_it(
    shards: Shards, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commits were refused, and a log may give out their offsets anew: at a start the frame would win."""
    shards.commit(0)

    def bug(batches: object) -> None:
        raise MemoryError

    for index in range(2):
        shards.put(index)
    with monkeypatch.context() as patched:
        patched.setattr(shards.logs[counted], "journaled", bug)
        with pytest.raises(MemoryError):
            shards.journal.write(shards.logs)
    for log in shards.logs:
        log.frame_failed(StorageError("write", log.directory, "a bug"))
        log.fail_back()
    for index in range(2):
        shards.put(index)
    refused = shards.journal.write(shards.logs)
    assert refused.keys() == set(shards.logs)
    assert "no frame may follow one that a bug ended (MemoryError()" in str(refused[shards.logs[0]])
    after = shards.again().opened()
    assert [after.offsets(0), after.offsets(1)] == [[0, 1], [0]], "what was refused may have taken effect"


def test_a_bug_amid_the_writing_of_a_frame_takes_it_back(shards: Shards, disk: FaultyFiles) -> None:
    shards.commit(0)
    shards.put(0)

    def bug(operation: Operation) -> None:
        if operation.is_at("sync", DIRECTORY):
            raise MemoryError

    disk.fault = bug
    with pytest.raises(MemoryError):
        shards.journal.write(shards.logs)
    disk.fault = None
    shards.logs[0].frame_failed(StorageError("write", shards.logs[0].directory, "a bug"))
    shards.logs[0].fail_back()
    assert shards.again().opened().offsets(0) == [0]


def test_a_log_that_stays_failed_holds_back_only_so_many_files(shards: Shards, disk: FaultyFiles) -> None:
    shards.commit(0)
    stick(shards, disk)
    disk.fault = None
    for _ in range(3 * CARRY_OVER_FILES):
        shards.commit(1)
        shards.journal.checkpoint(NOW_MS)
    assert len(shards.journal.files.numbers) <= CARRY_OVER_FILES + 1
    disk.crash()
    after = shards.again().opened()
    assert after.offsets(0) == [0, 1, 2]


@pytest.fixture
def small_carry_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "CARRY_OVER_BYTES", 300)


@pytest.mark.usefixtures("small_carry_over")
def test_beyond_the_bound_what_a_stuck_log_needs_is_copied_and_the_files_go(
    shards: Shards, disk: FaultyFiles
) -> None:
    stick(shards, disk)
    shards.commit(1, 2)
    shards.journal.checkpoint(NOW_MS)
    assert shards.journal.files.numbers == [2]
    assert shards.journal.needs_checkpoint
    disk.crash()
    after = shards.again().opened()
    assert [after.offsets(0), after.offsets(1)] == [[0, 1], [0, 1]]


@pytest.mark.usefixtures("small_carry_over")
def test_what_was_copied_once_is_copied_again(shards: Shards, disk: FaultyFiles) -> None:
    stick(shards, disk)
    for _ in range(3):
        shards.commit(1, 3)
        shards.journal.checkpoint(NOW_MS)
        assert len(shards.journal.files.numbers) == 1
    disk.crash()
    assert shards.again().opened().offsets(0) == [0, 1]


@pytest.mark.usefixtures("small_carry_over")
def test_a_log_that_was_never_opened_has_all_it_inherited_copied(shards: Shards, disk: FaultyFiles) -> None:
    shards.commit(0, 3)
    disk.read_fault = lambda operation: (
        OSError(errno.EMFILE, "fault") if operation.is_at("list", "t-0") else None
    )
    after = shards.again()
    with pytest.raises(StorageError):
        after.logs[0].recover()
    after.logs[1].recover()
    after.commit(1, 4)
    after.journal.checkpoint(NOW_MS)
    assert len(after.journal.files.numbers) == 1
    disk.read_fault = None
    disk.crash()
    assert shards.again().opened().offsets(0) == [0, 1, 2]


@pytest.mark.usefixtures("small_carry_over")
def test_a_log_that_is_opened_while_others_are_copied_keeps_the_files_it_was_written_from(
    shards: Shards, disk: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another thread: it has no longer failed, and its segments are not synced."""
    shards.commit(0, 3)
    after = shards.again()
    after.logs[1].recover()
    after.commit(1, 4)
    is_synced, opener = vars(StagedLog)["is_synced"].fget, Thread(target=after.logs[0].recover)

    def overtaken(log: StagedLog) -> Any:
        found = is_synced(log)
        if not log.is_open:
            opener.start()
            opener.join(0.2)  # It has to wait until the look at the log has ended.
        return found

    monkeypatch.setattr(StagedLog, "is_synced", property(overtaken))
    after.journal.checkpoint(NOW_MS)
    opener.join()
    disk.crash()
    monkeypatch.undo()
    assert shards.again().opened().offsets(0) == [0, 1, 2]


@pytest.mark.usefixtures("small_carry_over")
def test_what_a_log_needs_whose_segments_are_not_synced_is_copied_from_the_files(
    shards: Shards, disk: FaultyFiles
) -> None:
    """Of two commits, one in a segment that no sync has covered, and one in none."""
    shards.commit(0)
    shards.journal.checkpoint(NOW_MS)
    shards.commit(0)
    shards.journal.write_behind()
    shards.commit(0)
    disk.fault = failing("write", "t-0/")
    shards.journal.write_behind()
    disk.fault = None
    shards.commit(1, 2)
    shards.journal.checkpoint(NOW_MS)
    assert shards.journal.files.numbers == [3]
    copied = [(name, len(data)) for frame in shards.journal.files.read() for name, data in frame.parts]
    assert copied == [("t-0", 2 * len(batch()))]
    disk.crash()
    assert shards.again().opened().offsets(0) == [0, 1, 2]


# The start.


def test_a_start_gives_each_log_its_own_and_names_what_nobody_took(shards: Shards, disk: FaultyFiles) -> None:
    shards.commit(0, 2)
    shards.commit(1)
    disk.crash()
    after = Shards(disk.root, disk, 1).opened()
    assert after.journal.unclaimed == ["t-1"]
    assert after.offsets(0) == [0, 1]


def test_what_a_start_inherited_is_synced_by_a_checkpoint(shards: Shards, disk: FaultyFiles) -> None:
    shards.commit(0, 2)
    disk.crash()
    after = shards.again().opened()
    assert after.journal.needs_checkpoint
    assert after.logs[0].written_offset == 2
    after.journal.checkpoint(NOW_MS)
    assert after.journal.files.numbers == [2]
    disk.crash()
    assert shards.again().opened().offsets(0) == [0, 1]


def test_a_checkpoint_removes_nothing_before_all_logs_were_added(shards: Shards, disk: FaultyFiles) -> None:
    """A start that opens many logs may take longer than the time between two checkpoints."""
    shards.commit(0)
    shards.commit(1)
    disk.crash()
    start = Shards(disk.root, disk, 1).opened()
    start.journal.checkpoint(NOW_MS)
    disk.crash()
    assert shards.again().opened().offsets(1) == [0]


def test_a_gap_fails_its_log_alone(shards: Shards, disk: FaultyFiles) -> None:
    shards.commit(0)
    shards.commit(1)
    shards.journal.checkpoint(NOW_MS)
    shards.commit(0)
    shards.commit(1)
    disk.crash()
    shutil.rmtree(disk.root / "t-0")
    after = Shards(disk.root, FaultyFiles(disk.root))
    after.logs[1].recover()
    with pytest.raises(CorruptSegment, match="the journal goes on with 1, the log ends before 0"):
        after.logs[0].recover()
    assert after.offsets(1) == [0, 1]
    after.commit(1)
    after.journal.checkpoint(NOW_MS)
    assert len(after.journal.files.numbers) == 3, "the damaged log may still be mended"


def test_a_frame_of_what_is_no_batch_is_reported(tmp_path: Path) -> None:
    journal_files(tmp_path).append([Part("t-0", [bytes(batch()), b"no batch"])])
    with pytest.raises(CorruptSegment, match=f"frame 1 has no batch at byte {len(batch())} of t-0"):
        Journal(journal_files(tmp_path)).read()


def test_after_a_kill_at_a_start_the_next_has_it_all(shards: Shards, disk: FaultyFiles) -> None:
    """Each operation of a start, and a crash there."""
    shards.commit(0, 20)
    shards.commit(1, 2)
    disk.crash()
    scratch = disk.root.parent / "scratch"
    scratch.mkdir()
    points = []

    def look(operation: Operation) -> None:
        points.append(operation)
        for random in (None, *(Random(f"{len(points)} {seed}") for seed in range(4))):
            disk.put_image(scratch, random)
            after = Shards(scratch, Files()).opened()
            assert [after.offsets(0), after.offsets(1)] == [list(range(20)), [0, 1]], str(operation)

    disk.fault = look
    shards.again().opened()
    assert len(points) > 5


def history(shards: Shards, disk: FaultyFiles, acknowledged: list[int]) -> Iterator[Shards]:
    """Commits, writing behind, checkpoints and a restart; notes what was acknowledged."""

    def commit(index: int, batches: int) -> None:
        shards.commit(index, batches)
        acknowledged[index] += batches

    for turn in range(8):
        commit(turn % 2, 1 + turn % 3)
        yield shards
        if turn % 3 == 1:
            shards.journal.write_behind()
        if turn % 4 == 3:
            shards.journal.checkpoint(NOW_MS)
        if turn == 5:
            shards = shards.again().opened()


def test_what_was_acknowledged_is_there_after_a_crash_at_any_operation(
    shards: Shards, disk: FaultyFiles
) -> None:
    scratch = disk.root.parent / "scratch"
    scratch.mkdir()
    acknowledged, points = [0, 0], [0]

    def look(operation: Operation) -> None:
        points[0] += 1
        for random in (None, *(Random(f"{points[0]} {seed}") for seed in range(3))):
            disk.put_image(scratch, random)
            after = Shards(scratch, Files()).opened()
            for index, count in enumerate(acknowledged):
                offsets = after.offsets(index)
                assert offsets == list(range(len(offsets))), str(operation)
                assert len(offsets) >= count, str(operation)

    disk.fault = look
    for _ in history(shards, disk, acknowledged):
        pass
    assert points[0] > 60


# In a log directory.


def shard_of(directory: LogDirectory, partition: int = 0) -> StagedLog:
    log = directory.open_log("t", partition, OS_SMALL, is_replayed=True)
    assert isinstance(log, StagedLog)
    return log


def commit(directory: LogDirectory, log: StagedLog) -> None:
    log.append(batch(), wall_ms=NOW_MS)
    assert directory.journal.write([log]) == {}


def let_go(directory: LogDirectory) -> None:
    directory._lock_file.close()


def test_a_clean_stop_leaves_no_journal(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = shard_of(directory)
    commit(directory, log)
    assert directory.close() == []
    assert not (tmp_path / DIRECTORY).exists()
    again = take(tmp_path)
    assert again.shut_down_cleanly
    assert shard_of(again).durable_offset == 1


def test_the_journal_stays_at_a_clean_stop_while_a_log_needs_it(disk: FaultyFiles) -> None:
    directory = take(disk.root, disk)
    first, second = shard_of(directory), shard_of(directory, 1)
    commit(directory, first)
    commit(directory, second)
    disk.fault = failing("write", "t-0/", errno.ENOSPC)
    assert len(directory.close()) == 1
    disk.fault = None
    disk.crash()
    again = take(disk.root, disk)
    assert [shard_of(again).durable_offset, shard_of(again, 1).durable_offset] == [1, 1]


def test_the_journal_stays_at_a_clean_stop_while_a_log_could_not_be_opened(disk: FaultyFiles) -> None:
    """As where `muster log import` opens a log and fails: the directory is closed without it."""
    directory = take(disk.root, disk)
    commit(directory, shard_of(directory))
    let_go(directory)
    second = take(disk.root, disk)
    disk.fault = failing("write", "t-0/")
    with pytest.raises(StorageError):
        shard_of(second)
    disk.fault = None
    assert second.close() == []
    assert shard_of(take(disk.root, disk)).durable_offset == 1


def test_the_journal_stays_at_a_clean_stop_while_nobody_took_what_it_has(tmp_path: Path) -> None:
    directory = take(tmp_path)
    commit(directory, shard_of(directory))
    commit(directory, shard_of(directory, 1))
    let_go(directory)
    second = take(tmp_path)
    assert shard_of(second).durable_offset == 1
    assert second.close() == []
    third = take(tmp_path)
    assert [shard_of(third).durable_offset, shard_of(third, 1).durable_offset] == [1, 1]


def test_another_directory_s_journal_keeps_this_one_from_being_used(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = take(tmp_path / "one"), take(tmp_path / "two")
    commit(one, shard_of(one))
    let_go(one)
    let_go(two)
    shutil.copytree(tmp_path / "one" / DIRECTORY, tmp_path / "two" / DIRECTORY)
    with pytest.raises(LogDirectoryError, match="the journal of directory"):
        take(tmp_path / "two")


def test_a_shard_whose_log_is_deleted_is_no_longer_synced(tmp_path: Path) -> None:
    directory = take(tmp_path)
    commit(directory, shard_of(directory))
    commit(directory, shard_of(directory, 1))
    directory.delete_log("t", 0)
    assert [log.directory.name for log, _ in directory.journal.write_behind()] == ["t-1"]
    assert directory.journal.checkpoint(NOW_MS) == []
    assert len(directory.journal.files.numbers) == 1


def test_only_logs_of_shards_are_written_behind(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = directory.open_log("t", 0, OS_SMALL)
    assert type(log) is PartitionLog
    assert directory.close() == []
