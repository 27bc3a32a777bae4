"""The APIs of SCRAM users (50, 51) by plain calls; conformance has Kafka's answers (S41, S42)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from coordinator.admin import scram_users as apis
from coordinator.security.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential
from harness.doubles.faulty_files import FaultyFiles
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.topics.world import World

SHA_256, SHA_512 = 1, 2


def made(
    name: str,
    mechanism: int = SHA_256,
    iterations: int = 4096,
    salt: bytes = b"salt",
    salted: bytes = b"secret",
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def gone(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def request_of(
    *changes: ScramCredentialUpsertion | ScramCredentialDeletion,
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )


def alter(world: World, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, int]:
    """The error by user."""
    answer = world.ask(request_of(*changes), 0)
    assert len({each.user for each in answer.results}) == len(answer.results), "one result per user"
    return {each.user: each.error_code for each in answer.results}


def described(world: World, *names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    users = [UserName(name=name) for name in names] or None
    answer = world.ask(DescribeUserScramCredentialsRequest(users=users), 0)
    assert answer.error_code == 0
    return {
        each.user: (
            each.error_code,
            sorted((info.mechanism, info.iterations) for info in each.credential_infos),
        )
        for each in answer.results
    }


def test_users_are_made_described_changed_and_removed(world: World) -> None:
    assert described(world) == {}
    assert alter(world, made("a"), made("b", SHA_512, 16384)) == {"a": 0, "b": 0}
    assert alter(world, made("a", SHA_512), made("b", SHA_512, 5000)) == {"a": 0, "b": 0}
    all_of_them = {"a": (0, [(1, 4096), (2, 4096)]), "b": (0, [(2, 5000)])}
    assert described(world) == all_of_them
    assert described(world, "b", "A", "a", "b") == {"b": (92, []), "A": (91, []), "a": all_of_them["a"]}
    assert alter(world, gone("a"), gone("b", SHA_512), made("c")) == {"a": 0, "b": 0, "c": 0}
    assert described(world) == {"a": (0, [(2, 4096)]), "c": (0, [(1, 4096)])}
    assert alter(world, gone("b", SHA_512)) == {"b": ErrorCode.RESOURCE_NOT_FOUND}


def test_keys_are_kept_and_not_the_salted_password(world: World) -> None:
    """The salted password is as good as the password (S43)."""
    alter(world, made("a", SHA_512, salted=b"the salted password"))
    kept = world.broker.scram_users.credentials("a")[SCRAM_SHA_512]
    assert kept == ScramCredential.of(SCRAM_SHA_512, b"the salted password", b"salt", 4096)
    assert b"the salted password" not in kept.stored_key + kept.server_key


def test_users_outlive_the_daemon(world: World, tmp_path: Path) -> None:
    alter(world, made("a"), made("ü,=", SHA_512))
    kept = world.broker.scram_users.users
    world.logs.close()
    restarted = World(tmp_path)
    assert restarted.broker.scram_users.users == kept
    assert described(restarted).keys() == {"a", "ü,="}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (made(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (gone(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (made("x", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (gone("x", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (made("x", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (made("x", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (made("x", salted=b""), ErrorCode.UNKNOWN_SERVER_ERROR),
        (gone("x"), ErrorCode.RESOURCE_NOT_FOUND),
        (made("x" * 1001), ErrorCode.POLICY_VIOLATION),
        (made("é" * 501), ErrorCode.POLICY_VIOLATION),
        (made("x", salt=bytes(257)), ErrorCode.POLICY_VIOLATION),
    ],
    ids=repr,
)
def test_what_is_refused_changes_nothing_and_others_go_through(
    world: World, change: ScramCredentialUpsertion | ScramCredentialDeletion, error: int
) -> None:
    assert alter(world, change, made("good")) == {change.name: error, "good": 0}
    assert described(world).keys() == {"good"}


@pytest.mark.parametrize(
    "changes",
    [
        (made("a"), made("a")),
        (made("a"), made("a", SHA_512)),
        (made("a"), made("a"), made("a")),
        (gone("a"), made("a", iterations=5000)),
        (gone("a"), gone("a")),
        (gone("a"), gone("a", SHA_512), made("a", SHA_512)),
    ],
    ids=repr,
)
def test_a_user_who_is_named_twice_is_left_alone(
    world: World, changes: tuple[ScramCredentialUpsertion | ScramCredentialDeletion, ...]
) -> None:
    alter(world, made("a", iterations=6000))
    assert alter(world, *changes) == {"a": ErrorCode.DUPLICATE_RESOURCE}
    assert described(world) == {"a": (0, [(1, 6000)])}


def test_the_first_error_of_a_user_counts(world: World) -> None:
    assert alter(world, gone("a"), made("a")) == {"a": ErrorCode.RESOURCE_NOT_FOUND}
    assert alter(world, made("a", iterations=1), made("a")) == {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert described(world) == {}


def test_there_is_room_for_so_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apis, "MOST_CREDENTIALS", 3)
    assert alter(world, made("a"), made("b")) == {"a": 0, "b": 0}
    assert alter(world, made("a", SHA_512), made("b", SHA_512)) == {"a": 0, "b": ErrorCode.POLICY_VIOLATION}
    assert alter(world, made("a"), made("c")) == {"a": 0, "c": ErrorCode.POLICY_VIOLATION}, (
        "one that is replaced"
    )
    assert alter(world, gone("b"), made("c")) == {"b": 0, "c": 0}
    assert world.broker.scram_users.credential_count == 3


def test_an_answer_waits_for_the_disk(world: World) -> None:
    waiting = world.start(request_of(made("a")), 0)
    assert not waiting.is_answered
    assert world.broker.scram_users.users == {}
    world.settle()
    assert described(world) == {"a": (0, [(1, 4096)])}
    assert waiting.answer.results[0].error_message is None


def test_a_full_disk_is_said_of_those_that_were_good(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    world = World(tmp_path, files=files)
    files.fail_always("sync", errno.ENOSPC)
    wanted = {"a": ErrorCode.KAFKA_STORAGE_ERROR, "b": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert alter(world, made("a"), made("b", iterations=1)) == wanted
    assert described(world) == {}
    assert world.broker.scram_users.credentials("a").get(SCRAM_SHA_256) is None


def test_a_request_shows_no_secret() -> None:
    shown = repr(request_of(made("alice", salt=b"canary", salted=b"canary")))
    assert "alice" in shown
    assert "canary" not in shown
