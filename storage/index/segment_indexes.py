"""The pair of index files that belongs to one segment: load, grow, rewrite, sync, remove.

Index files are written behind the log and synced only when a segment is sealed: until then a crash may leave
anything in them, and recovery writes them again. What they mean is said in `storage.index.indexes`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from storage.files import Files
from storage.index.indexes import OFFSET_ENTRY, TIME_ENTRY, CorruptIndex, OffsetIndex, TimeIndex

OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"


class SegmentIndexes:
    """Both indexes of the segment that begins at `base_offset`. Methods raise StorageError."""

    def __init__(self, files: Files, directory: Path, base_offset: int) -> None:
        self.offsets = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self._files = files
        self._paths = index_paths(directory, base_offset)
        self._saved = (0, 0)  # How many entries of each are in the files.
        self._synced = (-1, -1)  # How many entries were in the files at the last sync; none so far.

    @classmethod
    def load(cls, files: Files, directory: Path, base_offset: int, log_size_bytes: int) -> SegmentIndexes:
        """Read both files. Raises CorruptIndex where one is missing or cannot be right."""
        indexes = cls(files, directory, base_offset)
        offsets, times = (files.read_small(path) for path in indexes._paths)
        if offsets is None or times is None:
            raise CorruptIndex("an index file is missing")
        indexes.offsets = OffsetIndex.decode(base_offset, offsets, log_size_bytes)
        indexes.times = TimeIndex.decode(base_offset, times)
        if log_size_bytes and not times:
            raise CorruptIndex("a sealed segment has an entry for its largest timestamp")
        indexes._saved = (len(indexes.offsets), len(indexes.times))
        return indexes

    def forget_from(self, offset: int) -> None:
        """Keep only the entries, in memory, of batches that end before `offset`."""
        self.offsets.forget_from(offset)
        _, last_offset = self.offsets.last() or (0, -1)
        self.times.forget_from(last_offset + 1)

    def save(self) -> None:
        """Append to the files what was added since the last save; nothing is synced."""
        counts = (len(self.offsets), len(self.times))
        if counts == self._saved:
            return
        (offset_path, time_path), (offsets, times) = self._paths, self._saved
        self._write(offset_path, self.offsets.encode(offsets), offsets * OFFSET_ENTRY.size)
        self._write(time_path, self.times.encode(times), times * TIME_ENTRY.size)
        self._saved = counts

    def rewrite(self) -> None:
        """Put what is in memory into the files, whatever those held."""
        for path, data in zip(self._paths, (self.offsets.encode(), self.times.encode()), strict=True):
            file = self._files.open(path, create=True)
            file.truncate(len(data))
            file.write_at([data], 0)
            file.close()
        self._saved = (len(self.offsets), len(self.times))
        self._synced = (-1, -1)

    def start_over(self) -> None:
        """Have the next `save` write all entries, whatever the files hold. Needs no disk space.

        A file that is too long is cut, since `save` never shortens one.
        """
        sizes = (len(self.offsets) * OFFSET_ENTRY.size, len(self.times) * TIME_ENTRY.size)
        for path, size_bytes in zip(self._paths, sizes, strict=True):
            file = self._files.open(path, create=True)
            if file.size_bytes() > size_bytes:
                file.truncate(size_bytes)
            file.close()
        self._saved = (0, 0)
        self._synced = (-1, -1)

    def _write(self, path: Path, data: bytes, position: int) -> None:
        if data:
            file = self._files.open(path, create=True)
            file.write_at([data], position)
            file.close()

    def sync(self) -> None:
        """Save, and return once both files are on the disk."""
        self.save()
        if self._synced != self._saved:
            for path in self._paths:
                file = self._files.open(path, create=True)
                file.sync()
                file.close()
            self._synced = self._saved

    def delete(self) -> None:
        for path in self._paths:
            self._files.unlink(path)


def index_paths(directory: Path, base_offset: int) -> tuple[Path, Path]:
    stem = f"{base_offset:020d}"
    return directory / (stem + OFFSET_INDEX_SUFFIX), directory / (stem + TIME_INDEX_SUFFIX)


def sizes_look_right(files: Files, directory: Path, base_offset: int, names: frozenset[str]) -> bool:
    """Whether both index files are there (in the listing `names`) with whole entries; nothing is read."""
    for path, entry in zip(index_paths(directory, base_offset), (OFFSET_ENTRY, TIME_ENTRY), strict=True):
        if path.name not in names or files.size_bytes(path) % entry.size:
            return False
    return True
