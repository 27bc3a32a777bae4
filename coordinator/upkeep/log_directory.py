"""Opens the log directory as the settings say, and logs what is remarkable about it."""

from __future__ import annotations

import structlog

from coordinator.settings.model import Settings
from storage.directory.log_directory import LogDirectory
from storage.files import Files

log = structlog.get_logger("muster.daemon")


def open_log_directory(settings: Settings, files: Files) -> LogDirectory:
    """Open the log directory and lock it. Raises LogDirectoryError."""
    directory = LogDirectory.open(
        settings.data_directory,
        files,
        node_id=settings.node_id,
        is_journal_synced=settings.muster_flush_policy == "fsync",
    )
    for warning in directory.warnings:
        log.warning("log directory", warning=warning)
    journal = directory.journal.files
    if journal.cut_bytes:
        log.warning(
            "the end of the journal was torn, and cut", file=str(journal.path), cut_bytes=journal.cut_bytes
        )
    return directory
