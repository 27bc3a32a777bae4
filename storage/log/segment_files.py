"""Which files of a directory are its log, for readers that do not open it: nothing is moved or removed.

A compaction that was cut short leaves a `.log.swap` file, Kafka's and ours alike: its segment is whole, synced,
and takes the place of all that begin within its offsets, some of which may be gone already. The next start
finishes that; here it is read as if it were done. A swap file that does not check is used only where nothing
else is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from storage.files import Files
from storage.log.batch_walk import Located
from storage.log.damage_scan import DamageScan, Found
from storage.log.segment import LOG_SUFFIX, SWAP_SUFFIX, base_offset_of, log_path
from storage.log.segment_swap import SWAP_NAME


class SegmentFile(NamedTuple):
    """One segment: where it begins, its file, and where the next one begins (None: it is the last)."""

    base_offset: int
    path: Path
    end_offset: int | None

    @property
    def is_swap(self) -> bool:
        return self.path.suffix == SWAP_SUFFIX

    @property
    def is_last(self) -> bool:
        return self.end_offset is None


def segment_files(files: Files, directory: Path) -> list[SegmentFile]:
    """The segments of the log in `directory`, oldest first. Raises StorageError."""
    names = files.entries(directory) or []
    paths = {base: log_path(directory, base) for name in names if (base := base_offset_of(name)) is not None}
    for name in names:
        if match := SWAP_NAME.fullmatch(name):
            _apply_swap(files, directory / name, int(match[1]), paths)
    bases = sorted(paths)
    ends = [*bases[1:], None][: len(bases)]
    return [SegmentFile(base, paths[base], end) for base, end in zip(bases, ends, strict=True)]


def _apply_swap(files: Files, path: Path, base: int, paths: dict[int, Path]) -> None:
    """Put the swap file into `paths` in the place of the segments that it was made from."""
    end = base
    for found in scan_segment_file(files, SegmentFile(base, path, None)):
        if not isinstance(found, Located):
            paths.setdefault(base, path)
            return
        end = found.batch.last_offset + 1
    for replaced in [other for other in paths if base <= other < end]:
        del paths[replaced]
    paths[base] = path


def scan_segment_file(files: Files, segment: SegmentFile) -> Iterator[Found]:
    """Yield the batches and the damage of one segment, in order. Raises StorageError if it cannot be opened."""
    file = files.open_to_read(segment.path)
    try:
        yield from DamageScan(file, file.size_bytes(), segment.base_offset, segment.end_offset).run()
    finally:
        file.close()


def segments_bytes(files: Files, directory: Path) -> int:
    """Return about how many bytes a scan of all segments reads, for progress bars."""
    names = files.entries(directory) or []
    return sum(files.size_bytes(directory / name) for name in names if name.endswith(LOG_SUFFIX))
