"""A check finds what is wrong, says where, and calls it an error only where something is lost or false."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.check.log import Finding, LogCheck, Severity, check_log
from storage.files import Files
from storage.log.config import LogConfig
from tests.storage.logs import fill, open_log
from tests.storage.transactions import end, put

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200, flush_messages=1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log of several segments that was closed in good order."""
    log = open_log(tmp_path / "t-0", CONFIG)
    fill(log, 60, records=2)
    log.close()
    assert len(log.segments) > 3
    return log.directory


def check(directory: Path, *, clean: bool = True, recovery_point: int = 120) -> list[Finding]:
    found, _ = check_log(LogCheck(Files(), directory, recovery_point, clean))
    return found


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def segments(directory: Path, suffix: str = ".log") -> list[Path]:
    return sorted(directory.glob(f"*{suffix}"))


def test_a_log_that_was_closed_has_nothing_wrong(directory: Path) -> None:
    findings, checked = check_log(LogCheck(Files(), directory, 120, True))
    assert findings == []
    assert (checked.batches, checked.first_offset, checked.next_offset) == (60, 0, 120)
    assert checked.missing_offsets == 0
    assert checked.size_bytes == sum(path.stat().st_size for path in segments(directory))


def test_the_check_says_how_far_it_is(directory: Path) -> None:
    steps: list[int] = []
    check_log(LogCheck(Files(), directory, advance=steps.append))
    assert sum(steps) == sum(path.stat().st_size for path in segments(directory))


def test_a_flipped_byte_is_an_error_with_file_byte_and_offset(directory: Path) -> None:
    path = segments(directory)[1]
    flip(path, 100)
    (finding,) = check(directory)
    base = int(path.stem)
    assert (finding.severity, finding.path, finding.byte, finding.offset) == (Severity.ERROR, path, 0, base)
    assert f"offsets {base}-{base + 1} lost" in finding.what
    assert "CRC" in finding.what


def test_a_tail_above_the_recovery_point_is_a_note_below_it_an_error(directory: Path) -> None:
    path = segments(directory)[-1]
    path.write_bytes(path.read_bytes()[:-5])
    (torn,) = check(directory, clean=False, recovery_point=100)
    assert torn.severity is Severity.NOTE
    assert "torn tail" in torn.what
    lost, end = check(directory, clean=False, recovery_point=120)
    assert lost.severity is end.severity is Severity.ERROR
    assert "the log ends at 118, all was synced up to 120" in end.what


def test_sound_batches_behind_damage_make_it_an_error_even_above_the_recovery_point(directory: Path) -> None:
    flip(segments(directory)[-1], 70)
    (finding,) = check(directory, clean=False, recovery_point=0)
    assert finding.severity is Severity.ERROR


def test_wrong_indexes_of_a_sealed_segment_are_errors(directory: Path) -> None:
    offsets, times = segments(directory, ".index")[0], segments(directory, ".timeindex")[1]
    assert offsets.stat().st_size >= 8
    flip(offsets, 7)  # A position.
    flip(times, 6)  # A timestamp.
    findings = check(directory)
    assert {finding.path for finding in findings} == {offsets, times}
    assert {finding.severity for finding in findings} == {Severity.ERROR}
    assert all(finding.what.startswith("index: ") for finding in findings)


def test_a_missing_index_is_an_error_but_for_a_segment_that_was_never_closed(directory: Path) -> None:
    segments(directory, ".index")[0].unlink()
    segments(directory, ".timeindex")[-1].unlink()
    first, last = check(directory, clean=False)
    assert (first.severity, last.severity) == (Severity.ERROR, Severity.NOTE)
    assert first.what == last.what == "index: the file is missing"


def test_zeros_that_kafka_allots_ahead_are_no_entries(directory: Path) -> None:
    index = segments(directory, ".index")[-1]
    index.write_bytes(index.read_bytes() + bytes(800))
    assert check(directory, clean=False) == []


def test_orphans_are_notes(directory: Path) -> None:
    for name in ("00000000000000099999.index", "00000000000000000000.log.cleaned", "what"):
        (directory / name).write_bytes(b"")
    findings = check(directory)
    assert [finding.severity for finding in findings] == [Severity.NOTE] * 3
    assert all("orphan" in finding.what for finding in findings)


def test_a_lost_segment_shows_as_missing_offsets(directory: Path) -> None:
    """Between segments only: nothing distinguishes it from compaction."""
    path = segments(directory)[1]
    missing = int(segments(directory)[2].stem) - int(path.stem)
    for suffix in (".log", ".index", ".timeindex"):
        path.with_suffix(suffix).unlink()
    findings, checked = check_log(LogCheck(Files(), directory, 120, True))
    assert findings == []
    assert checked.missing_offsets == missing


def test_a_gap_in_the_last_segment_is_an_error(directory: Path) -> None:
    path = segments(directory)[-1]
    data = path.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    path.write_bytes(data[:size] + data[2 * size :])
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink()
    gap, *_ = check(directory, clean=False)
    base = int(path.stem)
    assert (gap.severity, gap.byte, gap.offset) == (Severity.ERROR, size, base + 2)
    assert "missing, where compaction never comes" in gap.what


# Transactions.


@pytest.fixture
def with_transactions(tmp_path: Path) -> Path:
    """Aborted transactions over several segments, closed cleanly."""
    log = open_log(tmp_path / "t-0")
    for sequence in range(12):
        put(log, 1, sequence)
        fill(log, 2)
        if sequence % 2:
            end(log, 1, commit=sequence % 4 == 1)
            log.flush()
    log.close()
    return log.directory


def found_in(directory: Path) -> list[tuple[Severity, str, str]]:
    findings, _ = check_log(LogCheck(Files(), directory, 0, was_shut_down_cleanly=True))
    return [(each.severity, each.path.suffix, each.what) for each in findings]


def indexes_of(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*.txnindex") if path.stat().st_size)


def test_transaction_indexes_and_snapshots_that_are_right(with_transactions: Path) -> None:
    assert found_in(with_transactions) == []
    assert len(indexes_of(with_transactions)) >= 2


def test_an_aborted_transaction_that_no_index_has(with_transactions: Path) -> None:
    indexes_of(with_transactions)[0].unlink()
    ((severity, suffix, what),) = found_in(with_transactions)
    assert (severity, suffix) == (Severity.ERROR, ".txnindex")
    assert what.startswith("index: what producer 1 aborted at offset")


@pytest.mark.parametrize(
    ("byte", "words"),
    [(1, "version 1"), (9, "aborted nothing"), (17, "the transaction begins at"), (25, "aborted nothing")],
)
def test_an_entry_that_the_log_does_not_bear_out(with_transactions: Path, byte: int, words: str) -> None:
    path = indexes_of(with_transactions)[0]
    data = bytearray(path.read_bytes())
    data[byte] += 1
    path.write_bytes(data)
    found = found_in(with_transactions)
    assert all((severity, suffix) == (Severity.ERROR, ".txnindex") for severity, suffix, _ in found)
    assert words in found[0][2]


def test_a_damaged_snapshot_is_noted(with_transactions: Path) -> None:
    (path,) = with_transactions.glob("*.snapshot")
    path.write_bytes(path.read_bytes()[:-1])
    ((severity, suffix, _),) = found_in(with_transactions)
    assert (severity, suffix) == (Severity.NOTE, ".snapshot")
