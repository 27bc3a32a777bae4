"""Frames of the journal as bytes: what goes in comes out, and nothing that was changed does."""

from __future__ import annotations

import pytest
from google_crc32c import value as crc32c

from storage.journal.frames import (
    FRAME_HEADER,
    BadFrame,
    FileHeader,
    Part,
    decode_file_header,
    decode_frame,
    encode_file_header,
    encode_frame,
    has_frame_behind,
    walk_frames,
)
from tests.storage.journals import MARK

PARTS = [Part("__consumer_offsets-7", [b"one", bytearray(b"two")]), Part("é-0", [memoryview(b"three")])]
READ = [("__consumer_offsets-7", b"onetwo"), ("é-0", b"three")]
HEADER = FileHeader(3, 17, True, MARK, "directory")


def whole(sequence: int = 5, parts: list[Part] | None = None) -> bytes:
    return b"".join(encode_frame(MARK, sequence, PARTS if parts is None else parts))


def flipped(data: bytes, byte: int) -> memoryview:
    return memoryview(data[:byte] + bytes([data[byte] ^ 0x10]) + data[byte + 1 :])


def test_a_frame_is_read_as_it_was_written() -> None:
    data = b"before" + whole() + b"behind"
    frame = decode_frame(memoryview(data), 6, MARK)
    assert (frame.position, frame.end, frame.sequence) == (6, len(data) - 6, 5)
    assert [(name, bytes(batches)) for name, batches in frame.parts] == READ


def test_the_batches_of_a_frame_are_not_copied() -> None:
    first, second = bytearray(b"large"), memoryview(b"as it is")
    buffers = encode_frame(MARK, 1, [Part("t-0", [first, second])])
    assert any(each is first for each in buffers)
    assert any(each is second for each in buffers)


def test_a_frame_may_be_empty() -> None:
    assert decode_frame(memoryview(whole(9, [])), 0, MARK).parts == []


def test_no_bit_of_a_frame_can_change_unnoticed() -> None:
    data = whole()
    for byte in range(len(data)):
        with pytest.raises(BadFrame):
            decode_frame(flipped(data, byte), 0, MARK)


def test_a_frame_that_is_cut_anywhere_is_no_frame() -> None:
    data = whole()
    for end in range(len(data)):
        with pytest.raises(BadFrame):
            decode_frame(memoryview(data)[:end], 0, MARK)


@pytest.mark.parametrize(
    ("count", "body", "why"),
    [
        (1, b"", "ends within a part"),
        (1, b"\0\1\0\0\0\2tx", "ends beyond its frame"),
        (1, b"\0\1\0\0\0\1txy", "bytes behind its parts"),
        (0, b"x", "bytes behind its parts"),
    ],
)
def test_a_frame_with_the_right_checksum_must_still_make_sense(count: int, body: bytes, why: str) -> None:
    data = bytearray(b"".join(encode_frame(MARK, 1, [Part("t", [])])))[: FRAME_HEADER.size] + body
    FRAME_HEADER.pack_into(data, 0, MARK, 0, len(body), 1, count)
    data[8:12] = int(crc32c(bytes(data[12:]))).to_bytes(4, "big")
    with pytest.raises(BadFrame, match=why):
        decode_frame(memoryview(bytes(data)), 0, MARK)


def test_frames_follow_one_another() -> None:
    data = memoryview(whole(5) + whole(6) + whole(7))
    assert [frame.sequence for frame in walk_frames(data, 0, 5, MARK)] == [5, 6, 7]


@pytest.mark.parametrize("second", [5, 7, 4])
def test_a_frame_that_is_missing_or_there_twice_is_noticed(second: int) -> None:
    walk = walk_frames(memoryview(whole(5) + whole(second)), 0, 5, MARK)
    assert next(walk).sequence == 5
    with pytest.raises(BadFrame, match=f"frame {second} where 6 was to come"):
        next(walk)


def test_a_whole_frame_behind_tells_damage_from_a_torn_end() -> None:
    torn, behind = whole(5)[:-1], whole(6)
    assert has_frame_behind(memoryview(torn + behind), 0, 5, MARK)
    assert not has_frame_behind(memoryview(torn), 0, 5, MARK)
    assert not has_frame_behind(memoryview(torn + behind[:-1]), 0, 5, MARK)
    assert not has_frame_behind(memoryview(torn + whole(4)), 0, 5, MARK), "left of what was there before"
    assert not has_frame_behind(memoryview(whole(5)), 0, 5, MARK), "not the frame itself"


def test_the_start_of_a_damaged_frame_hides_none_that_follows() -> None:
    assert has_frame_behind(memoryview(b"torn" + MARK + b"torn" + MARK + whole(6)), 0, 5, MARK)


def test_a_file_s_header_is_read_as_it_was_written() -> None:
    data = encode_file_header(HEADER)
    assert decode_file_header(memoryview(data + b"frames")) == (HEADER, len(data))
    unsynced = HEADER._replace(is_synced=False, directory_id="é")
    assert decode_file_header(memoryview(encode_file_header(unsynced)))[0] == unsynced


def test_no_bit_of_a_file_s_header_can_change_unnoticed_nor_can_it_be_cut() -> None:
    data = encode_file_header(HEADER)
    for byte in range(len(data)):
        with pytest.raises(BadFrame):
            decode_file_header(flipped(data, byte))
        with pytest.raises(BadFrame):
            decode_file_header(memoryview(data)[:byte])
