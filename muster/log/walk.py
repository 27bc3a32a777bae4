"""Walks one partition's log as a start would find it: its segments, and then what the journal has beyond them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from muster.log.places import LogSource, PartitionDirectory
from storage.check.journal import go_on
from storage.log.batch_walk import Located
from storage.log.damage_scan import Damage
from storage.log.segment_files import scan_segment_file, segment_files

Found: TypeAlias = Located | Damage


def walk(source: LogSource, place: PartitionDirectory) -> Iterator[tuple[Path, Found]]:
    """Yield every batch and all damage in order, each with its file. Raises StorageError.

    Where the journal has what a crash tore off the last segment, it is read on in the journal, as a start does.
    """
    name, end = place.directory.name, 0
    begins = {each.found.batch.base_offset for each in source.journal.batches.get(name, ())}
    for segment in segment_files(source.files, place.directory):
        end = max(end, segment.base_offset)
        for found in scan_segment_file(source.files, segment):
            yield segment.path, found
            if isinstance(found, Located):
                end = found.batch.last_offset + 1
            elif segment.is_last and found.first_offset in begins:
                break
    yield from go_on(source.journal, name, end)
