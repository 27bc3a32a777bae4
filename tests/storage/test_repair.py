"""A repair copies every batch that checks, says exactly what it could not, and never touches the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.check.log import LogCheck, check_log
from storage.check.repair import LogRepair, Loss, Repaired
from storage.files import Files, StorageError
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from tests.storage.logs import all_spans, fill, open_log
from tests.storage.test_check_log import CONFIG, flip, segments

BATCHES, END = 60, 120


@pytest.fixture
def source(tmp_path: Path) -> Path:
    log = PartitionLog.open(tmp_path / "t-0", CONFIG, Files(), topic_id=bytes(range(16)))
    fill(log, BATCHES, records=2)
    log.close()
    return log.directory


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def repair(source: Path, *, recovery_point: int = END) -> tuple[Repaired, Path]:
    """Repair, and hold the promises that do not depend on the damage."""
    before = contents(source)
    target = source.with_name("repaired-0")
    result = LogRepair(Files(), source, target, recovery_point).run()
    assert contents(source) == before
    findings, _ = check_log(LogCheck(Files(), target, recovery_point, was_shut_down_cleanly=True))
    assert findings == []
    return result, target


def spans_of(target: Path) -> list[tuple[int, int]]:
    """What recovery after a crash makes of it: the strictest way to open a log."""
    log = open_log(target, LogConfig())
    assert log.recovered.cut_bytes == 0
    return all_spans(log)


def test_a_sound_log_is_copied_byte_for_byte(source: Path) -> None:
    result, target = repair(source)
    assert result.losses == []
    assert (result.batches, result.records, result.next_offset) == (BATCHES, 2 * BATCHES, END)
    assert [path.read_bytes() for path in segments(target)] == [p.read_bytes() for p in segments(source)]
    for name in ("partition.metadata", "leader-epoch-checkpoint"):
        assert (target / name).read_bytes() == (source / name).read_bytes()


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_flipped_byte_costs_its_batch_and_is_reported(source: Path, number: int) -> None:
    path = segments(source)[number]
    flip(path, 80)
    result, target = repair(source)
    base = int(path.stem)
    size = 12 + int.from_bytes(path.read_bytes()[8:12], "big")
    assert result.losses == [Loss(path, 0, size, base, base + 1, "CRC-32C is wrong")]
    everything = [(offset, offset + 1) for offset in range(0, END, 2)]
    assert spans_of(target) == [span for span in everything if span != (base, base + 1)]


def test_a_lost_end_is_not_given_again(source: Path) -> None:
    path = segments(source)[-1]
    path.write_bytes(path.read_bytes()[:-1])
    result, target = repair(source)
    (loss,) = result.losses
    assert (loss.first_offset, loss.last_offset) == (END - 2, END - 1)
    assert open_log(target, LogConfig()).next_offset == END


def test_lost_segments_at_the_end_are_reported_and_their_offsets_kept_free(source: Path) -> None:
    gone = segments(source)[-1]
    base = int(gone.stem)
    gone.unlink()
    result, target = repair(source)
    assert result.losses == [Loss(source, 0, 0, base, END - 1, "synced once, and not there any more")]
    assert open_log(target, LogConfig()).next_offset == END


def test_nothing_but_zeros_leaves_an_empty_log_at_its_end(source: Path) -> None:
    for path in segments(source):
        path.write_bytes(bytes(path.stat().st_size))
    result, target = repair(source)
    assert len(result.losses) == len(segments(source))
    assert sum(loss.end_byte - loss.first_byte for loss in result.losses) == sum(
        path.stat().st_size for path in segments(source)
    )
    assert spans_of(target) == []
    assert open_log(target, LogConfig()).next_offset == END


def test_a_gap_in_the_last_segment_is_reported_and_the_copy_opens(source: Path) -> None:
    path = segments(source)[-1]
    data, base = path.read_bytes(), int(path.stem)
    size = 12 + int.from_bytes(data[8:12], "big")
    path.write_bytes(data[:size] + data[2 * size :])
    result, target = repair(source)
    assert result.losses == [Loss(path, size, size, base + 2, base + 3, "there is no batch that has them")]
    assert (base + 4, base + 5) in spans_of(target)


def test_files_that_are_no_part_of_the_log_are_left_behind_and_reported(source: Path) -> None:
    (source / "00000000000000000000.log.torn-0").write_bytes(b"x")
    (source / "00000000000000000000.txnindex").write_bytes(b"")
    result, target = repair(source)
    assert result.left_behind == [source / "00000000000000000000.log.torn-0"]
    assert (target / "00000000000000000000.txnindex").exists()


def test_a_compaction_that_was_cut_short_is_read_as_if_it_were_done(source: Path) -> None:
    """Its announced file stands for all that begin within its offsets, gone or not."""
    first, second, third, *_ = segments(source)
    swap = first.with_name(f"{first.name}.swap")
    end = int(third.stem)
    size = 12 + int.from_bytes(first.read_bytes()[8:12], "big")  # Of every batch here.
    swap.write_bytes(first.read_bytes()[:size] + second.read_bytes()[-size:])
    first.unlink()
    result, target = repair(source)
    assert (result.losses, result.left_behind) == ([], [])
    assert spans_of(target) == [(0, 1), *((offset, offset + 1) for offset in range(end - 2, END, 2))]
    findings, _ = check_log(LogCheck(Files(), source, END, was_shut_down_cleanly=True))
    (note,) = [finding for finding in findings if finding.path == swap]
    assert "which the next start finishes" in note.what


def test_a_swap_file_that_does_not_check_is_used_only_where_nothing_else_is_left(source: Path) -> None:
    first = segments(source)[0]
    first.with_name(f"{first.name}.swap").write_bytes(first.read_bytes()[:-1])
    result, _ = repair(source)
    assert (result.losses, len(result.left_behind), result.batches) == ([], 1, BATCHES)


def test_every_operation_that_fails_leaves_the_source_as_it_was(source: Path) -> None:
    before = contents(source)
    files = FaultyFiles(source.parent)
    LogRepair(files, source, source.with_name("whole-0"), END).run()
    for number in range(len(files.operations)):
        files = FaultyFiles(source.parent)
        files.fail(number)
        with pytest.raises(StorageError):
            LogRepair(files, source, source.with_name(f"failed-{number}"), END).run()
        assert contents(source) == before
