"""What a log is after a crash: torn tails, damage, lost indexes, lost writes, and a killed process."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from protocol.records.batch import parse_header
from storage.files import CorruptSegment, File, Files, StorageError
from storage.log.config import INT64_MAX
from storage.log.partition_log import PartitionLog
from storage.log.recovery import MAX_TORN_FILES
from tests.storage.logs import NOW_MS, OS_SMALL, SMALL, all_spans, batch, fill, open_log, reopen

ONE_SEGMENT = replace(SMALL, segment_bytes=1 << 20)
FIRST = "00000000000000000000"


def after_a_crash(directory: Path, recovery_point: int = 0, *, clean: bool = False) -> PartitionLog:
    files = FaultyFiles(directory.parent)
    return PartitionLog.open(
        directory, ONE_SEGMENT, files, recovery_point=recovery_point, shut_down_cleanly=clean
    )


def written(directory: Path, batches: int = 6) -> tuple[bytes, list[int]]:
    """A log of one segment: its bytes, and where its batches end."""
    log = open_log(directory, ONE_SEGMENT)
    ends = [0]
    for number in range(batches):
        fill(log, 1, records=1 + number % 3)
        ends.append(log.size_bytes)
    return (directory / f"{FIRST}.log").read_bytes(), ends


# Torn tails.


def test_a_torn_tail_is_cut_and_kept_aside_at_every_length(tmp_path: Path) -> None:
    data, ends = written(tmp_path / "t-0")
    segment = tmp_path / "t-0" / f"{FIRST}.log"
    for length in range(len(data)):
        shutil.rmtree(tmp_path / "t-0")
        (tmp_path / "t-0").mkdir()
        segment.write_bytes(data[:length])
        log = after_a_crash(tmp_path / "t-0")
        whole = max(end for end in ends if end <= length)
        assert segment.read_bytes() == data[:whole]
        assert len(all_spans(log)) == ends.index(whole)
        assert log.next_offset == log.durable_offset == (all_spans(log) or [(0, -1)])[-1][1] + 1
        kept = log.recovered.kept_aside
        assert (kept.read_bytes() if kept else b"") == data[whole:length]
        assert log.recovered.cut_bytes == length - whole


def test_a_tail_of_zeros_or_noise_is_cut(tmp_path: Path) -> None:
    data, _ = written(tmp_path / "t-0")
    segment = tmp_path / "t-0" / f"{FIRST}.log"
    for tail in (b"\0" * 5000, b"\xff" * 100, random.Random(1).randbytes(3000)):
        segment.write_bytes(data + tail)
        log = after_a_crash(tmp_path / "t-0")
        assert log.recovered.cut_bytes == len(tail)
        assert segment.read_bytes() == data


def test_the_log_goes_on_behind_the_cut(tmp_path: Path) -> None:
    data, _ = written(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{FIRST}.log").write_bytes(data[:-1])
    log = after_a_crash(tmp_path / "t-0")
    expected = [*all_spans(log), (log.next_offset, log.next_offset)]
    fill(log, 1)
    assert all_spans(log) == all_spans(reopen(log)) == expected


def test_only_so_many_torn_tails_are_kept(tmp_path: Path) -> None:
    written(tmp_path / "t-0")
    for number in range(MAX_TORN_FILES + 3):
        with (tmp_path / "t-0" / f"{FIRST}.log").open("ab") as segment:
            segment.write(b"torn %d" % number)
        after_a_crash(tmp_path / "t-0")
    kept = {path.name: path.read_bytes() for path in (tmp_path / "t-0").glob("*.torn-*")}
    numbers = range(3, MAX_TORN_FILES + 3)
    assert kept == {f"{FIRST}.log.torn-{number}": b"torn %d" % number for number in numbers}


def test_a_length_that_lies_allocates_nothing_and_is_cut(tmp_path: Path) -> None:
    """A header that promises 2 GiB, in a file that is as long (and sparse)."""
    data, _ = written(tmp_path / "t-0")
    segment = tmp_path / "t-0" / f"{FIRST}.log"
    lie = bytearray(batch())
    lie[:12] = (100).to_bytes(8, "big") + (2**31 - 100).to_bytes(4, "big")
    segment.write_bytes(data + lie)
    os.truncate(segment, 2**31 - 1)
    log = open_log(tmp_path / "t-0", ONE_SEGMENT)
    assert segment.stat().st_size == len(data)
    assert log.recovered.kept_aside is not None
    assert log.recovered.kept_aside.stat().st_size == 64 << 20  # MAX_TORN_BYTES


# Damage.


def test_a_cut_below_the_recovery_point_is_corruption_and_changes_nothing(tmp_path: Path) -> None:
    data, ends = written(tmp_path / "t-0")
    segment = tmp_path / "t-0" / f"{FIRST}.log"
    end_offset = open_log(tmp_path / "t-0", ONE_SEGMENT).next_offset
    for length in range(len(data)):
        segment.write_bytes(data[:length])
        with pytest.raises(CorruptSegment) as corrupt:
            after_a_crash(tmp_path / "t-0", end_offset, clean=bool(length % 2))
        assert (corrupt.value.path, corrupt.value.byte) == (segment, max(e for e in ends if e <= length))
        assert segment.read_bytes() == data[:length]


def test_every_flipped_byte_below_the_recovery_point_is_detected(tmp_path: Path) -> None:
    """All but the leader epoch, bytes 12 to 15 of a batch: no CRC covers it, and it is not used at all."""
    data, ends = written(tmp_path / "t-0")
    segment = tmp_path / "t-0" / f"{FIRST}.log"
    end_offset = open_log(tmp_path / "t-0", ONE_SEGMENT).next_offset
    for byte in range(len(data)):
        start = max(end for end in ends if end <= byte)
        damaged = bytearray(data)
        damaged[byte] ^= 0x41
        segment.write_bytes(damaged)
        if 12 <= byte - start < 16:
            assert len(all_spans(after_a_crash(tmp_path / "t-0", end_offset))) == len(ends) - 1
            continue
        with pytest.raises(CorruptSegment) as corrupt:
            after_a_crash(tmp_path / "t-0", end_offset)
        assert corrupt.value.byte in (start, min(e for e in ends if e > byte)), byte
        assert segment.read_bytes() == damaged


def test_damage_above_the_recovery_point_ends_the_log_there(tmp_path: Path) -> None:
    data, ends = written(tmp_path / "t-0")
    damaged = bytearray(data)
    damaged[ends[3] + 30] ^= 1
    (tmp_path / "t-0" / f"{FIRST}.log").write_bytes(damaged)
    log = after_a_crash(tmp_path / "t-0", recovery_point=6)  # Of the first three batches: 1 + 2 + 3 records.
    assert (log.next_offset, log.recovered.cut_bytes) == (6, len(data) - ends[3])


def test_a_log_whose_segments_are_gone_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(CorruptSegment, match="no segments, but synced up to offset 7"):
        after_a_crash(tmp_path / "t-0", recovery_point=7)


def test_replay_stops_with_file_and_byte_where_an_old_segment_was_damaged(tmp_path: Path) -> None:
    """After a clean shutdown nothing is scanned at the start, so replay is who notices."""
    log = open_log(tmp_path / "t-0")
    fill(log, 30)
    first = log.segments[0]
    log.close()
    damaged = bytearray(first.path.read_bytes())
    size_bytes = len(batch())
    damaged[2 * size_bytes + 70] ^= 1
    first.path.write_bytes(damaged)
    log = reopen(log)
    replayed = log.batches(0)
    assert [next(replayed)[0].base_offset for _ in range(2)] == [0, 1]
    with pytest.raises(CorruptSegment) as corrupt:
        next(replayed)
    assert (corrupt.value.path, corrupt.value.byte) == (first.path, 2 * size_bytes)


def test_damage_in_a_segment_with_a_successor_is_corruption_whatever_the_recovery_point(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "t-0", OS_SMALL)
    fill(log, 30)
    log.close()
    os.truncate(log.segments[0].path, log.segments[0].size_bytes - 1)
    with pytest.raises(CorruptSegment):
        open_log(tmp_path / "t-0", OS_SMALL)


# Indexes.


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "cut", "noise"])
@pytest.mark.parametrize("clean", [True, False])
def test_lost_indexes_are_built_again(tmp_path: Path, suffix: str, damage: str, clean: bool) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 40, records=2)
    log.close()
    before = {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}
    for path in (tmp_path / "t-0").glob(f"*{suffix}"):
        data = path.read_bytes()
        noise = random.Random(2).randbytes(len(data))
        path.write_bytes(
            {"empty": b"", "zeros": bytes(4096), "cut": data[:-1], "noise": noise}.get(damage, b"")
        )
        if damage == "missing":
            path.unlink()
    log = PartitionLog.open(
        log.directory, SMALL, Files(), recovery_point=log.recovery_point, shut_down_cleanly=clean
    )
    for offset in range(80):
        assert log.read(offset, 1 << 20)[:8] == (offset - offset % 2).to_bytes(8, "big")
    for number in range(40):
        assert log.offset_for_timestamp(NOW_MS + 10 * number) == (2 * number, NOW_MS + 10 * number)
    log.close()
    if damage != "empty":  # An empty index is a right one, only slow.
        assert {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()} == before


def test_an_index_entry_that_leads_to_the_wrong_batch_is_noticed(tmp_path: Path) -> None:
    """Entries that rise and stay within the log, and yet are wrong."""
    log = open_log(tmp_path / "t-0", ONE_SEGMENT)
    fill(log, 40)
    log.close()
    index = tmp_path / "t-0" / f"{FIRST}.index"
    right = index.read_bytes()
    wrong = bytearray(right)
    wrong[4:8] = (int.from_bytes(right[4:8], "big") - 1).to_bytes(4, "big")
    wrong[8:12] = (int.from_bytes(right[8:12], "big") + 1).to_bytes(4, "big")
    index.write_bytes(wrong)
    log = reopen(log)
    for offset in range(40):
        assert log.read(offset, 1 << 20)[:8] == offset.to_bytes(8, "big")
    assert index.read_bytes() == right


def test_the_indexes_of_a_deleted_segment_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 30)
    log.segments[0].path.unlink()
    (tmp_path / "t-0" / f"{FIRST}.txnindex").touch()
    log = open_log(tmp_path / "t-0")
    assert not list((tmp_path / "t-0").glob(f"{FIRST}.*"))
    assert log.log_start_offset > 0


# A clean start, and one after a crash.


def test_a_clean_start_scans_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 40)
    log = reopen(log)
    assert log.recovered.segments_scanned == 0
    assert log.next_offset == 40
    files = FaultyFiles(tmp_path)
    reopen(log, files)
    assert files.history() == []


def test_after_a_crash_only_what_was_not_synced_is_scanned(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 40)
    assert len(log.segments) > 3
    log.close()
    point = log.segments[-2].base_offset
    again = PartitionLog.open(log.directory, SMALL, Files(), recovery_point=point)
    assert again.recovered.segments_scanned == 2
    again = PartitionLog.open(log.directory, SMALL, Files(), recovery_point=log.recovery_point)
    assert again.recovered.segments_scanned == 1
    assert again.recovery_point == 40


class CountingFiles(Files):
    """Counts the bytes of log files that are read."""

    def __init__(self) -> None:
        self.log_bytes_read = 0

    def _file(self, path: Path, fd: int) -> File:
        return CountedFile(path, fd, self) if path.suffix == ".log" else super()._file(path, fd)


class CountedFile(File):
    __slots__ = ("_files",)

    def __init__(self, path: Path, fd: int, files: CountingFiles) -> None:
        super().__init__(path, fd)
        self._files = files

    def read_at(self, length: int, position: int) -> bytes:
        data = super().read_at(length, position)
        self._files.log_bytes_read += len(data)
        return data


def test_a_clean_start_reads_the_end_of_the_log_and_no_more(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", ONE_SEGMENT)
    fill(log, 400, per_flush=20)
    log.close()
    files = CountingFiles()
    again = PartitionLog.open(
        log.directory, ONE_SEGMENT, files, recovery_point=log.recovery_point, shut_down_cleanly=True
    )
    assert again.next_offset == 400
    assert again.recovered.scanned_bytes == 0
    assert files.log_bytes_read < 5_000  # A search's window for the first header, and one index interval.
    assert log.size_bytes > 30_000


REPLAYED = replace(ONE_SEGMENT, index_interval_bytes=200)


def open_replayed(directory: Path, recovery_point: int, files: Files | None = None) -> PartitionLog:
    return PartitionLog.open(
        directory, REPLAYED, files or Files(), recovery_point=recovery_point, is_replayed=True
    )


def killed(directory: Path, batches: int = 400) -> PartitionLog:
    """A log whose process was killed: its files are as they are, none was closed."""
    log = open_log(directory, REPLAYED)
    fill(log, batches, per_flush=20)
    return log


def test_of_a_log_that_is_replayed_only_what_lies_above_the_recovery_point_is_checked(tmp_path: Path) -> None:
    log = killed(tmp_path / "t-0")
    files = CountingFiles()
    again = open_replayed(log.directory, 390, files)
    assert 0 < again.recovered.scanned_bytes < 15 * len(batch())
    assert again.recovered.segments_scanned == 0
    assert files.log_bytes_read < 11_000  # Some of it twice: what no sync has covered is written again.
    assert again.next_offset == 400
    assert all_spans(again) == all_spans(log)
    assert again.max_timestamp() == log.max_timestamp()
    assert again.segments[0].first_timestamp_ms == log.segments[0].first_timestamp_ms
    fill(again, 20)
    assert again.next_offset == 420
    for offset in range(0, 420, 7):
        assert parse_header(again.read(offset, 1)).base_offset == offset


def test_an_index_that_a_crash_left_wrong_is_not_trusted_for_where_to_begin(tmp_path: Path) -> None:
    index = tmp_path / "t-0" / f"{FIRST}.index"
    log = killed(tmp_path / "t-0")
    spans, sound = all_spans(log), index.read_bytes()
    # Lost from some entry on, and whatever the disk has there instead.
    for length in range(0, len(sound), 4):
        for rest in (b"", bytes(len(sound) - length), b"\x00\x00\x01\x85\x00\x00\x10\x01"):
            index.write_bytes(sound[:length] + rest)
            again = open_replayed(log.directory, 390)
            assert all_spans(again) == spans
            assert parse_header(again.read(385, 1)).base_offset == 385


def test_every_flipped_byte_of_a_replayed_log_is_met_before_its_end(tmp_path: Path) -> None:
    """At the opening or by the replay: nothing below the recovery point is ever cut or changed."""
    log = killed(tmp_path / "t-0", batches=20)
    segment = tmp_path / "t-0" / f"{FIRST}.log"
    data, size_bytes = segment.read_bytes(), len(batch())
    for byte in range(len(data)):
        if 12 <= byte % size_bytes < 16:
            continue  # The leader epoch: no CRC covers it, and it is not used at all.
        damaged = bytearray(data)
        damaged[byte] ^= 0x41
        segment.write_bytes(damaged)
        with pytest.raises(CorruptSegment):
            all_spans(open_replayed(log.directory, 20))
        assert segment.read_bytes() == damaged


def test_damage_above_the_recovery_point_of_a_replayed_log_ends_it_there(tmp_path: Path) -> None:
    log = killed(tmp_path / "t-0", batches=20)
    segment = tmp_path / "t-0" / f"{FIRST}.log"
    damaged, size_bytes = bytearray(segment.read_bytes()), len(batch())
    damaged[17 * size_bytes + 30] ^= 1
    segment.write_bytes(damaged)
    again = open_replayed(log.directory, 15)
    assert (again.next_offset, again.recovered.cut_bytes) == (17, 3 * size_bytes)
    assert all_spans(again) == [(offset, offset) for offset in range(17)]


def test_a_marker_of_a_clean_shutdown_is_not_believed_when_the_end_is_another(tmp_path: Path) -> None:
    data, _ = written(tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", ONE_SEGMENT)
    log.close()
    (tmp_path / "t-0" / f"{FIRST}.log").write_bytes(data + b"more")
    log = after_a_crash(tmp_path / "t-0", log.recovery_point, clean=True)
    assert (log.recovered.segments_scanned, log.recovered.cut_bytes) == (1, 4)


# A loss of power, by the double.


@pytest.mark.parametrize("nth", range(80))
def test_a_loss_of_power_after_any_operation_keeps_what_was_acknowledged(tmp_path: Path, nth: int) -> None:
    """The power goes with the nth operation: nothing happens after it, nothing unsynced survives."""
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", SMALL, files)
    left = iter(range(nth))
    files.fault = lambda _: None if next(left, None) is not None else OSError(5, "off")
    acknowledged = appended = 0
    try:
        while appended < 16:
            log.append(batch(), wall_ms=NOW_MS)
            appended += 1
            log.flush()
            acknowledged = log.durable_offset
    except StorageError:
        assert log.durable_offset >= acknowledged
    files.fault = None
    files.crash()
    again = open_log(tmp_path / "t-0", SMALL, files)
    offsets = [base for base, _ in all_spans(again)]
    assert offsets == list(range(len(offsets)))
    assert acknowledged <= len(offsets) <= appended
    fill(again, 1)
    assert len(all_spans(again)) == len(offsets) + 1


def test_under_the_os_policy_a_loss_of_power_leaves_a_log_that_is_whole(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", OS_SMALL, files)
    fill(log, 30)
    synced = log.recovery_point
    files.crash()
    again = PartitionLog.open(tmp_path / "t-0", OS_SMALL, files, recovery_point=synced)
    assert [base for base, _ in all_spans(again)] == list(range(synced))


# A process that is killed.

WRITER = """
import sys
from pathlib import Path
from storage.files import Files
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from tests.storage.logs import NOW_MS, batch

config = LogConfig(segment_bytes=5000, index_interval_bytes=500, flush_messages=int(sys.argv[2]))
log = PartitionLog.open(Path(sys.argv[1]), config, Files())
while True:
    for _ in range(3):
        log.append(batch(2), wall_ms=NOW_MS)
    log.flush()
    print(log.durable_offset, flush=True)
"""


@pytest.mark.parametrize("flush_messages", [1, INT64_MAX])
@pytest.mark.parametrize("lines", [1, 7, 60])
def test_what_a_killed_process_acknowledged_is_there(tmp_path: Path, flush_messages: int, lines: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "t-0"), str(flush_messages)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert writer.stdout is not None
    try:
        for _ in range(lines):
            writer.stdout.readline()
    finally:
        writer.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in writer.stdout.read().split()]
        writer.wait(10)
    config = replace(SMALL, segment_bytes=5000, flush_messages=flush_messages)
    log = PartitionLog.open(tmp_path / "t-0", config, Files())
    found = all_spans(log)
    assert found == [(offset, offset + 1) for offset in range(0, log.next_offset, 2)]
    assert log.next_offset >= max([*acknowledged, 6 * lines])
