"""Every byte of small indexes flipped, and every length they may be cut to: no look-up is ever wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.files import CorruptSegment
from storage.log.partition_log import PartitionLog
from tests.storage.logs import NOW_MS, SMALL, batch, open_log

BATCHES = 30
TIMES_MS = [NOW_MS + 10 * number for number in range(BATCHES)]
OUT_OF_ORDER_MS = [*TIMES_MS[10:20], *TIMES_MS[:10], *TIMES_MS[20:]]


def flipped(data: bytes, byte: int) -> bytes:
    return data[:byte] + bytes([data[byte] ^ 0x01]) + data[byte + 1 :]


def cut(data: bytes, length: int) -> bytes:
    return data[:length]


@pytest.fixture(params=["rising", "out of order"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[int]]:
    """The directory of a log after a clean shutdown, and its records' timestamps."""
    times_ms = TIMES_MS if request.param == "rising" else OUT_OF_ORDER_MS
    log = open_log(tmp_path / "whole", SMALL, FaultyFiles(tmp_path))
    for time_ms in times_ms:
        log.append(batch(timestamp_ms=time_ms), wall_ms=NOW_MS)
        log.flush()
    assert len(log.segments) > 2
    log.close()
    return log.directory, times_ms


def reopened(directory: Path, *, clean: bool) -> PartitionLog:
    """As the next start opens it."""
    files = FaultyFiles(directory.parent)
    return PartitionLog.open(directory, SMALL, files, recovery_point=BATCHES, shut_down_cleanly=clean)


def check_answers(log: PartitionLog, times_ms: list[int]) -> None:
    for offset in range(BATCHES):
        assert log.read(offset, 1)[:8] == offset.to_bytes(8, "big")
    for time_ms in (NOW_MS - 1, *TIMES_MS, *(time_ms + 5 for time_ms in TIMES_MS)):
        expected = next(((n, at_ms) for n, at_ms in enumerate(times_ms) if at_ms >= time_ms), None)
        assert log.offset_for_timestamp(time_ms) == expected, time_ms
    assert log.max_timestamp() == (times_ms.index(max(times_ms)), max(times_ms))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [flipped, cut])
def test_no_damage_to_an_index_makes_an_answer_wrong(
    tmp_path: Path, whole: tuple[Path, list[int]], damage: Callable[[bytes, int], bytes], clean: bool
) -> None:
    source, times_ms = whole
    scratch = tmp_path / "scratch"
    names = sorted(path.name for path in source.iterdir() if path.suffix in (".index", ".timeindex"))
    assert sum((source / name).stat().st_size for name in names) > 100
    for name in names:
        data = (source / name).read_bytes()
        for place in range(len(data)):
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(source, scratch)
            (scratch / name).write_bytes(damage(data, place))
            try:
                check_answers(reopened(scratch, clean=clean), times_ms)
            except (AssertionError, CorruptSegment) as error:
                error.add_note(f"{damage.__name__} {name} at {place} of {len(data)}")
                raise
