"""The life of a log's files: where each trigger leads, and what a log refuses in each state."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.files import StorageError
from storage.log.lifecycle import TRANSITIONS, LifeTrigger, LogLife
from storage.log.partition_log import PartitionLog
from tests.storage.logs import NOW_MS, SMALL, all_spans, batch, fill, open_log

UNOPENED, OPEN, FAILED, ABANDONED = LogLife
WHERE_TO = {
    UNOPENED: {LifeTrigger.OPENED: OPEN, LifeTrigger.FAILED: UNOPENED},
    OPEN: {LifeTrigger.FAILED: FAILED, LifeTrigger.CUT_BACK: OPEN},
    FAILED: {LifeTrigger.CUT_BACK: OPEN},
    ABANDONED: {},
}


@pytest.mark.parametrize("state", LogLife)
@pytest.mark.parametrize("trigger", LifeTrigger)
def test_every_state_knows_where_every_trigger_leads(state: LogLife, trigger: LifeTrigger) -> None:
    expected = ABANDONED if trigger is LifeTrigger.ABANDONED else WHERE_TO[state].get(trigger)
    assert TRANSITIONS.get((state, trigger)) is expected


def stands(log: PartitionLog, state: LogLife, *, reads: bool, writes: bool) -> None:
    """Whether a log is in a state, and says and does what belongs to it."""
    assert log.life.state is state
    assert (log.is_open, log.failure is None) == (reads, writes)
    if not reads:
        with pytest.raises(StorageError):
            log.find(0, 1)
    if not writes:
        with pytest.raises(StorageError):
            log.append(batch(), wall_ms=NOW_MS)
        with pytest.raises(StorageError):
            log.flush()


def test_a_log_refuses_what_its_state_does_not_allow(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = PartitionLog(tmp_path / "t-0", SMALL, files)
    stands(log, UNOPENED, reads=False, writes=False)
    log.recover()
    fill(log, 2)
    stands(log, OPEN, reads=True, writes=True)
    log.append(batch(), wall_ms=NOW_MS)
    files.fail_always("sync")
    with pytest.raises(StorageError):
        log.flush()
    stands(log, FAILED, reads=True, writes=False)
    with pytest.raises(StorageError):
        log.fail_back()
    stands(log, FAILED, reads=True, writes=False)
    files.fault = None
    log.fail_back()
    stands(log, OPEN, reads=True, writes=True)
    log.abandon()
    stands(log, ABANDONED, reads=True, writes=False)
    assert all_spans(log) == [(0, 0), (1, 1)]


def test_a_log_that_was_deleted_is_not_brought_back(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    fill(log, 1)
    log.abandon()
    with pytest.raises(StorageError, match="the partition was deleted"):
        log.fail_back()
    stands(log, ABANDONED, reads=True, writes=False)
