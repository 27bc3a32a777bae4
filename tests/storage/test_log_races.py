"""A log is read, written, cleaned and shortened by several threads: what one does between two steps of another.

The other thread's work is done at that very point, so that each order is tried and none is left to luck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from storage.cleaning.compaction import LogChanged
from storage.files import Files, StorageError
from storage.log.log_reader import OffsetOutOfRange
from storage.log.opening import Opening
from storage.log.partition_log import PartitionLog
from storage.log.segment import Segment
from storage.log.writer import LogWriter
from tests.storage.cleaning import COMPACTED, clean, open_compacted, put, roll, table
from tests.storage.logs import NOW_MS, SMALL, fill, spans

LAST_SEGMENT = 22  # The base offset of the newest of three.


class Overtaken(PartitionLog):
    """A log that something happens to in the middle of a read: before the range is checked, or right behind."""

    before_check: Callable[[], None] | None = None
    behind_check: Callable[[], None] | None = None
    _start = 0

    @property
    def log_start_offset(self) -> int:
        """What the check of the range looks at."""
        before, self.before_check = self.before_check, None
        if before is not None:
            before()
        start = self._start
        behind, self.behind_check = self.behind_check, None
        if behind is not None:
            behind()
        return start

    @log_start_offset.setter
    def log_start_offset(self, offset: int) -> None:
        self._start = offset

    def drop_all_but_the_last(self) -> None:
        """What the retention does, on its thread."""
        self.advance_start(LAST_SEGMENT)
        assert self.apply_retention(NOW_MS, only_below_start=True) == 2


@pytest.fixture
def log(tmp_path: Path) -> Overtaken:
    log = Overtaken(tmp_path / "t-0", SMALL, Files(), Opening())
    log.recover()
    fill(log, 25)
    assert [segment.base_offset for segment in log.segments] == [0, 11, LAST_SEGMENT]
    return log


@pytest.mark.parametrize("offset", [0, 5, 11, 21])
@pytest.mark.parametrize("read", ["find", "find_nowait"])
def test_a_read_that_the_retention_overtakes_gets_what_it_asked_for(
    log: Overtaken, offset: int, read: str
) -> None:
    """Its offset was in range: it reads the deleted segment, and never gets later records instead."""
    log.behind_check = log.drop_all_but_the_last
    found = getattr(log, read)(offset, 1)
    assert found is not None
    assert spans(found.whole()) == [(offset, offset)]
    assert [segment.base_offset for segment in log.segments] == [LAST_SEGMENT]


@pytest.mark.parametrize("read", ["find", "find_nowait"])
def test_a_read_that_comes_behind_the_retention_is_refused(log: Overtaken, read: str) -> None:
    log.before_check = log.drop_all_but_the_last
    with pytest.raises(OffsetOutOfRange):
        getattr(log, read)(5, 1)


class Watched:
    """The writer of a log, with methods of the test in place of some: compiled, its own cannot be replaced."""

    def __init__(self, writer: LogWriter, **methods: Callable[..., None]) -> None:
        self.__dict__.update(methods, _writer=writer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._writer, name, value)


def test_the_start_of_a_log_moves_before_its_segments_go(
    log: Overtaken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a read in between finds its offset in range, and the records behind it instead."""
    drop_first, refused = log._writer.drop_first, []

    def watched(count: int) -> None:
        drop_first(count)
        with pytest.raises(OffsetOutOfRange) as refusal:
            log.find(5, 1)
        refused.append(refusal.value)

    monkeypatch.setattr(log, "_writer", Watched(log._writer, drop_first=watched))
    log.config = replace(SMALL, retention_bytes=1)
    assert log.apply_retention(NOW_MS) == 2
    assert len(refused) == 1
    assert log.log_start_offset == LAST_SEGMENT


# A cleaned segment takes the place of others.


@pytest.fixture
def dirty(tmp_path: Path) -> PartitionLog:
    return filled(open_compacted(tmp_path / "c-0"))


def filled(log: PartitionLog) -> PartitionLog:
    """Two sealed segments of which a cleaning makes one, and one that is written."""
    for value in ("1", "2"):
        put(log, ("a", value), ("b", "x"))
        roll(log)
    put(log, ("c", "y"))
    return log


def test_segments_are_replaced_while_no_flush_is_under_way(
    dirty: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A roll at the same time would have its segment forgotten, with all that is written to it."""
    held: list[bool] = []
    replace_them = dirty._writer.replace

    def watched(old: Sequence[Segment], new: Segment) -> None:
        held.append(dirty._disk.locked())
        replace_them(old, new)

    monkeypatch.setattr(dirty, "_writer", Watched(dirty._writer, replace=watched))
    clean(dirty)
    assert held == [True]
    assert table(dirty) == {"a": "2", "b": "x", "c": "y"}


def test_a_log_that_has_failed_meanwhile_is_not_cleaned(tmp_path: Path) -> None:
    """What its files hold is not known until it has been cut back: nothing of them may be replaced."""
    files = FaultyFiles(tmp_path)
    log = filled(PartitionLog.open(tmp_path / "c-0", COMPACTED, files))
    before = log.segments
    names = sorted(path.name for path in log.directory.iterdir())

    def broken(operation: Operation) -> OSError | None:
        return OSError(5, "Input/output error") if operation.name == "sync" else None

    files.fault = broken
    with pytest.raises(StorageError, match="Input/output error"):
        put(log, ("c", "z"))
    files.fault = None
    with pytest.raises(LogChanged):
        clean(log, files)
    assert log.segments == before
    left = {path.name for path in log.directory.iterdir()} - set(names)
    assert left == {f"{0:020d}.log.cleaned"}, "what nothing means, and the next start removes"
    log.fail_back()
    clean(log, files)
    assert table(log) == {"a": "2", "b": "x", "c": "y"}


def test_segments_that_went_meanwhile_are_not_brought_back_by_a_cleaning(tmp_path: Path) -> None:
    log = filled(open_compacted(tmp_path / "c-0"))
    old = log.segments[:2]
    draft = Segment.draft(Files(), log.directory, 0, 200, NOW_MS)
    draft.finish_draft(old[-1].next_offset)
    log.advance_start(old[-1].next_offset)
    assert log.apply_retention(NOW_MS, only_below_start=True) == 2
    assert not log.replace(old, draft)
    assert [segment.base_offset for segment in log.segments] == [4]
