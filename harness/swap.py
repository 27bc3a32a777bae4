"""Puts our segments in the place of Kafka's, while both servers are stopped."""

from __future__ import annotations

import shutil
from pathlib import Path

from storage.log.checkpoints import RECOVERY_POINTS
from storage.log.partition_files import PARTITION_METADATA
from storage.log.sealed_segments import SEALED_SEGMENTS

OFFSETS = "__consumer_offsets"


def swap_in(ours: Path, theirs: Path, partitions: int) -> None:
    """Put the offsets topic of log directory `ours` into Kafka's `theirs`, under Kafka's `partition.metadata`.

    Kafka must have made the topic, with as many partitions.
    """
    for number in range(partitions):
        made, written = (log_dir / f"{OFFSETS}-{number}" for log_dir in (theirs, ours))
        kept = (made / PARTITION_METADATA).read_bytes()
        shutil.rmtree(made)
        shutil.copytree(written, made) if written.exists() else made.mkdir()
        (made / PARTITION_METADATA).write_bytes(kept)
    (theirs / RECOVERY_POINTS).unlink()  # Both files describe the segments that were there;
    (theirs / SEALED_SEGMENTS).unlink(missing_ok=True)  # this one is ours, where an import left it.
