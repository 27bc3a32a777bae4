"""What a log knows of its producers: while it lives, after a stop, a crash at any point, and damage."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.files import Files
from storage.log.config import INT64_MAX, LogConfig
from storage.log.log_producers import ReadProducers
from storage.log.partition_log import PartitionLog
from storage.producers.producer_snapshot import snapshot_offsets
from tests.storage.logs import NOW_MS, SMALL, fill, open_log, reopen
from tests.storage.transactions import assert_story_is_complete, end, known, put, story_of

FIRST = "00000000000000000000"


def lively(log: PartitionLog, turns: int = 12) -> None:
    """Three producers whose transactions overlap, over several segments; producer 2's is left open."""
    for turn in range(turns):
        for producer_id in (1, 2, 3):
            if producer_id == 2 or turn % producer_id == 0:
                put(log, producer_id, story_sequence(log, producer_id))
        fill(log, 1)
        if turn % 3 == 1:
            end(log, 1, commit=turn % 2 == 0)
        if turn % 4 == 3:
            end(log, 3, commit=False)
        if turn == 5:
            end(log, 2, commit=False)
        log.flush()
        log.producers.settle()


def story_sequence(log: PartitionLog, producer_id: int) -> int:
    """The sequence that comes next."""
    assert log.producers.state is not None
    producer = log.producers.state.find(producer_id)
    return 0 if producer is None else producer.last_sequence + 1


def test_a_living_log_knows_what_is_decided(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    first = put(log, 1, 0)
    assert log.producers.last_stable_offset == 0 == first
    log.flush()
    assert (log.durable_offset, log.producers.last_stable_offset) == (1, 0)
    put(log, 2, 0)
    end(log, 1, commit=True)
    assert log.producers.last_stable_offset == 0  # The marker is not durable.
    log.flush()
    assert log.producers.settle()
    assert (log.durable_offset, log.producers.last_stable_offset) == (3, 1)
    end(log, 2, commit=False)
    log.flush()
    assert log.producers.settle()
    assert not log.producers.settle()
    assert log.producers.last_stable_offset == 4
    assert [tuple(each) for each in log.producers.aborted(0, 4)] == [(2, 1, 3, 4)]
    assert log.producers.aborted(0, 1) == []


def test_many_transactions_over_many_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    lively(log)
    assert len(log.segments) > 4
    assert_story_is_complete(log)
    for start, stop in ((0, 5), (7, 20), (20, log.next_offset), (3, 4)):
        expected = [
            each for each in story_of(log).aborted if each.last_offset >= start and each.first_offset < stop
        ]
        assert log.producers.aborted(start, stop) == expected


def test_after_a_clean_stop_nothing_is_read_but_the_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    lively(log)
    again = reopen(log)
    assert again.producers.last_stable_offset is None
    found = again.producers.read(NOW_MS)
    assert (found.scanned_bytes, found.snapshot_offset, found.damaged) == (0, log.next_offset, [])
    again.producers.state = found.state
    assert_story_is_complete(again)
    lively(again)
    assert_story_is_complete(again)


def test_a_second_stop_writes_no_second_snapshot_of_the_same(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    lively(log)
    again = reopen(log)
    known(again)
    files = FaultyFiles(tmp_path)
    third = reopen(again, files)
    known(third)
    third.close()
    assert files.history(".snapshot") == []


def test_a_snapshot_is_due_after_so_many_bytes_and_the_newest_two_are_kept(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    offsets = []
    for _ in range(4):
        assert log.producers.take_snapshot(min_bytes=500) is None
        lively(log, turns=4)
        snapshot = log.producers.take_snapshot(min_bytes=500)
        assert snapshot is not None
        log.producers.write(snapshot)
        offsets.append(snapshot.offset)
    assert snapshot_offsets(path.name for path in log.directory.iterdir()) == offsets[:1:-1]


def test_a_snapshot_that_comes_before_the_flush_has_it_done(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    put(log, 1, 0)
    snapshot = log.producers.take_snapshot(min_bytes=1)
    assert snapshot is not None
    log.producers.write(snapshot)
    assert log.durable_offset == 1


def stopped(tmp_path: Path) -> Path:
    log = open_log(tmp_path / "t-0")
    lively(log)
    log.close()
    return log.directory


def start(directory: Path) -> tuple[PartitionLog, ReadProducers]:
    log = PartitionLog.open(directory, SMALL, Files())
    found = log.producers.read(NOW_MS)
    log.producers.state = found.state
    return log, found


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "of another version"])
def test_a_damaged_snapshot_is_left_out_and_the_log_read(tmp_path: Path, damage: str) -> None:
    directory = stopped(tmp_path)
    (path,) = directory.glob("*.snapshot")
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[20] ^= 1
    damaged: dict[str, bytes] = {
        "flipped": bytes(data),
        "cut": bytes(data[:-3]),
        "empty": b"",
        "of another version": b"\0\2" + data[2:],
    }
    path.write_bytes(damaged[damage])
    log, found = start(directory)
    assert [each for each, _ in found.damaged] == [path]
    assert found.scanned_bytes == log.size_bytes
    assert not path.exists()
    assert_story_is_complete(log)


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_transaction_index_is_made_again(tmp_path: Path, damage: str) -> None:
    directory = stopped(tmp_path)
    path = min(each for each in directory.glob("*.txnindex") if each.stat().st_size)
    data = bytearray(path.read_bytes())
    data[1] ^= 1
    path.write_bytes(data if damage == "flipped" else data[2:-5])
    log, found = start(directory)
    assert [each for each, _ in found.damaged] == [path]
    assert_story_is_complete(log)
    log.close()
    assert_story_is_complete(start(directory)[0])


def test_without_any_of_these_files_the_log_alone_is_enough(tmp_path: Path) -> None:
    directory = stopped(tmp_path)
    for path in (*directory.glob("*.txnindex"), *directory.glob("*.snapshot")):
        path.unlink()
    log, found = start(directory)
    assert found.scanned_bytes == log.size_bytes
    assert_story_is_complete(log)


def test_what_was_cut_off_counts_no_more(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    lively(log)
    log.close()
    log = reopen(log)
    known(log)
    for offset in (30, 17, 8, 1):
        log.truncate_to(offset)
        assert log.producers.state is None
        known(log)
        assert_story_is_complete(log)
        put(log, 9, story_sequence(log, 9))
        end(log, 9, commit=False)
        log.flush()
        log.producers.settle()
        assert_story_is_complete(log)
    assert all(int(path.stem) <= log.next_offset for path in log.directory.glob("*.snapshot"))


def test_segments_take_their_indexes_along(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, retention_bytes=1500))
    lively(log)
    before = {path.stem for path in log.directory.glob("*.txnindex")}
    assert log.apply_retention(NOW_MS) > 0
    after = {path.stem for path in log.directory.glob("*.txnindex")}
    assert after < before
    assert after <= {path.stem for path in log.directory.glob("*.log")}
    again = reopen(log)
    known(again)
    aborted = again.producers.aborted(again.log_start_offset, again.next_offset)
    assert aborted == log.producers.aborted(log.log_start_offset, log.next_offset)


def test_a_snapshot_below_the_start_of_the_log_is_not_believed(tmp_path: Path) -> None:
    """What came between it and the start is gone, and with it where the producers stand."""
    log = open_log(tmp_path / "t-0")
    put(log, 1, 0)
    log.flush()
    snapshot = log.producers.take_snapshot(min_bytes=1)
    assert snapshot is not None
    log.producers.write(snapshot)
    for sequence in range(1, 40):
        put(log, 1, sequence)
    end(log, 1, commit=True)
    fill(log, 20)
    log.config = replace(SMALL, retention_bytes=0)
    log.apply_retention(NOW_MS)
    assert log.log_start_offset > snapshot.offset
    again = PartitionLog.open(log.directory, SMALL, Files(), log_start_offset=log.log_start_offset)
    assert len(known(again)) == 0


def test_batches_before_the_snapshot_are_recalled(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, segment_bytes=1 << 20))
    for sequence in range(9):
        put(log, 1, sequence)
    log.flush()
    before = log.producers.state
    assert before is not None
    again = reopen(log)
    (producer,) = (each for _, each in known(again).items())
    found = before.find(1)
    assert found is not None
    assert producer.batches == found.batches


# The crash sweep.


class Workload:
    """Transactions, snapshots, rolls and a deletion, the same each time; what was acknowledged is noted."""

    def __init__(self, directory: Path, files: Files, config: LogConfig) -> None:
        self.directory = directory
        self.acknowledged = 0
        self.recovery_point = 0
        self._files = files
        self._config = config

    def run(self) -> None:
        log = PartitionLog.open(self.directory, self._config, self._files)
        self._live(log)
        log.close()
        self._note(log)
        log = PartitionLog.open(
            self.directory,
            self._config,
            self._files,
            recovery_point=log.recovery_point,
            shut_down_cleanly=True,
        )
        known(log)
        self._live(log)

    def _live(self, log: PartitionLog) -> None:
        for _ in range(3):
            lively(log, turns=3)
            self._note(log)
            snapshot = log.producers.take_snapshot(min_bytes=1)
            assert snapshot is not None
            put(log, 7, story_sequence(log, 7))
            log.producers.write(snapshot)
            end(log, 7, commit=False)
            log.flush()
            self._note(log)

    def _note(self, log: PartitionLog) -> None:
        self.acknowledged, self.recovery_point = log.durable_offset, log.recovery_point


class PowerLoss(Exception):
    pass


@pytest.mark.parametrize("flush_messages", [1, INT64_MAX])
def test_a_crash_at_any_point_leaves_what_the_records_say(tmp_path: Path, flush_messages: int) -> None:
    """After every operation, with what was synced and with random mixtures of what was not."""
    config = replace(SMALL, flush_messages=flush_messages)
    counted = FaultyFiles(new(tmp_path / "count"))
    Workload(tmp_path / "count" / "t-0", counted, config).run()
    checked = 0
    for stop in range(1, len(counted.operations), 3):
        root = new(tmp_path / f"at-{stop}")
        files = FaultyFiles(root)
        left = iter(range(stop, -1, -1))

        def fault(_: object, left: Iterator[int] = left) -> None:
            if next(left, None) == 0:
                raise PowerLoss

        files.fault = fault
        workload = Workload(root / "t-0", files, config)
        try:
            workload.run()
        except PowerLoss:
            files.fault = None
        for mixture in range(3):
            image = new(tmp_path / f"image-{stop}-{mixture}")
            files.put_image(image, random.Random(stop * 10 + mixture) if mixture else None)
            if (image / "t-0").is_dir():
                checked += 1
                check_image(image / "t-0", workload, config)
    assert checked > 100


def check_image(directory: Path, workload: Workload, config: LogConfig) -> None:
    point = workload.recovery_point
    log = PartitionLog.open(directory, config, Files(), recovery_point=point)
    if config.flush_messages == 1:
        assert log.durable_offset >= workload.acknowledged
    known(log)
    assert_story_is_complete(log)
    lively(log, turns=2)
    log.close()
    again = PartitionLog.open(
        directory, config, Files(), recovery_point=log.recovery_point, shut_down_cleanly=True
    )
    assert again.producers.read(NOW_MS).scanned_bytes == 0
    known(again)
    assert_story_is_complete(again)


def new(path: Path) -> Path:
    path.mkdir()
    return path
