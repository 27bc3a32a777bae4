"""The log of a shard: what counts, what is shown, and how the one catches up with the other."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from protocol.records.batch import parse_header
from storage.files import CorruptSegment, StorageError
from storage.log.log_reader import OffsetOutOfRange
from storage.log.opening import Opening
from storage.log.staged_log import StagedLog
from tests.storage.journals import Shards
from tests.storage.logs import NOW_MS, OS_SMALL, batch
from tests.storage.transactions import end, known, put

BROKEN = StorageError("write", Path("journal"), "Input/output error", errno.EIO)


@pytest.fixture
def disk(tmp_path: Path) -> FaultyFiles:
    (tmp_path / "disk").mkdir()
    return FaultyFiles(tmp_path / "disk")


def unopened(disk: FaultyFiles) -> StagedLog:
    return StagedLog(disk.root / "t-0", OS_SMALL, disk, Opening(is_replayed=True))


def opened(disk: FaultyFiles) -> StagedLog:
    log = unopened(disk)
    log.recover()
    return log


def journal(log: StagedLog, batches: int = 1) -> None:
    """Append so many batches and have them count."""
    for _ in range(batches):
        log.append(batch(), wall_ms=NOW_MS)
    log.journaled(log.take_staged())


def batches_at(first: int, last: int) -> list[memoryview]:
    """Batches of one record with these offsets, as a journal has them."""
    found = []
    for offset in range(first, last + 1):
        data = batch()
        data[:8] = offset.to_bytes(8, "big")
        found.append(memoryview(bytes(data)))
    return found


def loaded(log: StagedLog, start: int = 0) -> list[int]:
    return [found.base_offset for found, _ in log.batches(start)]


def failing_writes(number: int, suffix: str = ".log") -> Callable[[Operation], OSError | None]:
    def fault(operation: Operation) -> OSError | None:
        if operation.name == "write" and operation.path.name.endswith(suffix):
            return OSError(number, "fault")
        return None

    return fault


# What counts, and what is shown.


def test_a_batch_counts_once_it_is_in_the_journal_and_is_shown_once_it_is_in_a_segment(
    disk: FaultyFiles,
) -> None:
    log = opened(disk)
    log.append(batch(), wall_ms=NOW_MS)
    log.append(batch(), wall_ms=NOW_MS)
    assert (log.next_offset, log.durable_offset, log.written_offset) == (2, 0, 0)
    staged = log.take_staged()
    assert (log.durable_offset, loaded(log)) == (0, [])
    log.journaled(staged)
    assert (log.durable_offset, log.written_offset, log.has_behind) == (2, 0, True)
    assert loaded(log) == [0, 1], "a load sees what counts"
    assert log.read(0, 1000) == b"", "a reader does not"
    assert log.offset_for_timestamp(0) is None
    assert log.write_behind()
    assert (log.durable_offset, log.written_offset, log.has_behind) == (2, 2, False)
    assert parse_header(log.read(0, 1000)).base_offset == 0
    assert loaded(log) == [0, 1]


def test_nothing_is_deleted_beyond_what_is_shown(disk: FaultyFiles) -> None:
    log = opened(disk)
    journal(log, 2)
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(1)
    log.write_behind()
    log.advance_start(1)


def test_the_last_stable_offset_is_of_what_counts(disk: FaultyFiles) -> None:
    log = opened(disk)
    known(log)
    put(log, 1, 0)
    end(log, 1, commit=True)
    log.journaled(log.take_staged())
    assert log.producers.last_stable_offset == 0
    log.producers.settle()
    assert log.producers.last_stable_offset == 2


def test_writing_behind_does_not_sync_and_a_sync_covers_what_is_written(disk: FaultyFiles) -> None:
    log = opened(disk)
    journal(log)
    disk.operations.clear()
    log.write_behind()
    assert not [line for line in disk.history(".log") if line.startswith("sync")]
    assert (log.recovery_point, log.is_synced) == (0, False)
    log.sync_written(NOW_MS)
    assert "sync 00000000000000000000.log" in disk.history(".log")
    assert (log.recovery_point, log.is_synced) == (1, True)
    disk.operations.clear()
    log.sync_written(NOW_MS)
    assert disk.history() == []


def test_it_is_told_once_how_much_became_readable_whoever_wrote_it(disk: FaultyFiles) -> None:
    log = opened(disk)
    assert not log.write_behind()
    journal(log, 2)
    log.catch_up()
    assert log.write_behind()
    assert log.take_written_bytes() == log.size_bytes > 0
    assert (log.take_written_bytes(), log.write_behind()) == (0, False)


def test_what_fills_a_directory_alone_goes_past_the_journal_and_is_synced(disk: FaultyFiles) -> None:
    log = opened(disk)
    journal(log)
    log.append(batch(), wall_ms=NOW_MS)
    log.flush()
    assert (log.durable_offset, log.written_offset, log.recovery_point) == (2, 2, 2)
    disk.crash()
    assert loaded(opened(disk)) == [0, 1]


def test_a_load_that_is_overtaken_by_writing_behind_sees_each_batch_once(disk: FaultyFiles) -> None:
    log = opened(disk)
    journal(log, 2)
    log.write_behind()
    journal(log, 2)
    load = log.batches(0)
    seen = [next(load)[0].base_offset]
    log.write_behind()
    journal(log)
    assert seen + [found.base_offset for found, _ in load] == [0, 1, 2, 3]


def test_a_load_from_an_offset_leaves_out_what_is_below_it(disk: FaultyFiles) -> None:
    log = opened(disk)
    journal(log, 3)
    assert loaded(log, 2) == [2]


def test_producers_are_read_with_what_is_behind(disk: FaultyFiles) -> None:
    """Of a transaction whose marker is there, and of one that goes on."""
    log = opened(disk)
    known(log)
    put(log, 1, 0)
    log.journaled(log.take_staged())
    log.write_behind()
    put(log, 2, 5)
    end(log, 1, commit=False)
    log.journaled(log.take_staged())
    state = known(log)
    producers = dict(state.items())
    assert (producers[1].transaction_start, producers[2].transaction_start) == (None, 1)
    assert producers[2].last_sequence == 5
    log.write_behind()
    found = log.producers.aborted(0, log.next_offset)
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in found] == [(1, 0, 2)]


# What a log inherits.


def test_a_log_passes_over_what_it_has_and_takes_the_rest(disk: FaultyFiles) -> None:
    before = opened(disk)
    journal(before, 2)
    before.write_behind()
    before.close()
    log = unopened(disk)
    log.inherit(batches_at(0, 2))
    log.inherit(batches_at(3, 3))
    assert log.has_behind
    log.recover()
    assert (log.next_offset, log.durable_offset, log.written_offset) == (4, 4, 4)
    assert loaded(log) == [0, 1, 2, 3]
    journal(log)
    log.write_behind()
    assert loaded(log) == [0, 1, 2, 3, 4]


def test_a_log_of_which_the_journal_has_nothing_new_is_as_it_was(disk: FaultyFiles) -> None:
    before = opened(disk)
    journal(before, 3)
    before.close()
    log = unopened(disk)
    log.inherit(batches_at(0, 1))
    log.recover()
    assert (log.durable_offset, log.has_behind, loaded(log)) == (3, False, [0, 1, 2])


@pytest.mark.parametrize("gap", [[1], [0, 2], [0, 1, 1, 3]])
def test_a_batch_that_does_not_continue_the_log_is_corruption(disk: FaultyFiles, gap: list[int]) -> None:
    log = unopened(disk)
    log.inherit([data for offset in gap for data in batches_at(offset, offset)])
    for _ in range(2):
        with pytest.raises(CorruptSegment, match=f"the journal goes on with {gap[-1]}"):
            log.recover()
    assert not log.is_open
    stuck = log.stuck()
    assert stuck is not None
    assert [each.base_offset for each in stuck] == gap, "it is still needed"
    assert not (disk.root / "t-0").exists()


def test_a_log_that_could_not_be_opened_takes_its_batches_once_when_it_can(disk: FaultyFiles) -> None:
    before = opened(disk)
    journal(before)
    before.close()
    log = unopened(disk)
    log.inherit(batches_at(0, 2))
    disk.refuse_to_open(".log")
    with pytest.raises(StorageError):
        log.recover()
    assert (log.is_open, log.has_behind, log.is_synced) == (False, True, True)
    disk.read_fault = None
    log.fail_back()
    assert loaded(log) == [0, 1, 2]
    log.recover()
    assert (loaded(log), log.written_offset) == ([0, 1, 2], 3)


def test_without_room_at_a_start_a_log_is_open_can_be_loaded_and_takes_nothing(disk: FaultyFiles) -> None:
    before = opened(disk)
    journal(before, 2)
    before.close()
    log = unopened(disk)
    log.inherit(batches_at(0, 4))
    disk.run_out_of_room(250)  # For the end of the segment, which is written again; not for what is behind.
    log.recover()
    assert log.is_open
    assert log.failure is not None
    assert log.failure.is_no_room
    assert (log.durable_offset, log.written_offset, loaded(log)) == (5, 2, [0, 1, 2, 3, 4])
    with pytest.raises(StorageError):
        log.append(batch(), wall_ms=NOW_MS)
    with pytest.raises(StorageError):
        log.fail_back()
    assert loaded(log) == [0, 1, 2, 3, 4]
    disk.fault = None
    log.fail_back()
    assert log.failure is None
    journal(log)
    log.write_behind()
    assert (log.written_offset, loaded(log)) == (6, [0, 1, 2, 3, 4, 5])


def test_without_room_at_a_start_producers_are_those_of_what_is_behind_too(disk: FaultyFiles) -> None:
    first = Shards(disk.root, disk, 1).opened()
    known(first.logs[0])
    put(first.logs[0], 1, 0)
    put(first.logs[0], 2, 7)
    end(first.logs[0], 1, commit=False)
    first.journal.write(first.logs)
    disk.run_out_of_room()
    log = first.again().opened().logs[0]
    assert log.failure is not None
    producers = dict(known(log).items())
    assert (producers[1].transaction_start, producers[2].transaction_start) == (None, 1)
    assert producers[2].last_sequence == 7
    disk.fault = None
    log.fail_back()
    assert known(log).first_unstable_offset == 1
    assert [each.producer_id for each in log.producers.aborted(0, 3)] == [1]


def test_another_failure_at_a_start_is_the_caller_s(disk: FaultyFiles) -> None:
    log = unopened(disk)
    log.inherit(batches_at(0, 0))
    disk.fault = failing_writes(errno.EIO)
    with pytest.raises(StorageError):
        log.recover()
    disk.fault = None
    log.fail_back()
    assert loaded(log) == [0]


# Failures.


def test_after_a_failed_frame_what_was_staged_is_gone_and_the_offsets_are_given_again(
    disk: FaultyFiles,
) -> None:
    log = opened(disk)
    journal(log, 2)
    log.append(batch(), wall_ms=NOW_MS)
    log.take_staged()
    log.frame_failed(BROKEN)
    log.frame_failed(StorageError("write", Path("journal"), "another", errno.ENOSPC))
    assert log.failure is BROKEN
    for refused in (lambda: log.append(batch(), wall_ms=NOW_MS), log.take_staged, log.write_behind):
        with pytest.raises(StorageError):
            refused()
    log.fail_back()
    assert (log.next_offset, log.durable_offset, log.written_offset) == (2, 2, 2)
    journal(log)
    log.write_behind()
    assert loaded(log) == [0, 1, 2]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_what_could_not_be_written_behind_counts_and_is_written_later(disk: FaultyFiles, number: int) -> None:
    log = opened(disk)
    journal(log)
    log.write_behind()
    journal(log, 2)
    log.append(batch(), wall_ms=NOW_MS)
    disk.fault = failing_writes(number)
    with pytest.raises(StorageError):
        log.write_behind()
    assert (log.durable_offset, log.written_offset, loaded(log)) == (3, 1, [0, 1, 2])
    disk.fault = None
    log.fail_back()
    assert (log.next_offset, log.written_offset, log.has_behind) == (3, 3, False)
    assert loaded(log) == [0, 1, 2]


def test_a_torn_write_behind_leaves_no_batch_twice_and_none_out(disk: FaultyFiles) -> None:
    """Segments take four batches or so: some of what is behind is in the first, and the second cannot be made."""
    log = opened(disk)
    journal(log, 30)
    left = [3]

    def fault(operation: Operation) -> OSError | None:
        if operation.name == "create" and operation.path.name.endswith(".log"):
            left[0] -= 1
            return OSError(errno.ENOSPC, "fault") if left[0] == 0 else None
        return None

    disk.fault = fault
    with pytest.raises(StorageError):
        log.write_behind()
    assert 0 < log.written_offset < 30
    assert loaded(log) == list(range(30))
    log.fail_back()
    assert (log.written_offset, loaded(log)) == (30, list(range(30)))


# The end.


def test_a_clean_stop_writes_what_is_behind_and_drops_what_was_never_in_the_journal(
    disk: FaultyFiles,
) -> None:
    log = opened(disk)
    known(log)
    put(log, 1, 0)
    log.journaled(log.take_staged())
    put(log, 1, 1)
    log.close()
    disk.crash()
    after = opened(disk)
    assert loaded(after) == [0]
    assert dict(known(after).items())[1].last_sequence == 0


def test_the_log_of_a_shard_is_never_truncated(disk: FaultyFiles) -> None:
    with pytest.raises(AssertionError, match="never truncated: t-0 to 0"):
        opened(disk).truncate_to(0)


def test_nothing_is_inherited_by_a_log_that_is_open(disk: FaultyFiles) -> None:
    with pytest.raises(AssertionError, match="before it is opened"):
        opened(disk).inherit(batches_at(0, 0))


def test_producers_of_a_log_without_segments_are_those_of_what_it_inherits(disk: FaultyFiles) -> None:
    log = opened(disk)
    known(log)
    put(log, 1, 0)
    taken = log.take_staged()
    after = StagedLog(log.directory, OS_SMALL, disk, Opening(is_replayed=True))
    after.inherit([memoryview(each.data) for each in taken])
    after.recover()
    assert after.producers.state is None, "not known before it is read"
    known(after)
    assert after.producers.last_stable_offset == 0
