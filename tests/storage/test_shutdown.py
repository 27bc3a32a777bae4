"""How a directory of logs ended, cleanly or not, and what its checkpoints have the next start look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.directory.log_directory import LogDirectoryError
from storage.files import CorruptSegment, StorageError
from storage.log.partition_log import PartitionLog
from tests.storage.directories import TOPIC_ID, filled, kill, take
from tests.storage.logs import NOW_MS, SMALL, all_spans, batch, fill


def test_checkpoints_have_kafkas_format(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory).advance_start(7)
    filled(directory, partition=1, batches=5)
    directory.checkpoint()
    points = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    starts = (tmp_path / "log-start-offset-checkpoint").read_text()
    assert points == "0\n2\nt 0 30\nt 1 5\n"
    assert starts == "0\n1\nt 0 7\n"
    directory.close()


def test_after_a_clean_shutdown_nothing_is_scanned(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory).advance_start(7)
    assert directory.close() == []
    marker = json.loads((tmp_path / ".kafka_cleanshutdown").read_text())
    assert marker == {"version": 0, "brokerEpoch": -1}

    again = take(tmp_path)
    assert again.shut_down_cleanly
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = again.open_log("t", 0, SMALL)
    assert log.recovered.segments_scanned == 0
    assert (log.log_start_offset, log.next_offset, log.topic_id) == (7, 30, TOPIC_ID)
    again.close()


def test_only_logs_that_had_a_record_are_closed_side_by_side(tmp_path: Path) -> None:
    """On threads: with the others there is nothing to wait for."""
    directory = take(tmp_path)
    full, staged, empty = filled(directory), *(directory.open_log("t", number, SMALL) for number in (1, 2))
    staged.append(batch(), wall_ms=NOW_MS)
    emptied = filled(directory, partition=3)
    emptied.advance_start(emptied.next_offset)
    given: list[PartitionLog] = []

    def close_all(
        close: Callable[[PartitionLog], StorageError | None], logs: list[PartitionLog]
    ) -> list[StorageError | None]:
        given.extend(logs)
        return [close(log) for log in logs]

    assert directory.close(close_all) == []
    assert given == [full, staged, emptied]
    assert [log.recovery_point for log in (full, staged, empty)] == [30, staged.next_offset, 0]


def test_what_cannot_be_closed_is_reported_of_either_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = take(tmp_path)
    logs = [filled(directory), directory.open_log("t", 1, SMALL)]

    def close(log: PartitionLog) -> None:
        raise StorageError("close", log.directory, "no")

    monkeypatch.setattr(PartitionLog, "close", close)
    assert [failure.path for failure in directory.close()] == [log.directory for log in logs]


def test_after_a_kill_what_was_checkpointed_is_not_scanned(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = filled(directory)
    directory.checkpoint()
    kill(directory)
    again = take(tmp_path)
    assert not again.shut_down_cleanly
    recovered = again.open_log("t", 0, SMALL).recovered
    assert (len(log.segments) > 2, recovered.segments_scanned) == (True, 1)
    again.close()


def test_a_kill_right_after_a_clean_start_is_no_clean_shutdown(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory)
    directory.close()
    kill(take(tmp_path))
    again = take(tmp_path)
    assert not again.shut_down_cleanly
    again.close()


def test_a_shutdown_is_clean_for_logs_that_were_not_opened_only_if_the_last_one_was(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory)
    directory.close()
    take(tmp_path).close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    kill(take(tmp_path))
    take(tmp_path).close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 30\n"


def test_a_log_that_failed_makes_the_shutdown_unclean(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    directory = take(tmp_path, files)
    log = filled(directory)
    log.append(batch(), wall_ms=NOW_MS)
    files.fail_always("sync")
    with pytest.raises(StorageError):
        log.flush()
    files.fault = None
    assert directory.close() == []
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again = take(tmp_path)
    assert len(all_spans(again.open_log("t", 0, SMALL))) >= 30
    again.close()


def test_what_cannot_be_closed_is_reported(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    directory = take(tmp_path, files)
    filled(directory).append(batch(), wall_ms=NOW_MS)
    files.fail_always("sync")
    assert [failure.operation for failure in directory.close()] == ["sync", "sync"]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_damage_below_the_checkpoint_is_reported_and_the_others_open(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = filled(directory)
    filled(directory, partition=1)
    directory.checkpoint()
    kill(directory)
    active = log.segments[-1].path
    data = bytearray(active.read_bytes())
    data[-1] ^= 1
    active.write_bytes(data)
    again = take(tmp_path)
    with pytest.raises(CorruptSegment) as corrupt:
        again.open_log("t", 0, SMALL)
    assert corrupt.value.path == active
    assert again.open_log("t", 1, SMALL).next_offset == 30
    again.close()
    assert "t 0 30" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_truncation_moves_the_recovery_point_back_first(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    directory = take(tmp_path, files)
    filled(directory)
    directory.checkpoint()
    directory.truncate("t", 0, 12)
    kill(directory)
    files.crash()
    again = take(tmp_path, files)
    assert again.open_log("t", 0, SMALL).next_offset == 12
    again.close()


def test_entries_of_partitions_that_are_gone_are_dropped_at_once(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 1000\n")
    directory = take(tmp_path)
    assert ["t-0" in warning for warning in directory.warnings] == [True]
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n0\n"
    filled(directory, batches=3)
    kill(directory)
    assert take(tmp_path).open_log("t", 0, SMALL).next_offset == 3


@pytest.mark.parametrize("text", ["\n", "garbage", "1\n0\n", "0\n2\nt 0 5\n", "0\n1\nt 0\n", "\xff"])
def test_a_garbled_checkpoint_is_logged_and_not_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text(text, encoding="latin-1")
    directory = take(tmp_path)
    assert ["it is not used" in warning for warning in directory.warnings] == [True]
    assert directory.close() == []


def test_where_a_log_starts_is_remembered_only_where_its_files_do_not_show_it(tmp_path: Path) -> None:
    """What is not written cannot rot: a wrong digit would hide records, or bring deleted ones back."""
    directory = take(tmp_path)
    log = filled(directory)
    log.config = replace(SMALL, retention_bytes=500)
    assert log.apply_retention(NOW_MS) > 0
    directory.checkpoint()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    start = log.log_start_offset
    assert directory.close() == []
    again = take(tmp_path)
    assert again.open_log("t", 0, SMALL).log_start_offset == start > 0
    again.close()


def test_a_log_that_could_not_be_opened_is_opened_later_and_keeps_its_checkpoint(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory)
    directory.checkpoint()
    kill(directory)
    files = FaultyFiles(tmp_path)
    files.refuse_to_open(".log")
    again = take(tmp_path, files)
    log = again.add_log("t", 0, SMALL)
    for _ in range(2):
        with pytest.raises(StorageError, match="Too many open files"):
            log.recover()
    for use in (log.flush, lambda: log.read(0, 1), lambda: next(log.batches(0)), log.max_timestamp):
        with pytest.raises(StorageError, match="Too many open files"):
            use()
    again.checkpoint()
    assert "t 0 30" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    files.read_fault = None
    log.fail_back()
    assert all_spans(log) == [(n, n) for n in range(30)]
    log.append(batch(), wall_ms=NOW_MS)
    log.fail_back()
    assert log.next_offset == 30
    assert again.close() == []


@pytest.mark.parametrize("text", ["", "garbage", "{}", '{"version":1}', "[0]"])
def test_a_garbled_marker_of_a_clean_shutdown_is_logged_and_not_believed(tmp_path: Path, text: str) -> None:
    directory = take(tmp_path)
    filled(directory)
    assert directory.close() == []
    (tmp_path / ".kafka_cleanshutdown").write_text(text)
    again = take(tmp_path)
    assert not again.shut_down_cleanly
    assert ["taken for unclean" in warning for warning in again.warnings] == [True]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again.close()


def live(root: Path, files: FaultyFiles, acknowledged: dict[str, int]) -> bool:
    """A daemon's life, with a checkpoint, a roll, a deletion and a shutdown; whether it came to its end."""
    directory = take(root, files)
    try:
        log = directory.open_log("t", 0, SMALL, topic_id=TOPIC_ID)
        fill(directory.open_log("u", 0, SMALL, topic_id=TOPIC_ID), 1)
        for number in range(9):
            log.append(batch(), wall_ms=NOW_MS)
            log.flush()
            acknowledged["t"] = log.durable_offset
            if number == 3:
                directory.checkpoint()
        directory.delete_log("u", 0)
        fill(directory.open_log("u", 0, SMALL, topic_id=TOPIC_ID), 1)
        acknowledged["u"] = 1
        return directory.close() == []
    finally:
        kill(directory)


def test_a_loss_of_power_at_any_moment_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    for nth in range(400):
        root = tmp_path / str(nth)
        root.mkdir()
        files = FaultyFiles(root)
        left = iter(range(nth))
        files.fault = lambda _, left=left: None if next(left, None) is not None else OSError(5, "off")
        acknowledged = {"t": 0, "u": 0}
        try:
            ended = live(root, files, acknowledged)
        except (StorageError, LogDirectoryError):
            ended = False
        files.fault = None
        files.crash()
        again = take(root, files)
        for topic, count in acknowledged.items():
            found = all_spans(again.open_log(topic, 0, SMALL))
            assert found == [(n, n) for n in range(len(found))]
            assert len(found) >= count, nth
        assert again.close() == []
        if ended:
            return
    pytest.fail("the workload has more operations than this")
