"""A cleaned segment takes the place of those it was made from, so that a crash at any point leaves a whole log.

The order: the new file, synced, gets the suffix `.swap`, and its name is synced: from here on the swap will
happen, by us or by the process that opens the log next. Then the old files go, which is synced, and the suffix
goes. A `.swap` file replaces all segments that begin within its offsets; that is why a cleaned segment always
ends with a batch that has the last offset of what it was made from, if need be an empty one. Indexes are
written last: one that is missing is built again. A file that is still `.cleaned` means nothing and is removed.

Kafka's own broker leaves and takes the same names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from storage.files import CorruptSegment, Files, StorageError
from storage.log.batch_walk import walk_checked
from storage.log.segment import CLEANED_SUFFIX, SWAP_SUFFIX, Segment, base_offset_of, cleaned_path, swap_path

DELETED_SUFFIX: Final = ".deleted"  # The suffix of files that a broker meant to remove a minute later.
SIDE_SUFFIXES: Final = (".index", ".timeindex", ".txnindex", ".snapshot")
SWAP_NAME: Final = re.compile(r"(\d{20})\.log\.swap")
MEANINGLESS: Final = (CLEANED_SUFFIX, DELETED_SUFFIX)


class StuckSwap(StorageError):
    """A swap that the disk did not let us finish: the next start does. Until then the log is not to be cleaned."""


def announce(files: Files, directory: Path, base_offset: int) -> None:
    """Make it certain that the finished draft at `base_offset` replaces what it was made from."""
    files.rename(cleaned_path(directory, base_offset), swap_path(directory, base_offset))
    files.sync_directory(directory)


def complete(files: Files, directory: Path, base_offset: int, replaced: Sequence[int]) -> None:
    """Remove the segments that begin at `replaced`, and give the new one its name, which is synced later."""
    for old in replaced:
        if old != base_offset:
            files.unlink(directory / f"{old:020d}.log")
        for suffix in SIDE_SUFFIXES:
            files.unlink(directory / f"{old:020d}{suffix}")
    files.sync_directory(directory)
    swap = swap_path(directory, base_offset)
    files.rename(swap, swap.with_suffix(""))


def finish_announced_swap(files: Files, directory: Path, old: Sequence[Segment], new: Segment) -> None:
    """Finish an announced swap: old files removed, the new one renamed, its indexes written. Raises StuckSwap."""
    try:
        complete(files, directory, new.base_offset, [segment.base_offset for segment in old])
        new.indexes.rewrite()
    except StorageError as error:
        raise StuckSwap(error.operation, error.path, error.reason, error.errno) from error


def finish_swaps(files: Files, directory: Path) -> int:
    """Remove unfinished drafts and complete announced swaps, at a start; return how many swaps there were.

    Raises CorruptSegment if an announced segment is not valid: the segments it was to replace are then kept.
    """
    names = files.entries(directory) or ()
    for name in names:
        is_side = name.endswith(SWAP_SUFFIX) and not SWAP_NAME.fullmatch(name)
        if is_side or name.endswith(MEANINGLESS):
            files.unlink(directory / name)
    swaps = [name for name in names if SWAP_NAME.fullmatch(name)]
    for name in swaps:
        swap = directory / name
        base_offset = base_offset_of(name.removesuffix(SWAP_SUFFIX))
        assert base_offset is not None
        end_offset = _end_offset(files, swap, base_offset)
        bases = (base_offset_of(other) for other in names)
        complete(
            files,
            directory,
            base_offset,
            [base for base in bases if base is not None and base_offset <= base < end_offset]
            or [base_offset],
        )
    if swaps:
        files.sync_directory(directory)
    return len(swaps)


def _end_offset(files: Files, swap: Path, base_offset: int) -> int:
    file = files.open(swap)
    size_bytes, position, end_offset = file.size_bytes(), 0, base_offset
    for found in walk_checked(file, 0, size_bytes, min_offset=base_offset):
        position, end_offset = found.end, found.batch.last_offset + 1
    file.close()
    if position < size_bytes:
        raise CorruptSegment(swap, position, f"of {size_bytes}, all of them synced")
    return end_offset
