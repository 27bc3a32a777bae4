"""What is known of a log before its segments are looked at, and the small files that have to agree with it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from storage.files import CorruptSegment, Files
from storage.log.partition_files import (
    PARTITION_METADATA,
    LeaderEpochs,
    encode_uuid,
    read_partition_metadata,
)
from storage.log.sealed_segments import PartitionSeals

FIRST_EPOCHS: Final[LeaderEpochs] = ((0, 0),)
"""The leader epochs of a log created here: epoch 0 from offset 0 on. A single node never fences itself."""


class Opening(NamedTuple):
    """What is known of a log before its files are looked at.

    `recovery_point` is the offset below which everything was synced, None where it is not known. `topic_id`
    is written when the directory is made. `is_replayed` promises that `batches` will be read to the end before
    anything in the log counts. `seals` is what the log directory knows of the sealed segments.
    """

    recovery_point: int | None = None
    shut_down_cleanly: bool = False
    log_start_offset: int = 0
    topic_id: bytes | None = None
    is_replayed: bool = False
    seals: PartitionSeals | None = None


UNKNOWN: Final = Opening()


def topic_id_of(files: Files, directory: Path, wanted: bytes | None) -> bytes | None:
    """Return the topic id that `directory` records, else `wanted`. Raises CorruptSegment if the two differ."""
    found = read_partition_metadata(files, directory)
    if found is not None and wanted is not None and found != wanted:
        path = directory / PARTITION_METADATA
        raise CorruptSegment(path, 0, f"topic id {encode_uuid(found)}, expected {encode_uuid(wanted)}")
    return found or wanted
