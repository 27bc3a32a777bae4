"""Small JSON files of our own, with a checksum: a flipped bit in one is noticed, whatever it changes.

Kafka's small files have none; what is ours alone need not share that. A file without a checksum is taken as
it is: such were written by versions before, and are replaced whole at the next change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from google_crc32c import value as crc32c

from storage.files import Files, StorageError

CHECKSUM: Final = "crc32c"


def write_sealed(files: Files, path: Path, document: dict[str, Any]) -> None:
    """Put `document` in place of what was there; on the disk when this returns. Raises StorageError."""
    sealed = {CHECKSUM: _checksum(document), **document}
    files.write_atomically(path, json.dumps(sealed, indent=1).encode())


def read_sealed(files: Files, path: Path, what: str) -> dict[str, Any] | None:
    """The document at `path`; None if there is no file.

    Raises StorageError if it cannot be read, or is not what was written: nobody may take it for empty.
    """
    data = files.read_small(path)
    if data is None:
        return None
    try:
        document = dict(json.loads(data))
        checksum = document.pop(CHECKSUM, None)
    except (ValueError, TypeError) as error:
        raise StorageError("read", path, f"not a {what}: {error!r}") from error
    if checksum is not None and checksum != _checksum(document):
        raise StorageError("read", path, f"not the {what} that was written: its checksum is wrong")
    return document


def _checksum(document: dict[str, Any]) -> int:
    return int(crc32c(json.dumps(document, sort_keys=True).encode()))
