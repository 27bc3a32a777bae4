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

from harness.doubles.faulty_files import FaultyFiles, Inode, Operation
from protocol.records.batch import walk
from protocol.records.records import Codec, Record, encode_batch, read_records
from protocol.topic_partition import TopicPartition
from storage.directory.log_directory import LogDirectory
from storage.files import CorruptSegment, File, Files, StorageError
from storage.log.partition_log import PartitionLog
from storage.log.segment_swap import StuckSwap
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
from tests.storage.logs import reopen

SMALL = replace(COMPACTED, segment_bytes=600)
KEYS = 31
MIXTURES = 5  # Of what a crash may keep, tried at each point; the first is what was synced.


class QuickFile(File):
    __slots__ = ()

    def sync(self) -> None:
        """The real disk is not asked: thousands of starts would take minutes."""


class QuickFiles(Files):
    def _file(self, path: Path, fd: int) -> File:
        return QuickFile(path, fd)

    def sync_directory(self, path: Path) -> None:
        """As `QuickFile.sync`."""


class LossyFiles(FaultyFiles):
    """The power goes after so many operations."""

    def watch(self, look: Callable[[], None]) -> None:
        """Have `look` called before each operation: it sees what a crash after the one before would leave."""

        def fault(_: Operation) -> None:
            self.fault = None  # What `look` does itself does not count.
            look()
            self.fault = fault

        self.fault = fault

    def survivors(self, directory: Path, target: Path, chance: random.Random | None = None) -> Path:
        """One of the states in which a crash may leave `directory`, written to `target`.

        Without `chance` that is what was synced and no more.
        """
        target.mkdir(parents=True)
        for name, node in self._folder(directory).after_crash(chance).items():
            assert isinstance(node, Inode), name
            (target / name).write_bytes(node.after_crash(chance))
        return target


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
            log.config = replace(SMALL, segment_bytes=1500)  # So that segments are joined.
            checkpoint = clean(
                log, self.files, checkpoint=checkpoint, wall_ms=NOW_MS + step * RETENTION_MS
            ).end_offset
            log.config = SMALL
        return log

    def _append(self, log: PartitionLog, step: int) -> None:
        for number in range(8):
            pairs = [
                (
                    f"k{(number * 3 + each + step * 7) % KEYS}",
                    f"{step}-{number}-{each}" * 4 if (number + each) % 4 else None,
                )
                for each in range(2)
            ]
            self.appended += pairs
            log.append(
                encode_batch([record(*pair) for pair in pairs], codec=Codec(number % 5)), wall_ms=NOW_MS
            )
            if number % 4 == 3:
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


def test_a_crash_after_any_operation_leaves_every_newest_record(tmp_path: Path) -> None:
    """A kill leaves what was written; a loss of power what was synced, and of the rest any mixture. A start that
    has to finish a swap may itself be cut short, after any of its operations."""
    files = LossyFiles(tmp_path)
    workload = Workload(tmp_path / "c-0", files)
    copies, chance, seen = tmp_path / "copies", random.Random(7), set[frozenset[str]]()
    points = starts = 0

    def look() -> None:
        nonlocal points, starts
        points += 1
        if not workload.directory.exists():
            return
        hold_again(workload, shutil.copytree(workload.directory, copies / "killed" / "c-0"))
        for number in range(MIXTURES):
            target = copies / f"{number}" / "c-0"
            left = files.survivors(workload.directory, target, chance if number else None)
            names = frozenset(leftovers(left))
            if names and names not in seen:
                seen.add(names)
                starts += watch_a_start(workload, left, copies / "start")
            log = hold_again(workload, left)
            if points % 10 == 0:
                clean(log, QuickFiles(), wall_ms=NOW_MS + 9 * RETENTION_MS)
                workload.hold(log)
        shutil.rmtree(copies)

    files.watch(look)
    log = workload.run()
    workload.hold(log)
    assert points > 100
    assert starts > 15


def watch_a_start(workload: Workload, left: Path, root: Path) -> int:
    """Open a copy of `left`; every state in which that may be cut short has to be as good. How many."""
    directory = shutil.copytree(left, root / "c-0")
    files, chance, points = LossyFiles(root), random.Random(3), 0

    def look() -> None:
        nonlocal points
        points += 1
        for number in range(MIXTURES):
            target = root / "copies" / f"{number}" / "c-0"
            hold_again(workload, files.survivors(directory, target, chance if number else None))
        shutil.rmtree(root / "copies")

    files.watch(look)
    hold_again(workload, directory, files)
    shutil.rmtree(root)
    return points


def hold_again(workload: Workload, directory: Path, files: Files | None = None) -> PartitionLog:
    """Open what a crash left, and hold it against what was acknowledged by then."""
    log = PartitionLog.open(directory, SMALL, files or QuickFiles(), recovery_point=workload.recovery_point)
    workload.hold(log)
    assert not leftovers(directory)
    return log


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
            assert nth > 12
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
            except BaseException as problem:  # Raised by the test's own thread.
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
