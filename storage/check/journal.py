"""Reads a directory's journal for those who change nothing, and says what a start would make of it.

A start cuts a torn end, refuses a journal that is damaged or another directory's, and writes to each log what
its segments lack. Here the first two are faults, beside which all that was read before them is there; and
`go_on` yields the third.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from protocol.records.batch import read_batch
from storage.files import CorruptSegment, Files, StorageError
from storage.journal.files import DIRECTORY, number_of
from storage.journal.frames import FRAME_HEADER, PART_HEADER, Frame
from storage.journal.scan import FileScan, Place, read_whole, scan_file
from storage.log.batch_walk import Located
from storage.log.damage_scan import Damage
from storage.log.segment_files import scan_segment_file, segment_files

TRIES: Final = 5
"""How often a reading begins again because the server that writes the journal removed a file meanwhile."""


class JournalBatch(NamedTuple):
    """A batch and the file of the journal that it was found in."""

    path: Path
    found: Located


@dataclass(frozen=True, slots=True)
class JournalFault:
    """Bytes of a file that are no part of a journal, or not of this one."""

    path: Path
    byte: int
    what: str
    is_torn: bool  # Nobody has heard of it: the next start cuts it. Any other fault refuses a start.


@dataclass(slots=True)
class JournalContent:
    """What a directory's journal holds, by the name of each log's directory. Empty where there is no journal."""

    batches: dict[str, list[JournalBatch]] = field(default_factory=dict)
    faults: list[JournalFault] = field(default_factory=list)

    @property
    def refusals(self) -> list[JournalFault]:
        """The faults for which a start is refused; what stands behind them was not read."""
        return [fault for fault in self.faults if not fault.is_torn]


class _Removed(Exception):
    """A file went away between the listing and the reading: its server needs it no longer."""


def read_journal(files: Files, log_directory: Path, directory_id: str | None) -> JournalContent:
    """Read the journal in `log_directory`, whose own id is `directory_id` if it is known.

    Read it before the segments: what goes from it meanwhile is in them. Raises StorageError where it cannot
    be listed.
    """
    for _ in range(TRIES):
        try:
            return _read(files, log_directory / DIRECTORY, directory_id)
        except _Removed:
            continue
    raise StorageError("read", log_directory / DIRECTORY, "its files come and go too quickly")


def _read(files: Files, path: Path, directory_id: str | None) -> JournalContent:
    content = JournalContent()
    names = files.entries(path) or []
    numbers = sorted((number, name) for name in names if (number := number_of(name)) is not None)
    expected: int | None = None
    for number, name in numbers:
        place = Place(path / name, number, expected, name == numbers[-1][1], directory_id)
        scan = _scan(files, place, content)
        if scan is None:
            break
        for frame in scan.frames:
            _add_batches(content, place.path, frame)
        if content.refusals:
            break
        expected = scan.next_sequence
    return content


def _scan(files: Files, place: Place, content: JournalContent) -> FileScan | None:
    """Look through one file; its fault is added to `content`. None if it cannot be opened."""
    try:
        file = files.open_to_read(place.path)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            raise _Removed from None
        content.faults.append(JournalFault(place.path, 0, error.reason, False))
        return None
    try:
        data, unreadable = read_whole(file)
    finally:
        file.close()
    scan = scan_file(place, data)
    if unreadable is not None:
        content.faults.append(JournalFault(place.path, len(data), unreadable.reason, False))
    elif scan.fault is not None:
        byte = scan.fault.byte if isinstance(scan.fault, CorruptSegment) else 0
        content.faults.append(JournalFault(place.path, byte, scan.fault.reason, False))
    elif scan.torn is not None:
        what = f"bytes {scan.end}-{max(len(data), 1) - 1}: {scan.torn}"
        content.faults.append(JournalFault(place.path, scan.end, what, True))
    return scan


def _add_batches(content: JournalContent, path: Path, frame: Frame) -> None:
    at = frame.position + FRAME_HEADER.size
    for name, data in frame.parts:
        at += PART_HEADER.size + len(name.encode())
        position = 0
        while position < len(data):
            batch = read_batch(data, position)
            if batch is None:
                what = f"frame {frame.sequence} has no batch at byte {at + position}"
                content.faults.append(JournalFault(path, frame.position, what, False))
                return
            found = Located(at + position, batch, data[position : batch.end])
            content.batches.setdefault(name, []).append(JournalBatch(path, found))
            position = batch.end
        at += len(data)


def end_of_segments(files: Files, directory: Path) -> int:
    """Return the offset at which a start finds the end of a log: behind the last batch, or at the first damage."""
    segments = segment_files(files, directory)
    if not segments:
        return 0
    end = segments[-1].base_offset
    for found in scan_segment_file(files, segments[-1]):
        if isinstance(found, Damage):
            break
        end = found.batch.last_offset + 1
    return end


def go_on(content: JournalContent, name: str, end: int) -> Iterator[tuple[Path, Located | Damage]]:
    """Yield what the journal has of the log `name` from offset `end` on, where its segments end.

    Where a batch does not continue the log, a damage without bytes says so before it.
    """
    for path, found in content.batches.get(name, ()):
        batch = found.batch
        if batch.last_offset < end:
            continue
        if batch.base_offset != end:
            what = f"the journal goes on with {batch.base_offset}, the log ends before {end}"
            yield path, Damage(found.position, found.position, end, batch.base_offset - 1, what)
        yield path, found
        end = batch.last_offset + 1
