"""Which log the cleaner takes, when, and what it makes of a failure."""

from __future__ import annotations

import errno
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.settings.model import Settings
from coordinator.upkeep.cleaner import Cleaner
from coordinator.upkeep.cleaner_pace import REST_S, WORK_S, CleaningStopped, Pace
from harness.doubles.faulty_files import FaultyFiles, Operation
from harness.processes import wait_until
from protocol.records.compression import MAX_INFLATED_BYTES
from storage.cleaning.compaction import Compaction, CompactionLimits
from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.checkpoints import CLEANED
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from tests.storage.bombs import BOMB_BYTES, bomb
from tests.storage.cleaning import COMPACTED, NOW_MS, batches, clean, put, roll, table, texts

SETTINGS = Settings(log_cleaner_backoff_ms=1)


@pytest.fixture
def files(tmp_path: Path) -> FaultyFiles:
    (tmp_path / "logs").mkdir()
    return FaultyFiles(tmp_path)


@pytest.fixture
def directory(tmp_path: Path, files: FaultyFiles) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(tmp_path / "logs", files, node_id=1)
    yield directory
    files.fault = None
    directory.close()


def cleaner(directory: LogDirectory, files: Files, settings: Settings = SETTINGS) -> Cleaner:
    return at(NOW_MS, directory, files, settings)


def at(wall_ms: int, directory: LogDirectory, files: Files, settings: Settings = SETTINGS) -> Cleaner:
    return Cleaner(directory, files, settings, lambda: wall_ms)


def dirty(directory: LogDirectory, topic: str, commits: int, config: LogConfig = COMPACTED) -> PartitionLog:
    """A log of one key, all of it in sealed segments but for the last."""
    log = directory.open_log(topic, 0, replace(config, segment_bytes=10_000))
    for number in range(commits):
        put(log, ("a", str(number)))
    roll(log)
    put(log, ("b", "1"))
    return log


def test_the_dirtiest_log_comes_first_and_clean_ones_not_at_all(
    directory: LogDirectory, files: FaultyFiles, tmp_path: Path
) -> None:
    half = dirty(directory, "half", 10)
    directory.set_cleaned(directory.compacted_logs()[0][0], half, clean(half, files).end_offset)
    for number in range(12):
        put(half, ("a", f"{number}"))
    roll(half)
    whole = dirty(directory, "whole", 10)
    put_only = dirty(directory, "deleted-only", 10, replace(COMPACTED, is_compacted=False))
    picky = dirty(directory, "picky", 10, replace(COMPACTED, min_cleanable_ratio=1.0))
    with capture_logs() as logs:
        assert cleaner(directory, files).clean_all() == 2
    assert [line["partition"] for line in logs] == ["whole-0", "half-0"]
    assert [len(texts(log)) for log in (whole, put_only, picky)] == [2, 11, 11]
    text = (tmp_path / "logs" / CLEANED).read_text()
    assert sorted(text.splitlines()[2:]) == ["half 0 23", "whole 0 10"]
    assert cleaner(directory, files).clean_all() == 0


def test_a_log_that_is_overdue_is_cleaned_whatever_its_ratio(
    directory: LogDirectory, files: FaultyFiles
) -> None:
    config = replace(COMPACTED, min_cleanable_ratio=1.0, max_compaction_lag_ms=1000)
    log = dirty(directory, "late", 3, config)
    assert cleaner(directory, files).clean_all() == 0
    assert at(NOW_MS + 1001, directory, files).clean_all() == 1
    assert len(texts(log)) == 2


def test_how_long_producers_are_known_follows_the_settings(
    directory: LogDirectory, files: FaultyFiles
) -> None:
    """An empty batch stays of a producer that may come back; the setting may change between two cleanings."""
    log = directory.open_log("p", 0, replace(COMPACTED, segment_bytes=10_000))
    put(log, ("a", "0"), producer_id=9, producer_epoch=0, base_sequence=0)
    made = at(NOW_MS + 1000, directory, files)
    for expiration_ms, known in ((1001, [9]), (1000, [])):
        made.alter(SETTINGS.model_copy(update={"producer_id_expiration_ms": expiration_ms}))
        for number in range(5):
            put(log, ("a", str(number)))
        roll(log)
        put(log, ("b", "1"))
        assert made.clean_all() == 1
        assert [each.producer_id for each in batches(log) if each.producer_id >= 0] == known


def test_the_threads_share_one_buffer_for_keys(
    directory: LogDirectory, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers: list[int] = []

    class Watched(Compaction):
        def __init__(self, *args: Any, limits: CompactionLimits, **named: Any) -> None:
            buffers.append(limits.buffer_bytes)
            super().__init__(*args, limits=limits, **named)

    monkeypatch.setattr("coordinator.upkeep.cleaner.Compaction", Watched)
    dirty(directory, "dirty", 3)
    settings = SETTINGS.model_copy(
        update={"log_cleaner_threads": 4, "log_cleaner_dedupe_buffer_size": 40_000_000}
    )
    assert cleaner(directory, files, settings).clean_all() == 1
    assert buffers == [10_000_000]


def test_a_failure_is_logged_once_and_the_log_serves_on(directory: LogDirectory, files: FaultyFiles) -> None:
    bad, good = dirty(directory, "bad", 10), dirty(directory, "good", 5)
    segment = bad.segments[0]
    data = bytearray(segment.path.read_bytes())
    data[-1] ^= 1
    segment.path.write_bytes(data)
    made = cleaner(directory, files)
    with capture_logs() as logs:
        assert [made.clean_all(), made.clean_all()] == [2, 0]
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["partition"] == "bad-0"
    assert str(segment.path) in line["error"]
    assert bad.failure is None
    put(bad, ("c", "1"))
    assert table(good) == {"a": "4", "b": "1"}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_full_disk_is_waited_for_and_a_broken_one_is_not(
    directory: LogDirectory, files: FaultyFiles, number: int
) -> None:
    log = dirty(directory, "c", 10)

    def fault(operation: Operation) -> OSError | None:
        is_draft = operation.path.suffix == ".cleaned"
        return OSError(number, "no") if is_draft and operation.name == "write" else None

    files.fault = fault
    made = cleaner(directory, files)
    assert made.clean_all() == 1
    files.fault = None
    assert made.clean_all() == (1 if number == errno.ENOSPC else 0)
    assert len(texts(log)) == (2 if number == errno.ENOSPC else 11)
    assert table(log) == {"a": "9", "b": "1"}


def test_a_deleted_log_is_no_failure(directory: LogDirectory, files: FaultyFiles) -> None:
    dirty(directory, "gone", 10)

    def fault(operation: Operation) -> None:
        if operation.path.suffix == ".cleaned" and operation.name == "write":
            files.fault = None
            directory.delete_log("gone", 0)

    files.fault = fault
    with capture_logs() as logs:
        assert cleaner(directory, files).clean_all() == 1
    assert [line for line in logs if line["log_level"] != "debug"] == []


def test_threads_clean_until_they_are_stopped(directory: LogDirectory, files: FaultyFiles) -> None:
    logs = [dirty(directory, f"c{number}", 5) for number in range(3)]
    made = cleaner(directory, files, SETTINGS.model_copy(update={"log_cleaner_threads": 2}))
    made.start()
    wait_until(lambda: all(len(texts(log)) == 2 for log in logs), "all are cleaned", 10)
    made.stop()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cleaner-")]


def test_it_can_be_stopped_where_the_system_gave_no_thread(
    directory: LogDirectory, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    made = cleaner(directory, files)
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError):
        made.start()
    made.stop()
    assert made.threads == 0


def cleaner_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("cleaner-")}


def test_threads_come_and_go_with_the_settings(directory: LogDirectory, files: FaultyFiles) -> None:
    made = cleaner(directory, files)
    made.alter(SETTINGS.model_copy(update={"log_cleaner_threads": 2}))
    assert cleaner_threads() == set()  # It was not started.
    made.start()
    assert cleaner_threads() == {"cleaner-0", "cleaner-1"}
    made.alter(SETTINGS.model_copy(update={"log_cleaner_threads": 4}))
    assert cleaner_threads() == {f"cleaner-{number}" for number in range(4)}
    made.alter(SETTINGS)
    wait_until(lambda: cleaner_threads() == {"cleaner-0"}, "the surplus has ended", 10)
    made.alter(SETTINGS.model_copy(update={"log_cleaner_threads": 2}))
    wait_until(lambda: cleaner_threads() == {"cleaner-0", "cleaner-1"}, "it is back", 10)
    made.stop()
    assert cleaner_threads() == set()


def test_a_shorter_backoff_is_not_waited_for(
    directory: LogDirectory, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cleaner(directory, files, SETTINGS.model_copy(update={"log_cleaner_backoff_ms": 10**15}))
    rounds: list[int] = []
    clean_all = made.clean_all
    monkeypatch.setattr(made, "clean_all", lambda: rounds.append(clean_all()))
    made.start()
    wait_until(lambda: rounds, "nothing was to be cleaned", 10)
    log = dirty(directory, "c", 5)
    made.alter(SETTINGS)
    wait_until(lambda: len(texts(log)) == 2, "it is cleaned", 10)
    made.stop()


def test_it_looks_again_as_soon_as_its_backoff_says(
    directory: LogDirectory, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cleaner(directory, files)
    rounds: list[int] = []
    clean_all = made.clean_all
    monkeypatch.setattr(made, "clean_all", lambda: rounds.append(clean_all()))
    made.start()
    wait_until(lambda: rounds, "nothing was to be cleaned", 10)
    log = dirty(directory, "c", 5)
    wait_until(lambda: len(texts(log)) == 2, "it is cleaned, long before the 15 s of the default", 10)
    made.stop()


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_nothing_could_be_done_at_limits_nothing(rate: float) -> None:
    pace = Pace(threading.Event(), lambda: rate)
    began = time.monotonic()
    time.sleep(WORK_S)
    pace(10**9)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("rate", [1e-9, 5e-324])
def test_a_thread_that_waits_for_its_rate_goes_on_when_the_rate_rises(
    directory: LogDirectory, files: FaultyFiles, rate: float
) -> None:
    """At such rates a wait would be longer than any that a lock can wait for."""
    log = dirty(directory, "c", 500)
    slow = SETTINGS.model_copy(update={"log_cleaner_io_max_bytes_per_second": rate})
    made = cleaner(directory, files, slow)
    made.start()
    wait_until(lambda: made._busy, "it is at work", 10)
    time.sleep(0.05)  # Long enough for what such a wait would raise.
    assert len(texts(log)) == 501
    made.alter(SETTINGS)
    wait_until(lambda: len(texts(log)) == 2, "it is cleaned", 10)
    made.stop()


def test_a_stop_breaks_a_cleaning_off(directory: LogDirectory, files: FaultyFiles) -> None:
    log = dirty(directory, "c", 500)  # So many that a cleaning takes longer than one piece of work.
    made = cleaner(directory, files, SETTINGS.model_copy(update={"log_cleaner_io_max_bytes_per_second": 1.0}))
    made.start()
    began = time.monotonic()
    wait_until(lambda: made._busy, "it is at work", 10)
    made.stop()
    assert time.monotonic() - began < 10  # At a byte a second the log would take many minutes.
    assert len(texts(log)) == 501


def test_it_can_be_switched_off(directory: LogDirectory, files: FaultyFiles) -> None:
    made = cleaner(directory, files, SETTINGS.model_copy(update={"log_cleaner_enable": False}))
    made.start()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cleaner-")]
    made.stop()


def test_the_pace_rests_between_pieces_of_work_and_keeps_to_its_bytes() -> None:
    stopping = threading.Event()
    pace = Pace(stopping, lambda: 1_000_000.0)
    began = time.perf_counter()
    for _ in range(20):
        until = time.perf_counter() + 2 * WORK_S
        while time.perf_counter() < until:
            pass
        pace(10_000)
    assert time.perf_counter() - began >= 0.19

    pace = Pace(stopping, lambda: float("inf"))
    began = time.thread_time()
    wall = time.perf_counter()
    while time.perf_counter() < wall + 200 * (WORK_S + REST_S):
        pace(1 << 20)
    assert time.thread_time() - began < 0.75 * (time.perf_counter() - wall)
    stopping.set()
    time.sleep(WORK_S)
    with pytest.raises(CleaningStopped):
        pace(1)


def test_a_bomb_is_left_where_it_is_in_bounded_memory_and_the_others_are_cleaned(
    directory: LogDirectory, files: FaultyFiles
) -> None:
    log = directory.open_log("bomb", 0, replace(COMPACTED, segment_bytes=1 << 20))
    put(log, ("a", "1"))
    log.append(bytearray(bomb()), wall_ms=NOW_MS)
    put(log, ("a", "2"))
    roll(log)
    put(log, ("b", "1"))
    good = dirty(directory, "good", 5)
    made = cleaner(directory, files)
    tracemalloc.start()
    try:
        with capture_logs() as logs:
            assert [made.clean_all(), made.clean_all()] == [2, 0]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert MAX_INFLATED_BYTES < peak_bytes < 2 * MAX_INFLATED_BYTES < BOMB_BYTES
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["partition"], "inflate to more than" in line["error"]) == ("bomb-0", True)
    assert table(good) == {"a": "4", "b": "1"}
    assert log.failure is None
    assert [batch.base_offset for batch in batches(log)] == [0, 1, 2, 3]
    put(log, ("c", "1"))
