"""The users of SCRAM: their file fails closed and outlives crashes, changes come in order (S42, F13)."""

from __future__ import annotations

import json
import stat
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from coordinator.security.scram_credentials import (
    MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramMechanism,
    Users,
    decoy,
)
from coordinator.security.scram_file import FILE_NAME, ScramFile, ScramTable
from coordinator.security.scram_users import Change, Deletion, ScramUsers, Upsertion, changed, random_letters
from harness.doubles.faulty_files import FaultyFiles
from protocol.errors import ErrorCode
from storage.files import Files, StorageError

T = TypeVar("T")
KEY = b"a key of 32 bytes for the decoys"
CANARY = "canary-of-a-password"


def made(name: str, mechanism: ScramMechanism = SCRAM_SHA_256, iterations: int = 4096) -> Upsertion:
    return Upsertion(name, mechanism, CANARY.encode(), b"salt of " + name.encode(), iterations)


def users_of(*changes: Change) -> Users:
    return changed({}, list(changes))


TABLE = ScramTable(users_of(made("alice"), made("bob"), made("bob", SCRAM_SHA_512, 5000), made("é")), KEY)


class Threads:
    """Workers whose work is done when the test says so."""

    def __init__(self) -> None:
        self.queue: deque[Callable[[], None]] = deque()

    def submit(self, work: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        def run() -> None:
            future: Future[T] = Future()
            try:
                future.set_result(work())
            except StorageError as error:
                future.set_exception(error)
            done(future)

        self.queue.append(run)

    def settle(self) -> None:
        while self.queue:
            self.queue.popleft()()


@pytest.fixture
def file(tmp_path: Path) -> ScramFile:
    return ScramFile(tmp_path, Files())


def test_what_is_written_is_read(file: ScramFile) -> None:
    assert file.read() is None
    file.write(TABLE)
    assert file.read() == TABLE
    file.write(ScramTable({}, KEY))
    assert file.read() == ScramTable({}, KEY)


def test_only_its_owner_can_read_the_file_at_any_time(file: ScramFile) -> None:
    """Also where a draft was left behind that others can read, and might have open."""
    draft = file.path.with_name(FILE_NAME + ".tmp")
    draft.write_text("left behind")
    draft.chmod(0o644)
    with draft.open() as opened:
        file.write(TABLE)
        assert opened.read() == "left behind"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert not draft.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610, 0o601, 0o602])
def test_a_file_of_which_others_have_any_use_is_refused(file: ScramFile, mode: int) -> None:
    file.write(TABLE)
    file.path.chmod(mode)
    with pytest.raises(StorageError, match=rf"mode {mode:03o}.*chmod 600"):
        file.read()
    file.path.chmod(0o400)
    assert file.read() == TABLE


def test_a_file_that_is_torn_anywhere_is_refused(file: ScramFile) -> None:
    """Without a word of what is in it."""
    file.write(ScramTable(users_of(made("alice")), KEY))
    whole = file.path.read_bytes()
    for length in range(len(whole)):
        file.path.write_bytes(whole[:length])
        with pytest.raises(StorageError) as raised:
            file.read()
        assert_says_nothing(str(raised.value), whole)


def test_a_flipped_bit_anywhere_is_noticed(file: ScramFile) -> None:
    file.write(ScramTable(users_of(made("alice")), KEY))
    whole = file.path.read_bytes()
    for byte in range(len(whole)):
        damaged = bytearray(whole)
        damaged[byte] ^= 0x80 if byte % 2 else 0x01
        file.path.write_bytes(damaged)
        try:
            assert file.read() == ScramTable(users_of(made("alice")), KEY), "only white space may differ"
        except StorageError as error:
            assert_says_nothing(str(error), whole)


def assert_says_nothing(text: str, whole: bytes) -> None:
    secrets = json.loads(whole)["users"]["alice"]["SCRAM-SHA-256"]
    for name in ("salt", "stored_key", "server_key"):
        assert secrets[name][:8] not in text, text


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.pop("crc32c"),
        lambda document: document.update(format=2),
        lambda document: document.update(users={"": {}}),
        lambda document: document.update(users={"a": {}}),
        lambda document: document.update(users={"a": {"SCRAM-SHA-1": {}}}),
        lambda document: document.pop("decoy_key"),
        lambda document: document.pop("users"),
        lambda document: document["users"]["alice"]["SCRAM-SHA-256"].update(iterations="4096"),
        lambda document: document["users"]["alice"]["SCRAM-SHA-256"].update(stored_key=CANARY),
        lambda document: document["users"]["alice"]["SCRAM-SHA-256"].update(stored_key=""),
        lambda document: document["users"]["alice"]["SCRAM-SHA-256"].pop("salt"),
    ],
    ids=map(str, range(11)),
)
def test_a_file_that_lacks_something_is_refused(
    file: ScramFile, damage: Callable[[dict[str, object]], object]
) -> None:
    """Even with a checksum that is right; one without is believed in no case."""
    file.write(TABLE)
    document = json.loads(file.path.read_bytes())
    damage(document)
    if document.pop("crc32c", None) is not None:
        Files().write_atomically(file.path, encode(document), is_secret=True)
    else:
        file.path.write_text(json.dumps(document))
    with pytest.raises(StorageError) as raised:
        file.read()
    assert CANARY not in str(raised.value)


def encode(document: dict[str, object]) -> bytes:
    from storage.sealed_json import encode_sealed

    return encode_sealed(document)


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_leaves_the_users_before_or_after(tmp_path: Path, seed: int) -> None:
    """Whatever of it the disk had taken; what was answered is there."""
    files, random = FaultyFiles(tmp_path), Random(seed)
    file = ScramFile(tmp_path, files)
    file.write(ScramTable({}, KEY))
    if random.random() < 0.7:
        files.fail(random.randrange(6))
    try:
        file.write(TABLE)
        allowed = [TABLE]
    except StorageError:
        allowed = [ScramTable({}, KEY), TABLE]
    files.fault = None
    files.crash(random)
    if file.path.exists():
        file.path.chmod(0o600)  # The double makes files anew.
    assert file.read() in allowed


def test_the_bytes_are_synced_before_the_name_and_the_name_before_the_answer(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    ScramFile(tmp_path, files).write(TABLE)
    done = [operation.name for operation in files.operations]
    assert done[-3:] == ["sync", "rename", "sync"], done
    assert files.operations[-1].path == tmp_path


class Server:
    """Users of a daemon whose threads run when the test says so."""

    def __init__(self, file: ScramFile) -> None:
        self.threads = Threads()
        self.users = ScramUsers(file, self.threads)
        self.users.open()
        self.outcomes: list[ErrorCode] = []

    def alter(self, *changes: Change) -> None:
        self.users.alter(lambda: list(changes), self.outcomes.append)


def test_a_user_is_there_once_the_disk_has_it(file: ScramFile) -> None:
    server = Server(file)
    server.alter(made("alice"))
    assert server.users.credentials("alice") == {}
    assert server.outcomes == []
    server.threads.settle()
    assert server.outcomes == [ErrorCode.NONE]
    assert server.users.credentials("alice").keys() == {SCRAM_SHA_256}
    assert Server(file).users.users == server.users.users


def test_changes_are_made_one_after_the_other(file: ScramFile) -> None:
    """Each plan sees what the changes before have left."""
    server, seen = Server(file), list[bool]()

    def remove() -> list[Change]:
        seen.append(bool(server.users.credentials("alice")))
        return [Deletion("alice", SCRAM_SHA_256)]

    server.alter(made("alice"))
    server.users.alter(remove, server.outcomes.append)
    server.users.alter(list, server.outcomes.append)
    assert seen == []
    server.threads.settle()
    assert seen == [True]
    assert server.outcomes == [ErrorCode.NONE] * 3
    assert server.users.users == {}


def test_a_disk_that_fails_changes_nothing(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    server = Server(ScramFile(tmp_path, files))
    server.alter(made("alice"))
    server.threads.settle()
    before = server.users.users
    files.fail_always("sync")
    server.alter(made("bob"))
    server.alter(Deletion("alice", SCRAM_SHA_256))
    server.threads.settle()
    assert server.outcomes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR]
    assert server.users.users == before
    files.fault = None
    server.alter(made("bob"))
    server.threads.settle()
    assert server.users.users.keys() == {"alice", "bob"}


def test_the_key_of_the_decoys_is_kept(file: ScramFile) -> None:
    """Another salt for an unknown user after a restart would tell that the user is not known."""
    first = Server(file)
    first.alter(made("alice"))
    first.threads.settle()
    for mechanism in MECHANISMS:
        tokens = set()
        for server in (first, Server(file)):
            hiding = server.users.mechanism(mechanism, hides_unknown_users=True)
            challenge = hiding.begin().step(b"n,,n=bob,r=abc", 0)
            tokens.add(challenge.token.partition(b",")[2])
        assert len(tokens) == 1
        assert tokens != {
            first.users.mechanism(mechanism, hides_unknown_users=True)
            .begin()
            .step(b"n,,n=carol,r=abc", 0)
            .token.partition(b",")[2]
        }


def test_a_user_of_one_mechanism_seems_to_have_the_other(file: ScramFile) -> None:
    server = Server(file)
    server.alter(made("alice"))
    server.threads.settle()
    right = server.users.mechanism(SCRAM_SHA_256, hides_unknown_users=True).begin()
    assert right.step(b"n,,n=alice,r=abc", 0).token.endswith(b",s=c2FsdCBvZiBhbGljZQ==,i=4096")
    other = server.users.mechanism(SCRAM_SHA_512, hides_unknown_users=True).begin()
    assert other.step(b"n,,n=alice,r=abc", 0).token.endswith(b",i=4096")


def test_random_letters_differ() -> None:
    assert len({random_letters() for _ in range(1000)}) == 1000


def test_nothing_shows_what_it_keeps_secret() -> None:
    shown = repr([TABLE, made("alice"), ScramTable({}, KEY), decoy(SCRAM_SHA_256, "bob", KEY)])
    assert CANARY not in shown
    assert "salt of" not in shown
    assert "decoys" not in shown
