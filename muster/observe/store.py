"""A directory with the events that were observed, and how far the log was read: a restart goes on from there.

`events-<number>.jsonl` have an event per line, as the value of a record of `__group_events`; `state.json` has the
position in each partition, the fold's state, and how far the files of events belong to it. Events are appended as
they come; a checkpoint syncs them and then replaces the state in one step. What a crash leaves behind the newest
checkpoint is cut off at the next start, and read again from the log: nothing is lost, and nothing there twice.
The oldest files go when all of them are larger than the store may be. One process at a time writes a store, which
holds a lock; reading needs none.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

SCHEMA: Final = 1
STATE: Final = "state.json"
LOCK: Final = "lock"
FILE_BYTES: Final = 16 << 20
TOTAL_BYTES: Final = 1 << 30
_FIELDS: Final = (("cluster_id", str), ("topic_id", str), ("file", int), ("bytes", int), ("state", dict))
"""Of the state, beside its schema."""


class StoreError(Exception):
    """The store cannot be read or written; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Source:
    """Which log a store is about. `topic_id` is "" on clusters without topic ids."""

    cluster_id: str
    topic_id: str


class Store:
    """A store that is open for writing. Raises StoreError."""

    def __init__(
        self, directory: Path, source: Source, *, file_bytes: int = FILE_BYTES, total_bytes: int = TOTAL_BYTES
    ) -> None:
        self._directory = directory
        self._source = source
        self._file_bytes = min(file_bytes, total_bytes)
        self._total_bytes = total_bytes
        self._number = 0
        self._file: BinaryIO
        self.state: dict[str, Any] | None = None  # As the last checkpoint left it; None for a new store.
        self._since_checkpoint = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(directory)
        except OSError as error:
            raise StoreError(f"cannot write the store {directory}: {error.strerror or error}") from None
        try:
            self._begin()
        except OSError as error:
            self._lock.close()
            raise StoreError(f"cannot write the store {directory}: {error.strerror or error}") from None
        except StoreError:
            self._lock.close()
            raise

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether so much was appended since the last checkpoint that the bound of the store needs one."""
        return self._since_checkpoint >= self._file_bytes

    def append(self, lines: Iterable[bytes]) -> None:
        """Append events; readers see them at once, a crash may take them until the next checkpoint."""
        try:
            for line in lines:
                if self._file.tell() >= self._file_bytes:
                    self._roll()
                self._file.write(line + b"\n")
                self._since_checkpoint += len(line) + 1
            self._file.flush()
        except OSError as error:
            raise self._cannot_write(error) from None

    def checkpoint(self, state: dict[str, Any]) -> None:
        """Make all that was appended durable, together with `state`, which is what it leads up to."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            whole = {
                "schema": SCHEMA,
                **asdict(self._source),
                "file": self._number,
                "bytes": self._file.tell(),
                "state": state,
            }
            _replace(self._directory / STATE, json.dumps(whole, separators=(",", ":")).encode())
            self._since_checkpoint = 0
            self._keep_within_bound()
        except OSError as error:
            raise self._cannot_write(error) from None

    def close(self) -> None:
        """Close without a checkpoint: what was appended since the last one is cut off at the next start."""
        self._file.close()
        self._lock.close()

    def _begin(self) -> None:
        files = event_files(self._directory)
        whole = _read_state(self._directory)
        if whole is None:
            if files:
                raise StoreError(f"{self._directory} has events and no {STATE}: choose another directory")
            self._open(0)
            self.checkpoint({})
            return
        if (whole["cluster_id"], whole["topic_id"]) != (self._source.cluster_id, self._source.topic_id):
            raise StoreError(
                f"{self._directory} is about another cluster, or another __consumer_offsets of it: "
                "choose another directory"
            )
        for path in files:
            if _number(path) > whole["file"]:
                path.unlink()
        self._open(whole["file"])
        if self._file.tell() < whole["bytes"]:
            raise StoreError(
                f"{self._directory} lacks events that were synced: {_name(whole['file'])} is short"
            )
        self._file.truncate(whole["bytes"])
        self._file.seek(whole["bytes"])
        self.state = whole["state"] or None

    def _open(self, number: int) -> None:
        self._number = number
        self._file = (self._directory / _name(number)).open("ab")
        _sync_directory(self._directory)

    def _roll(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._open(self._number + 1)

    def _keep_within_bound(self) -> None:
        """Remove the oldest files that are too many, never the one that is written."""
        files = event_files(self._directory)
        sizes = [path.stat().st_size for path in files]
        while sum(sizes) > self._total_bytes and len(files) > 1:
            files.pop(0).unlink()
            sizes.pop(0)

    def _cannot_write(self, error: OSError) -> StoreError:
        return StoreError(f"cannot write the store {self._directory}: {error.strerror or error}")


@dataclass(frozen=True, slots=True)
class StoredEvents:
    """A store as it is read. `has_all` is false if its oldest events went, to keep it within its size."""

    directory: Path
    has_all: bool
    state: dict[str, Any]

    def lines(self) -> Iterator[bytes]:
        """All events, oldest first. Raises StoreError."""
        try:
            for path in event_files(self.directory):
                with path.open("rb") as file:
                    yield from (line.rstrip(b"\n") for line in file if line.endswith(b"\n"))
        except OSError as error:
            raise StoreError(f"cannot read the store {self.directory}: {error.strerror or error}") from None


def open_events(directory: Path) -> StoredEvents:
    """The events of a store, for reading. Raises StoreError if there is none."""
    try:
        whole = _read_state(directory)
    except OSError as error:
        raise StoreError(f"cannot read the store {directory}: {error.strerror or error}") from None
    if whole is None:
        raise StoreError(f"{directory} is no store: it has no {STATE}")
    files = event_files(directory)
    return StoredEvents(directory, not files or _number(files[0]) == 0, whole["state"])


def event_files(directory: Path) -> list[Path]:
    """The files of events in a store, oldest first."""
    return sorted(directory.glob("events-*.jsonl"))


def _name(number: int) -> str:
    return f"events-{number:010}.jsonl"


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("events-"))


def _read_state(directory: Path) -> dict[str, Any] | None:
    try:
        text = (directory / STATE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        whole: dict[str, Any] = json.loads(text)
        if whole["schema"] != SCHEMA:
            raise StoreError(f"{directory} is of schema {whole['schema']}, this version knows {SCHEMA}")
        if any(type(whole[name]) is not kind for name, kind in _FIELDS):
            raise ValueError("fields of wrong types")
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{directory / STATE} makes no sense: {error!r}") from None
    return whole


def _locked(directory: Path) -> BinaryIO:
    """The lock file, locked until it is closed. Raises StoreError if another process has it."""
    file = (directory / LOCK).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise StoreError(f"another process writes the store {directory}") from None
    return file


def _replace(path: Path, content: bytes) -> None:
    """Replace a file in one step: after a crash it is the former or this one."""
    draft = path.with_name(path.name + ".unfinished")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
