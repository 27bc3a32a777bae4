"""The file of the SCRAM users, in the log directory: written whole, read by its owner alone, believed if sealed.

It fails closed. A file that others can read, that is torn, or that lacks something is refused, with one sentence
and without anything of its content, and no server starts on it; no file at all means that there are no users.
Waits for the disk.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coordinator.security.scram_credentials import (
    BY_NAME,
    ScramCredential,
    ScramMechanism,
    UserCredentials,
    Users,
)
from storage.files import Files
from storage.sealed_json import encode_sealed, read_sealed, require_private

FILE_NAME: Final = "scram-users.json"
FORMAT: Final = 1
_WHAT: Final = "file of SCRAM users"


@dataclass(frozen=True, slots=True)
class ScramTable:
    """What the file has: the users, and the key that the salts of users who are not known are made with."""

    users: Users
    decoy_key: bytes = field(repr=False)


class ScramFile:
    """The file in one log directory."""

    def __init__(self, directory: Path, files: Files) -> None:
        self.path = directory / FILE_NAME
        self._files = files

    def read(self) -> ScramTable | None:
        """Return what is stored; None if there is no file. Raises StorageError if it must not be used."""
        table = read_sealed(self._files, self.path, _WHAT, _parse, FORMAT, is_always_sealed=True)
        if table is not None:
            require_private(self._files, self.path, "`chmod 600` it, and give the users new passwords")
        return table

    def write(self, table: ScramTable) -> None:
        """Replace what is stored by `table`; durable when this returns. Raises StorageError."""
        document = {
            "format": FORMAT,
            "decoy_key": _text(table.decoy_key),
            "users": {name: _as_document(of_user) for name, of_user in table.users.items()},
        }
        self._files.write_atomically(self.path, encode_sealed(document), is_secret=True)


def _as_document(of_user: UserCredentials) -> dict[str, Any]:
    return {
        mechanism.name: {
            "salt": _text(credential.salt),
            "stored_key": _text(credential.stored_key),
            "server_key": _text(credential.server_key),
            "iterations": credential.iterations,
        }
        for mechanism, credential in of_user.items()
    }


def _parse(document: dict[str, Any]) -> ScramTable:
    users = {
        name: {
            BY_NAME[mechanism]: _credential(BY_NAME[mechanism], entry) for mechanism, entry in each.items()
        }
        for name, each in document["users"].items()
    }
    if not all(users) or not all(users.values()):
        raise ValueError("a user without a name or a credential")
    return ScramTable(users, _bytes(document["decoy_key"]))


def _credential(mechanism: ScramMechanism, entry: dict[str, Any]) -> ScramCredential:
    keys = _bytes(entry["stored_key"]), _bytes(entry["server_key"])
    iterations = entry["iterations"]
    if not isinstance(iterations, int) or any(len(key) != mechanism.key_bytes for key in keys):
        raise ValueError("a credential that cannot be one")
    return ScramCredential(_bytes(entry["salt"]), *keys, iterations)


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError("a field that is not base64") from None
