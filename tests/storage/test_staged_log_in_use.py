"""The log of a shard in use: who is answered when, who is shown what, and who hears of a failure behind it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from protocol.errors import ErrorCode
from storage.files import OnFlushed, StorageError
from storage.log.durable_log import DurableLog, LogHost
from storage.log.log_states import RECOVERING_FULL
from storage.log.staged_log import StagedLog
from tests.storage.journals import Shards
from tests.storage.logs import NOW_MS, batch


@pytest.fixture
def disk(tmp_path: Path) -> FaultyFiles:
    (tmp_path / "disk").mkdir()
    return FaultyFiles(tmp_path / "disk")


def failing_writes(suffix: str, number: int) -> Callable[[Operation], OSError | None]:
    def fault(operation: Operation) -> OSError | None:
        if operation.name == "write" and operation.path.name.endswith(suffix):
            return OSError(number, "fault")
        return None

    return fault


class InUse:
    """A log in use and its owner, on a journal; a frame is written when it is asked for."""

    def __init__(self, disk: FaultyFiles) -> None:
        self.shards = Shards(disk.root, disk, 1).opened()
        self.log = self.shards.logs[0]
        self.answers: list[ErrorCode] = []
        self.failed: list[Exception | None] = []
        self.shown: list[bytes] = []  # What a reader finds whenever it is called.
        ignore = cast(Callable[[Any, StorageError], None], lambda log, error: None)
        host = LogHost(lambda: 0, lambda owner, key, at: None, self._write, ignore, lambda log: None)
        self.durable = DurableLog(self.log, host)
        self.durable.claim(self)
        self.durable.recovered()
        self.durable.listeners.append(lambda: self.shown.append(bytes(self.log.read(0, 10_000))))

    def _write(self, log: StagedLog, done: OnFlushed) -> None:
        done(self.shards.journal.write([log]).get(log))

    def commit(self) -> None:
        self.durable.append(batch(), NOW_MS)
        self.durable.when_durable(self.log.next_offset, self.answers.append)
        self.durable.flush()

    def write_behind(self) -> None:
        for log, error in self.shards.journal.write_behind():
            log.on_written(error)

    def stage(self) -> None:
        """Nothing is gathered."""

    def on_failed(self, error: Exception | None) -> ErrorCode:
        self.failed.append(error)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    def recover(self, answer: ErrorCode) -> None:
        """When the test says so."""

    def on_resumed(self) -> None:
        """The test asks the log."""


def test_readers_are_called_when_there_is_something_to_read_and_not_before(disk: FaultyFiles) -> None:
    world = InUse(disk)
    world.commit()
    world.commit()
    assert world.answers == [ErrorCode.NONE] * 2
    assert (world.shown, world.durable.flushed_bytes) == ([], 0)
    world.write_behind()
    assert [len(data) for data in world.shown] == [2 * len(batch())]
    assert world.durable.flushed_bytes == world.durable.staged_bytes == 2 * len(batch())


def test_what_fails_behind_the_log_is_told_its_owner_and_what_was_answered_stays(disk: FaultyFiles) -> None:
    world = InUse(disk)
    world.commit()
    disk.fault = failing_writes(".log", errno.ENOSPC)
    world.write_behind()
    assert world.failed == [world.log.failure]
    assert world.durable.state is RECOVERING_FULL
    disk.fault = None
    world.log.fail_back()
    world.durable.recovered()
    assert (world.durable.durable_offset, world.shards.offsets()) == (1, [0])


def test_a_report_that_comes_when_the_log_serves_again_does_not_fail_it_once_more(disk: FaultyFiles) -> None:
    """A checkpoint reports a log when it is through with all the others; a frame may have said so long before."""
    world = InUse(disk)
    world.commit()
    disk.fault = failing_writes(".log", errno.EIO)
    ((log, error),) = world.shards.journal.write_behind()
    with pytest.raises(StorageError):
        world.commit()
    assert len(world.failed) == 1
    disk.fault = None
    log.fail_back()
    world.durable.recovered()
    log.on_written(error)
    assert len(world.failed) == 1
    world.commit()
    assert world.answers[-1] is ErrorCode.NONE


def test_a_commit_whose_frame_failed_is_answered_with_an_error(disk: FaultyFiles) -> None:
    world = InUse(disk)
    world.commit()
    disk.fault = failing_writes(".journal", errno.EIO)
    world.commit()
    assert world.answers == [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    disk.fault = None
    world.log.fail_back()
    world.durable.recovered()
    world.commit()
    assert world.answers[-1] is ErrorCode.NONE
    assert world.shards.offsets() == [0, 1]


def test_a_log_that_is_released_is_idle_once_all_that_counts_is_in_its_segments(disk: FaultyFiles) -> None:
    """Another node reads the segments: it must not miss what is in this one's journal."""
    world = InUse(disk)
    world.commit()
    world.durable.release(ErrorCode.NOT_COORDINATOR)
    idle: list[int] = []
    world.durable.when_idle(lambda: idle.append(len(world.shards.offsets())))
    assert idle == []
    world.write_behind()
    assert idle == [1]
