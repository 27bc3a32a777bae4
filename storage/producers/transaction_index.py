"""The aborted transactions of one segment, in memory and in Kafka's `.txnindex` file.

A reader that takes committed records only has to know which transactions among them were taken back. An entry
says: the records of this producer from this offset on, up to the marker at that one. It stands with the segment
that holds the marker, and in the order of the markers; `last_stable_offset` says how far a search must look.

There is no file while there is no entry. Entries below a producer snapshot were synced before it, and what lies
above is found again in the log: so nothing here is ever waited for. One thread adds while others look up.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from storage.files import Files
from storage.index.indexes import CorruptIndex

TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
ENTRY: Final = Struct(">hqqqq")  # Version, producer, first offset, offset of the marker, last stable offset.
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction. `last_offset` is its marker's; with the marker, all below `last_stable_offset` was
    decided."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index of the segment that begins at `base_offset`. Methods that reach the disk raise StorageError."""

    def __init__(self, files: Files, directory: Path, base_offset: int) -> None:
        self.path = transaction_index_path(directory, base_offset)
        self._files = files
        self._base_offset = base_offset
        self._entries = bytearray()
        self._saved_bytes = 0
        self._is_synced = True

    def __len__(self) -> int:
        return len(self._entries) // ENTRY.size

    def __getitem__(self, place: int) -> AbortedTransaction:
        return AbortedTransaction(*ENTRY.unpack_from(self._entries, place * ENTRY.size)[1:])

    def load(self) -> None:
        """Read the file, if there is one. Raises CorruptIndex if its entries cannot be right."""
        data = self._files.read_small(self.path) or b""
        check_entries(data, self._base_offset)
        self._entries = bytearray(data)
        self._saved_bytes = len(data)

    def add(self, entry: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker is in this segment, after the markers of all others."""
        self._entries += ENTRY.pack(VERSION, *entry)

    def forget_from(self, offset: int) -> None:
        """Keep only the transactions that ended before `offset`; `truncate_file` follows."""
        kept = bisect_left(range(len(self)), offset, key=self._last_offset)
        self._entries = self._entries[: kept * ENTRY.size]
        self._saved_bytes = min(self._saved_bytes, len(self._entries))

    def truncate_file(self) -> None:
        """Cut entries that no longer count from the file. Needs no disk space: new entries are saved later."""
        if self._files.read_small(self.path) is None:
            return
        file = self._files.open(self.path)
        if file.size_bytes() > self._saved_bytes:
            file.truncate(self._saved_bytes)
            self._is_synced = False
        file.close()

    def collect(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add to `found` what was aborted in [start, end); return whether no later segment can have more of it."""
        count = len(self)
        for place in range(bisect_left(range(count), start_offset, key=self._last_offset), count):
            entry = self[place]
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return True
        return False

    def _last_offset(self, place: int) -> int:
        return self[place].last_offset

    def save(self) -> None:
        """Append to the file what was added since the last save; nothing is synced."""
        if len(self._entries) > self._saved_bytes:
            file = self._files.open(self.path, create=True)
            file.write_at([bytes(self._entries[self._saved_bytes :])], self._saved_bytes)
            file.close()
            self._saved_bytes = len(self._entries)
            self._is_synced = False

    def sync(self) -> None:
        """Save, and return once the file is on the disk; its name is safe after a sync of the directory."""
        self.save()
        if not self._is_synced:
            file = self._files.open(self.path, create=True)
            file.sync()
            file.close()
            self._is_synced = True


def transaction_index_path(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}"


def check_entries(data: bytes, base_offset: int) -> None:
    """Raises CorruptIndex unless `data` are whole entries of transactions that end in the segment, in order."""
    if len(data) % ENTRY.size:
        raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
    previous = base_offset - 1
    for version, _, first_offset, last_offset, stable_offset in ENTRY.iter_unpack(data):
        if version != VERSION:
            raise CorruptIndex(f"an entry has version {version}")
        if not 0 <= first_offset < last_offset or not previous < last_offset or stable_offset < 0:
            raise CorruptIndex(f"an entry leads from {first_offset} to {last_offset}, after {previous}")
        previous = last_offset
