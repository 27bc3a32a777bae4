"""Whether the disk takes anything: found out by writing, since quotas and reserved blocks belie free space."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from storage.files import Files

PROBE: Final = ".muster-room"
PROBE_BYTES: Final = 64 << 10  # What a few flushes need, with their indexes.


def probe_disk_space(files: Files, directory: Path) -> None:
    """Write a scratch file, sync it, and remove it. Blocks. Raises StorageError if it does not fit."""
    path = directory / PROBE
    try:
        file = files.open(path, create=True)
        file.write_at([bytes(PROBE_BYTES)], 0)
        file.sync()
        file.close()
    finally:
        files.unlink(path)
