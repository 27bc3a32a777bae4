"""Small JSON files of our own, with a checksum: a flipped bit in one is noticed, whatever it changes.

Kafka's small files have none; what is ours alone need not share that. A file without a checksum is taken as
it is: such were written by versions before, and are replaced whole at the next change.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from google_crc32c import value as crc32c

from storage.files import Files, StorageError

CHECKSUM: Final = "crc32c"
_OF_OTHERS: Final = 0o077  # The permissions of all but a file's owner.

Parsed = TypeVar("Parsed")


def write_sealed(files: Files, path: Path, document: dict[str, Any]) -> None:
    """Write `document` and its checksum to `path`, atomically; on the disk on return. Raises StorageError."""
    files.write_atomically(path, encode_sealed(document))


def encode_sealed(document: dict[str, Any]) -> bytes:
    """Return `document` with its checksum, as it is written."""
    return json.dumps({CHECKSUM: _checksum(document), **document}, indent=1).encode()


def read_sealed(
    files: Files,
    path: Path,
    what: str,
    parse: Callable[[dict[str, Any]], Parsed],
    known_format: int | None = None,
    is_always_sealed: bool = False,
) -> Parsed | None:
    """Return what `parse` makes of the document at `path`; None if there is no file.

    Raises StorageError if the file cannot be read, is not what was written, is of another format than
    `known_format`, or lacks what `parse` looks for: it must not be taken for an empty document. One that
    `is_always_sealed` is refused without a checksum. Errors have nothing of the content but what `parse` says.
    """
    data = files.read_small(path)
    if data is None:
        return None
    try:
        document = dict(json.loads(data))
        checksum = document.pop(CHECKSUM, None)
        if checksum is None and is_always_sealed:
            raise StorageError("read", path, f"not the {what} that was written: it has no checksum")
        if checksum is not None and checksum != _checksum(document):
            raise StorageError("read", path, f"not the {what} that was written: its checksum is wrong")
        if known_format is not None and document["format"] != known_format:
            raise ValueError(f"format {document['format']}, known is {known_format}")
        return parse(document)
    except UnicodeDecodeError as error:  # Its `repr` has the whole content.
        raise StorageError("read", path, f"not a {what}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError("read", path, f"not a {what}: {error!r}") from error


def require_private(files: Files, path: Path, advice: str, why: str = "others may use it") -> None:
    """Raise StorageError if others than this user and root may use the file, or replace it (F13).

    `advice` is what to do. A folder that its group may write to is taken: volumes of containers are such.
    """
    access = files.access(path)
    if access.mode & _OF_OTHERS:
        raise StorageError("use", path, f"{why} (mode {access.mode:03o}): {advice}")
    if access.owner not in (0, os.geteuid()):
        raise StorageError("use", path, f"{why} (it belongs to user {access.owner}): {advice}")
    if access.folder_mode & 0o002 and not access.folder_mode & stat.S_ISVTX:
        folder = f"others may put another in its place (mode {access.folder_mode:03o} of its folder)"
        raise StorageError("use", path, f"{folder}: `chmod o-w` it; {advice}")


def _checksum(document: dict[str, Any]) -> int:
    return int(crc32c(json.dumps(document, sort_keys=True).encode()))
