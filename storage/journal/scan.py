"""Looks through one file of the journal and changes nothing: its frames, and what is wrong with it.

A start and the tools that only read share this: the first refuses or cuts what the second name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from storage.files import CorruptSegment, File, StorageError
from storage.journal.frames import (
    FILE_HEADER,
    BadFrame,
    FileHeader,
    Frame,
    decode_file_header,
    has_frame_behind,
    walk_frames,
)
from storage.log.batch_walk import WINDOW_BYTES
from storage.log.segment import BLOCK_BYTES

UUID_BYTES: Final = 22


class ForeignJournal(StorageError):
    """The journal belongs to another log directory."""

    def __init__(self, path: Path, found: str, wanted: str) -> None:
        reason = f"the journal of directory {found}, but meta.properties says that this is {wanted}"
        super().__init__("use", path, reason)


class Place(NamedTuple):
    """Which file it is, and what is known of it by those before it."""

    path: Path
    number: int
    expected: int | None  # The sequence of its first frame; None for the first file.
    is_last: bool
    directory_id: str | None  # Of the directory that it lies in, None if that is not known.


class FileScan(NamedTuple):
    """What a file holds. With a `fault` no start is possible, and `frames` are those before it."""

    header: FileHeader | None
    """None of a last file that was being made: there is nothing in it that counts."""
    frames: list[Frame]
    end: int
    """The byte after the last frame; what follows it is torn, and does not count."""
    next_sequence: int | None
    torn: str | None = None
    """Why there is no frame at `end`, if anything is there."""
    fault: StorageError | None = None


def read_whole(file: File) -> tuple[memoryview, StorageError | None]:
    """Return the bytes of `file` up to the first that the disk does not give, and the error that names it."""
    data = bytearray()
    size_bytes = file.size_bytes()
    while len(data) < size_bytes:
        try:
            more = file.read_at(min(WINDOW_BYTES, size_bytes - len(data)), len(data))
        except StorageError:
            return _read_blocks(file, data)
        if not more:
            break
        data += more
    return memoryview(data), None


def _read_blocks(file: File, data: bytearray) -> tuple[memoryview, StorageError | None]:
    """Add to `data` block by block, up to the one that cannot be read."""
    while True:
        try:
            more = file.read_at(BLOCK_BYTES, len(data))
        except StorageError as error:
            reason = f"byte {len(data)} cannot be read: {error.reason}"
            return memoryview(data), StorageError("read", file.path, reason, error.errno)
        if not more:
            return memoryview(data), None
        data += more


def scan_file(place: Place, data: memoryview) -> FileScan:
    """Look through `data`, a whole file."""
    path, is_last = place.path, place.is_last
    try:
        header, position = decode_file_header(data)
    except BadFrame as error:
        # The file was being made: nothing can have been written to it that counts.
        is_damaged = not is_last or len(data) > FILE_HEADER.size + _id_bytes(place.directory_id)
        fault = CorruptSegment(path, 0, str(error)) if is_damaged else None
        return FileScan(None, [], 0, place.expected, str(error), fault)
    if place.directory_id not in (None, header.directory_id):
        foreign = ForeignJournal(path, header.directory_id, place.directory_id or "")
        return FileScan(header, [], position, place.expected, None, foreign)
    if header.number != place.number or place.expected not in (None, header.first_sequence):
        first, expected = header.first_sequence, place.expected
        detail = f"file {header.number} with frames from {first} on, {expected} was to come"
        return FileScan(header, [], position, expected, None, CorruptSegment(path, 0, detail))
    frames: list[Frame] = []
    sequence = header.first_sequence
    try:
        for frame in walk_frames(data, position, sequence, header.mark):
            frames.append(frame)
            position, sequence = frame.end, frame.sequence + 1
    except (BadFrame, UnicodeDecodeError) as error:
        is_damaged = not is_last or (
            header.is_synced and has_frame_behind(data, position, sequence, header.mark)
        )
        fault = CorruptSegment(path, position, str(error)) if is_damaged else None
        return FileScan(header, frames, position, sequence, str(error), fault)
    return FileScan(header, frames, position, sequence)


def _id_bytes(directory_id: str | None) -> int:
    """Return the length of a directory's id as a header has it: Kafka writes 16 bytes in base 64."""
    return UUID_BYTES if directory_id is None else len(directory_id.encode())
