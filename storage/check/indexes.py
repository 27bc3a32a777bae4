"""Holds the index files of one segment against its batches, as these are walked; builds and changes nothing.

Entries come in the order of the log, so one pass over the batches checks them all. Kafka allots index
files ahead and trims them when the segment is closed: zeros at a file's end are no entries.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from protocol.records.batch import NO_TIMESTAMP
from storage.files import Files
from storage.index.indexes import OFFSET_ENTRY, TIME_ENTRY
from storage.index.segment_indexes import index_paths

MAX_REPORTED: Final = 3  # Wrong entries that are reported per file: any number has the index built again.


class IndexFault(NamedTuple):
    """What is wrong with an index file, from which byte on, and the offset it is about."""

    path: Path
    byte: int
    offset: int | None
    what: str


class IndexCheck:
    """A check of both indexes of one segment: call `batch` for each in order, then `end`, and see `faults`."""

    def __init__(self, files: Files, directory: Path, base_offset: int) -> None:
        self.is_allotted_ahead = False  # There are zeros behind the entries: the segment was not closed.
        self.faults: list[IndexFault] = []
        self._base_offset = base_offset
        self._offsets_path, self._times_path = index_paths(directory, base_offset)
        self._offsets = deque(
            (byte, relative + base_offset, position)
            for byte, relative, position in self._entries(files, self._offsets_path, OFFSET_ENTRY)
        )
        self._times = deque(
            (byte, timestamp_ms, relative + base_offset)
            for byte, timestamp_ms, relative in self._entries(files, self._times_path, TIME_ENTRY)
        )
        self._newest = NO_TIMESTAMP  # The newest timestamp of the batches so far.
        self._last_offset = base_offset - 1

    def batch(self, position: int, base_offset: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Check the index entries up to the next batch, which begins at byte `position` of the log."""
        while self._times and self._times[0][2] < last_offset:
            self._check_time(*self._times.popleft())
        while self._offsets and self._offsets[0][2] <= position:
            byte, offset, at = self._offsets.popleft()
            if at < position:
                self._add_fault(self._offsets_path, byte, offset, f"no batch begins at byte {at} of the log")
            elif not base_offset <= offset <= last_offset:
                what = f"byte {at} of the log holds offsets {base_offset}-{last_offset}, not {offset}"
                self._add_fault(self._offsets_path, byte, offset, what)
        self._newest = max(self._newest, max_timestamp_ms)
        self._last_offset = last_offset

    def damage(self, end: int, last_offset: int | None) -> None:
        """Skip entries that lead into damage of the log, up to byte `end` and `last_offset` (None: to its end)."""
        while self._offsets and self._offsets[0][2] < end:
            self._offsets.popleft()
        while self._times and (last_offset is None or self._times[0][2] <= last_offset):
            self._times.popleft()

    def end(self) -> None:
        """Check the remaining entries, after the last batch."""
        for byte, offset, at in self._offsets:
            self._add_fault(self._offsets_path, byte, offset, f"byte {at} lies beyond the log's last batch")
        for byte, timestamp_ms, offset in self._times:
            if offset > self._last_offset:
                what = f"offset {offset} lies beyond the log's last, {self._last_offset}"
                self._add_fault(self._times_path, byte, offset, what)
            else:
                self._check_time(byte, timestamp_ms, offset)

    def _check_time(self, byte: int, timestamp_ms: int, offset: int) -> None:
        if self._newest > timestamp_ms:
            what = f"a record up to offset {offset} is of {self._newest}, newer than {timestamp_ms}"
            self._add_fault(self._times_path, byte, offset, what)

    def _entries(self, files: Files, path: Path, entry: Struct) -> list[tuple[int, int, int]]:
        """Return byte, first and second number of each entry, up to the first entry that cannot be right."""
        data = files.read_small(path)
        if data is None:
            self._add_fault(path, 0, self._base_offset, "the file is missing")
            return []
        used = -(-len(data.rstrip(b"\0")) // entry.size) * entry.size
        self.is_allotted_ahead |= used < len(data)
        whole = min(used, len(data) - len(data) % entry.size)
        if len(data) % entry.size:
            self._add_fault(path, whole, None, f"{len(data)} bytes are no whole number of entries")
        entries = [(byte, *entry.unpack_from(data, byte)) for byte in range(0, whole, entry.size)]
        for count, (one, next_one) in enumerate(pairwise(entries), 1):
            if next_one[1] <= one[1] or next_one[2] <= one[2]:
                self._add_fault(path, next_one[0], None, "the entries do not rise")
                return entries[:count]
        return entries

    def _add_fault(self, path: Path, byte: int, offset: int | None, what: str) -> None:
        if sum(fault.path == path for fault in self.faults) < MAX_REPORTED:
            self.faults.append(IndexFault(path, byte, offset, what))
