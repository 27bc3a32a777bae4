"""`muster scram`: the SCRAM users in the log directory of a daemon that does not run (KIP-554).

This is how the first user comes in where all listeners ask for a login, as by `kafka-storage format --add-scram`.
A running daemon's users are changed through it, by kafka-configs. A password is asked for, or read from standard
input, and never an argument, which everybody on the machine could read.

Status 0 is done, 1 that a credential was not there, 2 that the command could not be carried out.
"""

from __future__ import annotations

import getpass
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from cyclopts import App, Parameter

from coordinator.security.scram_credentials import (
    BY_NAME,
    LEAST_ITERATIONS,
    MECHANISMS,
    MOST_ITERATIONS,
    ScramMechanism,
)
from coordinator.security.scram_file import FILE_NAME, ScramFile, ScramTable
from coordinator.security.scram_users import (
    MOST_CREDENTIALS,
    MOST_NAME_BYTES,
    Change,
    Deletion,
    Upsertion,
    changed,
    new_table,
    random_letters,
)
from muster.sentences import counted, say, visible
from storage.directory.log_directory import LOCK
from storage.files import Files, StorageError
from storage.log.checkpoints import META_PROPERTIES

app = App(
    name="scram", help="Users that log in by SCRAM, in the log directory of a daemon that does not run."
)

Directory: TypeAlias = Annotated[Path, Parameter(help="the daemon's log directory (log.dirs)")]
User: TypeAlias = Annotated[str, Parameter(help="the user's name")]
Mechanisms: TypeAlias = Annotated[
    list[Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]] | None,
    Parameter(name="--mechanism", negative="", help="only for this one; may be repeated"),
]

STATUS_ABSENT: Final = 1
STATUS_CANNOT: Final = 2
MOST_PASSWORD_BYTES: Final = 1_000


_OF_LOG_DIRECTORIES: Final = frozenset({LOCK, META_PROPERTIES, FILE_NAME})


class ScramToolError(Exception):
    """The command cannot be carried out; the message is a sentence for the user, without the password."""


@app.command
def add(
    directory: Directory,
    user: User,
    *,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int,
        Parameter(help=f"{LEAST_ITERATIONS} to {MOST_ITERATIONS}: more make guessing, and logins, slower"),
    ] = LEAST_ITERATIONS,
) -> int:
    """Make a user, or give one a new password: for both mechanisms unless one is named.

    The password is asked for twice; if standard input is no terminal, its first line is taken.
    """

    def run() -> int:
        _check_name(user)
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ScramToolError(f"--iterations is from {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
        with _held(directory) as file:
            table = file.read() or new_table()
            password = _password(user)
            changes = [_upsertion(user, each, password, iterations) for each in _mechanisms(mechanism)]
            after = ScramTable(changed(table.users, changes), table.decoy_key)
            if sum(map(len, after.users.values())) > MOST_CREDENTIALS:
                raise ScramToolError(f"a daemon keeps {MOST_CREDENTIALS} credentials at most")
            file.write(after)
        _tell(user, changes, "can log in by")
        return 0

    return _status(run)


@app.command(name="list")
def list_users(
    directory: Directory,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="print JSON")] = False,
) -> int:
    """Show all users, with their mechanisms and iterations."""

    def run() -> int:
        table = ScramFile(directory.absolute(), _there(directory)).read()
        users = {} if table is None else table.users
        shown = {
            name: {each.name: credential.iterations for each, credential in users[name].items()}
            for name in sorted(users)
        }
        if as_json:
            print(json.dumps(shown, ensure_ascii=False))
            return 0
        for name, counts in shown.items():
            what = ", ".join(f"{each} ({count} iterations)" for each, count in sorted(counts.items()))
            print(f"{visible(name)}: {what}")
        return 0

    return _status(run)


@app.command
def delete(directory: Directory, user: User, *, mechanism: Mechanisms = None) -> int:
    """Remove a user, or only what one mechanism goes by. Status 1 if there is nothing of it."""

    def run() -> int:
        with _held(directory) as file:
            table = file.read() or new_table()
            of_user = table.users.get(user, {})
            changes: list[Change] = [
                Deletion(user, each) for each in _mechanisms(mechanism) if each in of_user
            ]
            if not changes or (mechanism and len(changes) < len(set(mechanism))):
                say(f"there is no such credential of {user}; nothing was changed")
                return STATUS_ABSENT
            file.write(ScramTable(changed(table.users, changes), table.decoy_key))
        _tell(user, changes, "can no longer log in by")
        return 0

    return _status(run)


def _mechanisms(names: list[Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]] | None) -> list[ScramMechanism]:
    return [BY_NAME[name] for name in dict.fromkeys(names)] if names else list(MECHANISMS)


def _tell(user: str, changes: list[Change], what: str) -> None:
    print(f"{visible(user)} {what} {' and '.join(change.mechanism.name for change in changes)}")


def _upsertion(user: str, mechanism: ScramMechanism, password: bytes, iterations: int) -> Change:
    salt = random_letters()
    salted_password = mechanism.salted_password(password, salt, iterations)
    return Upsertion(user, mechanism, salted_password, salt, iterations)


def _check_name(user: str) -> None:
    """Raise ScramToolError for a name that no client can log in with (S18)."""
    if not user.isascii() or "\0" in user or not user:
        raise ScramToolError("a user's name has ASCII characters alone: no other can log in by SCRAM")
    if len(user) > MOST_NAME_BYTES:
        raise ScramToolError(f"a user's name has at most {MOST_NAME_BYTES} characters")


def _password(user: str) -> bytes:
    """Ask for the password, or read it. Raises ScramToolError."""
    if sys.stdin.isatty():
        password = getpass.getpass(f"Password for {visible(user)}: ").encode()
        if not secrets.compare_digest(password, getpass.getpass("Again: ").encode()):
            raise ScramToolError("the two passwords differ; nothing was changed")
    else:
        password = sys.stdin.buffer.readline(MOST_PASSWORD_BYTES + 2).rstrip(b"\r\n")
    if not password:
        raise ScramToolError("an empty password; nothing was changed")
    if len(password) > MOST_PASSWORD_BYTES:
        raise ScramToolError(f"a password has at most {counted(MOST_PASSWORD_BYTES, 'byte')}")
    return password


def _there(directory: Path) -> Files:
    files = Files()
    if files.entries(directory.absolute()) is None:
        raise ScramToolError(f"{directory} is not there")
    return files


@contextmanager
def _held(directory: Path) -> Iterator[ScramFile]:
    """Hold the directory, as a daemon does, and give its file of users; it is made if its parent is there.

    Raises ScramToolError if a daemon, or another command, holds it.
    """
    files, path = Files(), directory.absolute()
    if files.make_directory(path, is_private=True):
        files.sync_directory(path.parent)
    elif (names := files.entries(path)) and _OF_LOG_DIRECTORIES.isdisjoint(names):
        raise ScramToolError(
            f"{directory} is no log directory: it has other files, and nothing of a daemon's"
        )
    lock = files.lock(path / LOCK)
    if lock is None:
        raise ScramToolError(
            f"{directory} is in use by a server: change its users by `kafka-configs --alter --entity-type users`"
        )
    try:
        yield ScramFile(path, files)
    finally:
        lock.close()


def _status(command: Callable[[], int]) -> int:
    """Run a command and return its exit status; a failure is printed as a sentence on standard error."""
    try:
        return command()
    except ScramToolError as error:
        say(error)
    except StorageError as error:
        say(f"cannot {error}")
    except (EOFError, KeyboardInterrupt):
        say("no password; nothing was changed")
    return STATUS_CANNOT
