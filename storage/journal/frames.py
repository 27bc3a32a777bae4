"""Frames of the journal, as bytes: what one turn of the loop appended to the logs of shards.

A frame has a header (the file's mark, CRC-32C of all that follows it, length of the body, sequence, number of
parts) and a body of parts. A part is the name of a log's directory and batches of that log, in Kafka's form.
Sequences rise by one from frame to frame, also from file to file, so that no frame can be missing unnoticed. A
file begins with a header of its own, which says whose journal it is, and the mark that each of its frames begins
with: it is drawn for each file, so that no record that a client sends can look like a frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from google_crc32c import extend
from google_crc32c import value as crc32c

from storage.files import Buffer

MARK_BYTES: Final = 8
FILE_MAGIC: Final = b"MUSTERJ1"

# Mark of the file; CRC of all that follows it; bytes of the body; sequence; number of parts.
FRAME_HEADER: Final = Struct(">8sIIQI")
CRC_END: Final = 12
# Bytes of the log's name, bytes of its batches.
PART_HEADER: Final = Struct(">HI")
# Magic; CRC of all that follows it; number of the file; sequence of its first frame; whether each frame was synced
# before it counted; mark of its frames; bytes of the directory's id.
FILE_HEADER: Final = Struct(">8sIQQ?8sH")
FILE_CRC_END: Final = 12
MAX_BODY_BYTES: Final = (1 << 32) - 1


class Part(NamedTuple):
    """Batches of one log: whole, in order, one after the other."""

    log_name: str
    batches: Sequence[Buffer]


class FileHeader(NamedTuple):
    """Who wrote a file of the journal, and how."""

    number: int
    first_sequence: int
    is_synced: bool  # Whether a frame was synced before anybody heard of it.
    mark: bytes  # MARK_BYTES that each frame begins with.
    directory_id: str


class Frame(NamedTuple):
    """A frame found at byte `position` of a file; `parts` are views of what was read."""

    position: int
    end: int
    sequence: int
    parts: list[tuple[str, memoryview]]


class BadFrame(ValueError):
    """Bytes that are no frame, or half of one; the message says why."""


def encode_frame(mark: bytes, sequence: int, parts: Sequence[Part]) -> list[Buffer]:
    """Return the buffers of a frame; batches are not copied."""
    buffers: list[Buffer] = [b""]
    body_bytes = crc = 0
    for name, batches in parts:
        encoded = name.encode()
        size_bytes = sum(map(len, batches))
        head = PART_HEADER.pack(len(encoded), size_bytes) + encoded
        buffers.append(head)
        buffers += batches
        body_bytes += len(head) + size_bytes
    rest = FRAME_HEADER.pack(mark, 0, body_bytes, sequence, len(parts))[CRC_END:]
    crc = crc32c(rest)
    for buffer in buffers[1:]:
        crc = extend(crc, bytes(buffer))
    buffers[0] = mark + crc.to_bytes(4, "big") + rest
    return buffers


def decode_frame(data: memoryview, position: int, mark: bytes) -> Frame:
    """Read the frame at `position` of `data`, a whole file whose mark is `mark`. Raises BadFrame."""
    if len(data) - position < FRAME_HEADER.size:
        raise BadFrame(f"{len(data) - position} bytes are no frame")
    found, crc, body_bytes, sequence, count = FRAME_HEADER.unpack_from(data, position)
    at, end = position + FRAME_HEADER.size, position + FRAME_HEADER.size + body_bytes
    if found != mark:
        raise BadFrame("no frame begins here")
    if end > len(data):
        raise BadFrame(f"a frame of {end - position} bytes, of which {len(data) - position} are there")
    if crc32c(bytes(data[position + CRC_END : end])) != crc:
        raise BadFrame("the checksum of a frame is wrong")
    parts: list[tuple[str, memoryview]] = []
    for _ in range(count):
        if end - at < PART_HEADER.size:
            raise BadFrame("a frame ends within a part")
        name_bytes, size_bytes = PART_HEADER.unpack_from(data, at)
        at += PART_HEADER.size
        if end - at < name_bytes + size_bytes:
            raise BadFrame("a part ends beyond its frame")
        name = bytes(data[at : at + name_bytes]).decode()
        at += name_bytes
        parts.append((name, data[at : at + size_bytes]))
        at += size_bytes
    if at != end:
        raise BadFrame("a frame has bytes behind its parts")
    return Frame(position, end, sequence, parts)


def walk_frames(data: memoryview, position: int, sequence: int, mark: bytes) -> Iterator[Frame]:
    """Yield frames from `position` on, the first of them with `sequence`. Raises BadFrame where one is no good."""
    while position < len(data):
        frame = decode_frame(data, position, mark)
        if frame.sequence != sequence:
            raise BadFrame(f"frame {frame.sequence} where {sequence} was to come")
        yield frame
        position, sequence = frame.end, sequence + 1


def has_frame_behind(data: memoryview, position: int, sequence: int, mark: bytes) -> bool:
    """Whether a whole frame of `sequence` or later begins behind `position`: then it is no torn end."""
    raw = bytes(data)
    at = raw.find(mark, position + 1)
    while at >= 0:
        try:
            if decode_frame(data, at, mark).sequence >= sequence:
                return True
        except (BadFrame, UnicodeDecodeError):
            pass  # It is damaged, too.
        at = raw.find(mark, at + 1)
    return False


def encode_file_header(header: FileHeader) -> bytes:
    number, first_sequence, is_synced, mark, directory_id = header
    encoded = directory_id.encode()
    data = FILE_HEADER.pack(FILE_MAGIC, 0, number, first_sequence, is_synced, mark, len(encoded)) + encoded
    crc: int = crc32c(data[FILE_CRC_END:])
    return FILE_MAGIC + crc.to_bytes(4, "big") + data[FILE_CRC_END:]


def decode_file_header(data: memoryview) -> tuple[FileHeader, int]:
    """Return the header and the byte after it. Raises BadFrame."""
    if len(data) < FILE_HEADER.size:
        raise BadFrame("too short for a header")
    magic, crc, number, first_sequence, is_synced, mark, id_bytes = FILE_HEADER.unpack_from(data)
    end = FILE_HEADER.size + id_bytes
    if magic != FILE_MAGIC or end > len(data) or crc32c(bytes(data[FILE_CRC_END:end])) != crc:
        raise BadFrame("no header of a journal")
    directory_id = bytes(data[FILE_HEADER.size : end]).decode()
    return FileHeader(number, first_sequence, is_synced, mark, directory_id), end
