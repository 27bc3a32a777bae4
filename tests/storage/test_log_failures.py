"""What a log does when its disk fails: it stops, cuts back to what is durable, and goes on."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from storage.files import CorruptSegment, StorageError
from storage.log.config import LogConfig
from storage.log.partition_log import Appended, PartitionLog
from tests.storage.logs import NOW_MS, OS_SMALL, SMALL, all_spans, batch, fill, open_log, reopen, spans

EVERYTHING = 1 << 30


def test_a_failed_flush_fails_the_log_until_it_is_cut_back(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", SMALL, files)
    fill(log, 2)
    size_bytes = log.segments[0].path.stat().st_size
    log.append(batch(), wall_ms=NOW_MS)
    files.fail_always("sync", errno.EIO)
    with pytest.raises(StorageError, match=r"sync .*log: Input/output error"):
        log.flush()
    files.fault = None
    with pytest.raises(StorageError):
        log.append(batch(), wall_ms=NOW_MS)
    with pytest.raises(StorageError):
        log.flush()
    assert spans(log.read(0, EVERYTHING)) == [(0, 0), (1, 1)]

    log.fail_back()
    assert log.segments[0].path.stat().st_size == size_bytes
    assert log.append(batch(), wall_ms=NOW_MS) == Appended(2, 2)
    log.flush()
    assert all_spans(log) == [(0, 0), (1, 1), (2, 2)]


def test_cutting_back_syncs_by_a_new_descriptor_what_it_keeps(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", SMALL, files)
    fill(log, 2)
    old = log.segments[0].file
    log.append(batch(), wall_ms=NOW_MS)
    files.fail_always("sync")
    with pytest.raises(StorageError):
        log.flush()
    files.fault = None
    files.operations.clear()
    log.fail_back()
    assert log.segments[0].file is not old
    name = "00000000000000000000.log"
    assert files.history(".log") == [f"truncate {name}", f"write {name}", f"sync {name}"]


def test_a_disk_that_still_fails_keeps_the_log_failed(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", SMALL, files)
    fill(log, 2)
    log.append(batch(), wall_ms=NOW_MS)
    files.fail_always("sync")
    with pytest.raises(StorageError):
        log.flush()
    with pytest.raises(StorageError):
        log.fail_back()
    assert log.failure is not None


def test_any_operation_of_a_flush_may_fail_and_nothing_durable_is_lost(tmp_path: Path) -> None:
    """The first flush and a roll, with each of their operations failing once.

    What failed may be there all the same (the operation may have been one on an index, after the sync).
    """
    for nth in range(60):
        directory = tmp_path / f"t-{nth}"
        files = FaultyFiles(tmp_path)
        log = open_log(directory, SMALL, files)
        files.fail(nth, errno.ENOSPC)
        failures = 0
        for _ in range(12):
            try:
                log.append(batch(), wall_ms=NOW_MS)
                log.flush()
            except StorageError:
                failures += 1
                log.fail_back()
        files.fault = None
        count = log.durable_offset
        assert failures <= 1
        assert 12 - failures <= count <= 12
        assert all_spans(log) == [(n, n) for n in range(count)]
        reopened = reopen(log)
        assert (reopened.recovered.cut_bytes, all_spans(reopened)) == (0, [(n, n) for n in range(count)])
        if not failures:
            return
    pytest.fail("a flush has fewer operations than this")


def test_writes_that_come_out_short_are_finished(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    files.write_short(7)
    log = open_log(tmp_path / "t-0", SMALL, files)
    fill(log, 12, per_flush=3)
    assert all_spans(log) == [(n, n) for n in range(12)]


def test_a_segment_that_could_not_be_begun_leaves_nothing_that_would_end_the_log(tmp_path: Path) -> None:
    """The roll fails between its files; then a smaller batch goes into the old segment after all."""
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", SMALL, files)
    fill(log, 10)
    files.fault = lambda op: (
        OSError(errno.ENOSPC, "full") if (op.name, op.path.suffix) == ("create", ".timeindex") else None
    )
    log.append(batch(size_bytes=200), wall_ms=NOW_MS)
    with pytest.raises(StorageError):
        log.flush()
    assert len(log.segments) == 1, "the batch asked for a new segment"
    files.fault = None
    log.fail_back()
    fill(log, 1)
    assert len(log.segments) == 1
    assert all_spans(reopen(log)) == [(n, n) for n in range(11)]


def test_what_a_failed_sync_dropped_is_written_again_under_the_os_policy(tmp_path: Path) -> None:
    """The pages count as clean: the sync that follows would prove nothing, and the recovery point would lie."""
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", replace(OS_SMALL, segment_bytes=1 << 20), files)
    fill(log, 400)
    assert log.size_bytes > 3 * 4096
    files.fail_always("sync")
    with pytest.raises(StorageError):
        log.roll(NOW_MS)
    files.fault = None
    log.fail_back()
    files.crash()
    again = PartitionLog.open(log.directory, SMALL, files, recovery_point=log.recovery_point)
    assert len(all_spans(again)) == log.recovery_point == 400


def test_what_a_failed_sync_lost_for_good_is_corruption_with_its_byte(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", replace(OS_SMALL, segment_bytes=1 << 20), files)
    fill(log, 400)
    active = log.segments[-1]
    files.fail_always("sync")
    with pytest.raises(StorageError):
        log.roll(NOW_MS)
    files.fault = None
    files.flips[active.path] = {2 * len(batch()) + 70: 1}  # The page was let go, and is read from the disk.
    with pytest.raises(CorruptSegment) as corrupt:
        log.fail_back()
    assert (corrupt.value.path, corrupt.value.byte) == (active.path, 2 * len(batch()))
    assert log.failure is not None


def test_a_restart_after_a_failed_sync_proves_what_it_shows(tmp_path: Path) -> None:
    """The process died with pages that count as clean and are not on the disk; then the power goes."""
    files = FaultyFiles(tmp_path)
    config = replace(SMALL, segment_bytes=1 << 20)
    log = open_log(tmp_path / "t-0", config, files)
    fill(log, 2)
    log.append(batch(size_bytes=20_000), wall_ms=NOW_MS)
    files.fail_always("sync")
    with pytest.raises(StorageError):
        log.flush()
    files.fault = None
    again = PartitionLog.open(log.directory, config, files, recovery_point=2)
    shown = all_spans(again)
    assert shown == [(0, 0), (1, 1), (2, 2)], "an unacknowledged batch may be there"
    files.crash()
    assert all_spans(open_log(log.directory, config, files)) == shown


@pytest.mark.parametrize("config", [SMALL, OS_SMALL])
@pytest.mark.parametrize("caller", ["flush", "roll", "close", "make_directory"])
def test_no_failed_sync_is_tried_again_as_if_it_had_not_failed(
    tmp_path: Path, config: LogConfig, caller: str
) -> None:
    """After any sync of a caller has failed, the log takes nothing and syncs nothing until it is cut back."""
    for nth in range(20):
        files = FaultyFiles(tmp_path)
        log = open_log(tmp_path / f"{caller}-{nth}", config, files)
        if caller != "make_directory":
            fill(log, 3)
            log.append(batch(), wall_ms=NOW_MS)
        left = iter(range(nth))

        def broken(op: Operation, left: Iterator[int] = left) -> OSError | None:
            is_next = op.name == "sync" and next(left, None) is None
            return OSError(errno.EIO, "broken") if is_next else None

        files.fault = broken
        roll = partial(log.roll, NOW_MS)
        calls: dict[str, Callable[[], object]] = {"flush": log.flush, "roll": roll, "close": log.close}
        try:
            calls.get(caller, log.make_directory)()
        except StorageError:
            files.fault = None
        else:
            assert nth > 0 or (config, caller) == (OS_SMALL, "flush")
            return
        files.operations.clear()
        uses: list[Callable[[], object]] = [log.flush, partial(log.append, batch(), wall_ms=NOW_MS)]
        for use in uses:
            with pytest.raises(StorageError):
                use()
        log.close()
        assert files.operations == [], "a failed log is left as it is"
        files.crash()
        again = PartitionLog.open(log.directory, config, files, recovery_point=log.recovery_point)
        assert again.next_offset >= log.recovery_point, "nothing counts as synced that was not"
    pytest.fail("a call has fewer syncs than this")
