"""The SCRAM users of a running daemon: looked up by logins from memory, changed by requests once the disk has it.

Changes are made one after the other, each against what the one before has left, as Kafka's controller makes them.
All methods run on the event-loop thread; keys are derived and the file is written on another.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from coordinator.security.sasl.scram import Scram
from coordinator.security.scram_credentials import (
    RANDOM_BITS,
    ScramCredential,
    ScramMechanism,
    UserCredentials,
    Users,
    base_36,
    decoy,
)
from coordinator.security.scram_file import ScramFile, ScramTable
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode, OnDone
from storage.files import Files, StorageError

MOST_CREDENTIALS: Final = 10_000
"""Number of credentials that are kept: the file is written whole with each change, 3 MB with so many."""
MOST_NAME_BYTES: Final = 1_000
"""Size of a user's name in UTF-8."""
MOST_SALT_BYTES: Final = 256
"""Size of a salt; Kafka's own have 26."""

DECOY_KEY_BYTES: Final = 32
NO_CREDENTIALS: Final[UserCredentials] = {}

log = structlog.get_logger("muster.security")


@dataclass(frozen=True, slots=True)
class Upsertion:
    """A credential that is made, or replaces the one that the user has for the mechanism."""

    name: str
    mechanism: ScramMechanism
    salted_password: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """A credential that goes; there is one."""

    name: str
    mechanism: ScramMechanism


Change: TypeAlias = Upsertion | Deletion
Plan: TypeAlias = Callable[[], list[Change]]
"""Returns what is to be changed, of the users as they are when it is called."""


class ScramUsers:
    """All users that have a SCRAM credential."""

    def __init__(self, file: ScramFile, workers: Workers) -> None:
        self._file = file
        self._workers = workers
        self._table = new_table()
        self._waiting: deque[tuple[Plan, OnDone]] = deque()  # Each connection has at most one here.
        self._is_writing = False

    @classmethod
    def in_directory(cls, directory: Path, files: Files, workers: Workers) -> ScramUsers:
        """Return the users of a log directory, which are not read yet."""
        return cls(ScramFile(directory, files), workers)

    def open(self) -> None:
        """Read what is stored. Waits for the disk. Raises StorageError: then no client may be served."""
        self._table = self._file.read() or self._table

    @property
    def users(self) -> Users:
        """All users, by name; it is not changed, but replaced."""
        return self._table.users

    @property
    def credential_count(self) -> int:
        """Number of credentials of all users together."""
        return sum(map(len, self._table.users.values()))

    def credentials(self, name: str) -> UserCredentials:
        """Return the user's credentials, by mechanism; none for one who is not known."""
        return self._table.users.get(name, NO_CREDENTIALS)

    def mechanism(self, mechanism: ScramMechanism, *, hides_unknown_users: bool) -> Scram:
        """Return the mechanism for these users, as a listener offers it.

        With `hides_unknown_users` one who is not known fails at the last token, as by a wrong password, not at
        the first, as in Kafka (S18).
        """

        def find(name: str) -> ScramCredential | None:
            return self.credentials(name).get(mechanism)

        def find_or_decoy(name: str) -> ScramCredential | None:
            made = decoy(mechanism, name, self._table.decoy_key)  # Made in any case: it takes its time.
            return find(name) or made

        return Scram(mechanism, find_or_decoy if hides_unknown_users else find, random_letters)

    def alter(self, plan: Plan, done: OnDone) -> None:
        """Call `plan` once all changes before have ended, store what it returns, and call `done`.

        `done` is called with the outcome for all changes together: NONE, or KAFKA_STORAGE_ERROR if the disk has
        not taken them and nothing has changed.
        """
        self._waiting.append((plan, done))
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and not self._is_writing:
            plan, done = self._waiting.popleft()
            if changes := plan():
                self._write(changes, done)
            else:
                done(ErrorCode.NONE)

    def _write(self, changes: list[Change], done: OnDone) -> None:
        table = self._table
        self._is_writing = True

        def write() -> ScramTable:
            after = ScramTable(changed(table.users, changes), table.decoy_key)
            self._file.write(after)
            return after

        self._workers.submit(write, lambda worked: self._on_written(changes, done, worked))

    def _on_written(self, changes: list[Change], done: OnDone, worked: Future[ScramTable]) -> None:
        self._is_writing = False
        error = ErrorCode.NONE
        try:
            self._table = worked.result()
        except StorageError as failure:
            log.error("SCRAM users cannot be changed", error=str(failure))
            error = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            for change in changes:
                _report(change)
        done(error)
        self._go_on()


def random_letters() -> bytes:
    """Return 25 or 26 random letters of base 36: a salt, or the server's part of a nonce, as in Kafka (S20)."""
    return base_36(secrets.randbits(RANDOM_BITS)).encode()


def new_table() -> ScramTable:
    """Return a table of no users."""
    return ScramTable({}, secrets.token_bytes(DECOY_KEY_BYTES))


def changed(users: Users, changes: list[Change]) -> Users:
    """Return `users` after `changes`."""
    after: dict[str, Mapping[ScramMechanism, ScramCredential]] = dict(users)
    for change in changes:
        of_user = dict(after.pop(change.name, NO_CREDENTIALS))
        if isinstance(change, Deletion):
            del of_user[change.mechanism]
        else:
            of_user[change.mechanism] = ScramCredential.of(
                change.mechanism, change.salted_password, change.salt, change.iterations
            )
        if of_user:
            after[change.name] = of_user
    return after


def _report(change: Change) -> None:
    verb = "removed" if isinstance(change, Deletion) else "stored"
    log.info(f"SCRAM credential {verb}", user=change.name, mechanism=change.mechanism.name)
