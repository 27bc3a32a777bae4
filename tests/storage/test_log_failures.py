"""What a log does when its disk fails: it stops, cuts back to what is durable, and goes on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from storage.files import StorageError
from storage.partition_log import Appended
from tests.storage.faulty_files import FaultyFiles
from tests.storage.logs import NOW_MS, SMALL, all_spans, batch, fill, open_log, reopen, spans

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
