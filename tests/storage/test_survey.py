"""A survey accounts for every byte of a segment: a batch that checks, or damage with its place and its reason."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from protocol.records.batch import set_base_offset
from storage.files import File, Files, StorageError
from storage.log.batch_walk import WINDOW_BYTES, Located
from storage.log.damage_scan import Damage, DamageScan, Found
from tests.storage.logs import batch

BATCHES = 6


def segment(path: Path, count: int = BATCHES, records: int = 3) -> list[bytes]:
    """Write a segment from offset 0 on; its batches."""
    parts = [batch(records, size_bytes=20 + number) for number in range(count)]
    for number, part in enumerate(parts):
        set_base_offset(part, number * records, 0)
    path.write_bytes(b"".join(parts))
    return [bytes(part) for part in parts]


def survey(path: Path, end_offset: int | None = None) -> list[Found]:
    file = Files().open(path)
    found = list(DamageScan(file, file.size_bytes(), 0, end_offset).run())
    file.close()
    return found


def spans(found: list[Found]) -> list[tuple[int, int]]:
    return [(part.position, part.end) for part in found]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def assert_covers(found: list[Found], size_bytes: int) -> None:
    """From the first byte to the last, without a gap."""
    assert [0, *(end for _, end in spans(found))] == [*(begin for begin, _ in spans(found)), size_bytes]


def test_a_sound_segment_is_all_batches(tmp_path: Path) -> None:
    parts = segment(tmp_path / "s")
    found = survey(tmp_path / "s")
    assert [bytes(part.data) for part in found if isinstance(part, Located)] == parts
    assert len(found) == BATCHES


def test_every_flipped_byte_costs_one_batch_at_most_or_is_outside_what_is_checked(tmp_path: Path) -> None:
    """The leader epoch alone (bytes 12-15) is neither under the CRC nor bound to anything else here."""
    path = tmp_path / "s"
    parts = segment(path)
    begin = len(parts[0]) + len(parts[1])
    whole = path.read_bytes()
    for position in range(begin, begin + len(parts[2])):
        flip(path, position)
        found = survey(path)
        assert_covers(found, len(whole))
        damages = [part for part in found if isinstance(part, Damage)]
        if 12 <= position - begin < 16:
            assert damages == []
        else:
            (damage,) = damages
            assert (damage.position, damage.end) == (begin, begin + len(parts[2])), position - begin
            assert (damage.first_offset, damage.last_offset) == (6, 8)
        path.write_bytes(whole)


def test_every_cut_loses_the_last_batch_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    parts = segment(path)
    whole = path.read_bytes()
    for size in range(len(whole) - len(parts[-1]) + 1, len(whole)):
        path.write_bytes(whole[:size])
        found = survey(path)
        assert_covers(found, size)
        assert isinstance(found[-1], Damage)
        assert found[-1].last_offset is None
        assert len(found) == BATCHES


def test_a_hole_of_zeros_ends_where_the_next_batch_begins(tmp_path: Path) -> None:
    path = tmp_path / "s"
    parts = segment(path)
    begin, end = len(parts[0]), sum(map(len, parts[:3])) - 7
    path.write_bytes(path.read_bytes()[:begin] + bytes(end - begin) + path.read_bytes()[end:])
    found = survey(path)
    damage = found[1]
    assert isinstance(damage, Damage)
    assert (damage.position, damage.end) == (begin, sum(map(len, parts[:3])))
    assert (damage.first_offset, damage.last_offset) == (3, 8)
    assert damage.reason.startswith("zeros")
    assert len(found) == BATCHES - 1


def test_offsets_beyond_the_next_segment_are_damage(tmp_path: Path) -> None:
    segment(tmp_path / "s")
    found = survey(tmp_path / "s", end_offset=17)
    assert isinstance(found[-1], Damage)
    assert (found[-1].first_offset, found[-1].last_offset) == (15, 16)
    assert "the segment ends at 16" in found[-1].reason


def test_blocks_that_the_disk_cannot_read_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    segment(path, count=200)
    bad = range(8192, 12288)
    honest = File.read_at

    def read_at(self: File, length: int, position: int) -> bytes:
        if position < bad.stop and bad.start < position + length:
            raise StorageError("read", self.path, "Input/output error", errno.EIO)
        return honest(self, length, position)

    whole = survey(path)
    monkeypatch.setattr(File, "read_at", read_at)
    found = survey(path)
    assert_covers(found, path.stat().st_size)
    (damage,) = [part for part in found if isinstance(part, Damage)]
    assert damage.reason == "the disk cannot read bytes 8192-12287: Input/output error"
    touched = [part for part in whole if part.position < bad.stop and bad.start < part.end]
    assert (damage.position, damage.end) == (touched[0].position, touched[-1].end)


def test_a_length_that_lies_far_ahead_costs_one_batch(tmp_path: Path) -> None:
    """The place it leads to lies in another window; the search comes back to what is near."""
    path = tmp_path / "s"
    parts = segment(path, count=300, records=100)
    data = bytearray(path.read_bytes())
    data[8:12] = (len(data) - 5000).to_bytes(4, "big")
    assert len(data) > WINDOW_BYTES
    path.write_bytes(data)
    found = survey(path)
    assert_covers(found, len(data))
    assert spans(found)[0] == (0, len(parts[0]))
    assert isinstance(found[0], Damage)
    assert len(found) == 300
