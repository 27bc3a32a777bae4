"""A cleaning that is cut short by a crash after any of its operations or by a disk error, and beside all else."""

from __future__ import annotations

import errno
import random
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.record_batch import walk
from protocol.records import Codec, Record, encode_batch, read_records
from storage.checkpoints import TopicPartition
from storage.files import CorruptSegment, Files, StorageError
from storage.log_directory import LogDirectory
from storage.partition_log import PartitionLog
from storage.segment_swap import StuckSwap
from tests.storage.cleaning import (
    COMPACTED,
    NOW_MS,
    RETENTION_MS,
    clean,
    open_compacted,
    put,
    record,
    table,
    texts,
)
from tests.storage.faulty_files import FaultyFiles, Operation
from tests.storage.logs import reopen

SMALL = replace(COMPACTED, segment_bytes=600)
KEYS = 7


class Crash(BaseException):
    """The power goes."""


class LossyFiles(FaultyFiles):
    """The power goes after so many operations."""

    def crash_after(self, count: int) -> None:
        left = iter(range(count))

        def fault(_: Operation) -> None:
            if next(left, None) is None:
                raise Crash

        self.fault = fault

    def crash_keeping_some(self, chance: random.Random) -> None:
        """Of what was not synced the disk may have any."""
        self.fault = None
        self.crash(chance)


class Workload:
    """Appends and cleanings, the same each time; what was acknowledged is noted."""

    def __init__(self, directory: Path, files: Files) -> None:
        self.directory = directory
        self.files = files
        self.appended: list[tuple[str, str | None]] = []
        self.acknowledged = 0  # Offsets below it were durable.
        self.recovery_point = 0

    def run(self) -> PartitionLog:
        log = open_compacted(self.directory, self.files, SMALL)
        checkpoint = 0
        for step in range(3):
            self._append(log, step)
            checkpoint = clean(
                log, self.files, checkpoint=checkpoint, wall_ms=NOW_MS + step * RETENTION_MS
            ).end_offset
        return log

    def _append(self, log: PartitionLog, step: int) -> None:
        for number in range(14):
            pairs = [
                (
                    f"k{(number * 3 + each) % KEYS}",
                    f"{step}-{number}-{each}" * 4 if (number + each) % 4 else None,
                )
                for each in range(2)
            ]
            self.appended += pairs
            log.append(
                encode_batch([record(*pair) for pair in pairs], codec=Codec(number % 5)), wall_ms=NOW_MS
            )
            if number % 7 == 6:
                log.flush()
                self.acknowledged = log.durable_offset
                self.recovery_point = log.recovery_point

    def hold(self, log: PartitionLog) -> None:
        """Nothing acknowledged is lost, nothing is invented."""
        end = log.next_offset
        assert self.acknowledged <= end <= len(self.appended)
        wanted: dict[str, str] = {}
        for key, value in self.appended[:end]:
            wanted.pop(key, None)
            if value is not None:
                wanted[key] = value
        assert table(log) == wanted
        for offset, key, value in texts(log):
            assert self.appended[offset] == (key, value)


def sweep(tmp_path: Path, check: Callable[[Workload, LossyFiles, int], None]) -> int:
    """Run the workload anew for every point at which it may be cut short; how many there were."""
    for count in range(3000):
        root = tmp_path / "root"
        root.mkdir()
        files = LossyFiles(root)
        workload = Workload(root / "c-0", files)
        files.crash_after(count)
        try:
            workload.run()
        except Crash:
            check(workload, files, count)
            shutil.rmtree(root)
        else:
            shutil.rmtree(root)
            return count
    pytest.fail("the workload has fewer operations than this")


def test_a_crash_after_any_operation_leaves_every_newest_record(tmp_path: Path) -> None:
    """A kill, which leaves what was written; a loss of power, which leaves what was synced; and a start that
    finishes a swap and is itself cut short, after any of its operations."""
    seen: set[frozenset[str]] = set()
    starts = 0

    def check(workload: Workload, files: LossyFiles, count: int) -> None:
        nonlocal starts
        files.fault = None
        if workload.directory.exists():
            after_kill = shutil.copytree(workload.directory, tmp_path / "killed" / "c-0")
            hold_again(workload, after_kill)
            shutil.rmtree(after_kill)
        files.crash()
        names = frozenset(leftovers(workload.directory))
        if names and names not in seen:
            seen.add(names)
            starts += sweep_of_a_start(workload, tmp_path / "start")
        log = hold_again(workload, workload.directory, files)
        if count % 10 == 0:
            clean(log, files, wall_ms=NOW_MS + 9 * RETENTION_MS)
            workload.hold(log)

    assert sweep(tmp_path, check) > 150
    assert starts > 50


def hold_again(workload: Workload, directory: Path, files: Files | None = None) -> PartitionLog:
    log = PartitionLog.open(directory, SMALL, files or Files(), recovery_point=workload.recovery_point)
    workload.hold(log)
    assert not leftovers(directory)
    return log


def sweep_of_a_start(workload: Workload, root: Path) -> int:
    for count in range(1000):
        directory = shutil.copytree(workload.directory, root / "c-0")
        files = LossyFiles(root)
        files.crash_after(count)
        try:
            hold_again(workload, directory, files)
        except Crash:
            files.crash_keeping_some(random.Random(count))
            hold_again(workload, directory)
        else:
            return count
        finally:
            shutil.rmtree(root)
    pytest.fail("a start has fewer operations than this")


def test_whatever_of_the_unsynced_a_crash_keeps_the_log_is_whole(tmp_path: Path) -> None:
    chance = random.Random(7)

    def check(workload: Workload, files: LossyFiles, _: int) -> None:
        files.crash_keeping_some(chance)
        hold_again(workload, workload.directory, files)

    sweep(tmp_path, check)


def leftovers(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("*") if path.suffix in (".cleaned", ".swap", ".deleted")]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_error_at_any_operation_leaves_the_log_serving(tmp_path: Path, number: int) -> None:
    for nth in range(300):
        root = tmp_path / f"{nth}"
        root.mkdir()
        files = FaultyFiles(root)
        workload = Workload(root / "c-0", files)
        log = open_compacted(workload.directory, files, SMALL)
        workload._append(log, 0)
        files.fail(nth, number)
        try:
            clean(log, files)
            files.fault = None
            clean(log, files, wall_ms=NOW_MS + RETENTION_MS)
            assert nth > 30
            return
        except StorageError as error:
            is_stuck = isinstance(error, StuckSwap)
        files.fault = None
        assert log.failure is None
        workload.hold(log)
        workload._append(log, 1)
        workload.hold(log)
        if not is_stuck:
            clean(log, files, wall_ms=NOW_MS + RETENTION_MS)
            workload.hold(log)
        workload.hold(reopen(log, files))
        files.crash()
        hold_again(workload, workload.directory, files)
        shutil.rmtree(root)
    pytest.fail("a cleaning has fewer operations than this")


def test_an_announced_segment_that_does_not_check_is_reported_and_nothing_goes(tmp_path: Path) -> None:
    files = LossyFiles(tmp_path)
    workload = Workload(tmp_path / "c-0", files)
    log = open_compacted(workload.directory, files, SMALL)
    workload._append(log, 0)
    files.fault = lambda op: OSError(errno.EIO, "no") if op.name == "unlink" else None
    with pytest.raises(StuckSwap):
        clean(log, files)
    files.fault = None
    log.close()
    (swap,) = workload.directory.glob("*.swap")
    data = bytearray(swap.read_bytes())
    data[30] ^= 1
    swap.write_bytes(data)
    before = sorted(workload.directory.iterdir())
    with pytest.raises(CorruptSegment, match=str(swap)):
        hold_again(workload, workload.directory)
    assert sorted(workload.directory.iterdir()) == before


def test_appends_reads_and_cleanings_go_on_beside_each_other(tmp_path: Path) -> None:
    """Readers that began before a swap read on; whatever is read is what was written."""
    log = open_compacted(tmp_path / "c-0", config=replace(COMPACTED, segment_bytes=3000))
    written: list[Record] = []
    is_over = threading.Event()
    problems: list[BaseException] = []
    rounds = 0

    def guarded(work: Callable[[random.Random], None], seed: int) -> threading.Thread:
        def run() -> None:
            chance = random.Random(seed)
            try:
                while not is_over.is_set():
                    work(chance)
            except BaseException as problem:  # Told by the test's own thread.
                problems.append(problem)
                is_over.set()

        return threading.Thread(target=run)

    def read_some(chance: random.Random) -> None:
        data = log.read(chance.randrange(log.durable_offset), 2000)
        for batch in walk(data):
            for each in read_records(data, batch):
                assert written[each.offset].value == each.value

    def replay(chance: random.Random) -> None:
        end, offset = log.durable_offset, -1
        seen: dict[bytes, Record] = {}
        for batch, data in log.batches(0):
            assert batch.base_offset > offset
            offset = batch.last_offset
            seen |= {each.key or b"": each for each in read_records(data, batch)}
        newest = {each.key: number for number, each in enumerate(written[:end])}
        for key, number in newest.items():
            assert seen[key or b""].offset >= number

    def cleaning(_: random.Random) -> None:
        nonlocal rounds
        rounds += clean(log).end_offset > 0

    chance = random.Random(3)
    written += [Record(b"first", b"1", NOW_MS)]
    put(log, ("first", "1"))
    threads = [guarded(read_some, 1), guarded(replay, 2), guarded(cleaning, 3)]
    for thread in threads:
        thread.start()
    for number in range(500):
        key = f"k{chance.randrange(20)}"
        written.append(Record(key.encode(), str(number).encode(), NOW_MS))
        put(log, (key, str(number)))
        if is_over.is_set():
            break
    is_over.set()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    assert rounds > 2
    assert len(texts(reopen(log))) < 200


def test_the_checkpoint_of_the_cleaner_lasts_and_goes_with_its_partition(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    files = FaultyFiles(tmp_path)
    directory = LogDirectory.open(tmp_path / "logs", files, node_id=1)
    log = directory.open_log("c", 0, SMALL)
    put(log, ("a", "1"))
    directory.set_cleaned(TopicPartition("c", 0), log, 1)
    assert (tmp_path / "logs" / "cleaner-offset-checkpoint").read_text() == "0\n1\nc 0 1\n"
    directory.close()
    files.crash()

    directory = LogDirectory.open(tmp_path / "logs", files, node_id=1)
    log = directory.open_log("c", 0, SMALL)
    directory.open_log("d", 0, replace(SMALL, is_compacted=False))
    assert directory.compacted_logs() == [(TopicPartition("c", 0), log, 1)]
    directory.truncate("c", 0, 0)
    assert directory.compacted_logs() == [(TopicPartition("c", 0), log, 0)]
    directory.set_cleaned(TopicPartition("c", 0), log, 1)
    directory.delete_log("c", 0)
    directory.set_cleaned(TopicPartition("c", 0), log, 1)  # A cleaning that ends after the deletion.
    assert (tmp_path / "logs" / "cleaner-offset-checkpoint").read_text() == "0\n0\n"
    directory.close()
