"""Log directories for tests: taken, filled, and let go of as a kill does."""

from __future__ import annotations

from pathlib import Path

from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.partition_log import PartitionLog
from tests.storage.logs import SMALL, fill

TOPIC_ID = bytes(range(16))


def take(path: Path, files: Files | None = None) -> LogDirectory:
    return LogDirectory.open(path, files or Files(), node_id=1)


def filled(directory: LogDirectory, partition: int = 0, batches: int = 30) -> PartitionLog:
    log = directory.open_log("t", partition, SMALL, topic_id=TOPIC_ID)
    fill(log, batches)
    return log


def kill(directory: LogDirectory) -> None:
    """Let go of the directory as a process does that is killed."""
    directory._lock_file.close()
