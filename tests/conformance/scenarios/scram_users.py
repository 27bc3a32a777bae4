"""SCRAM users are made, described, changed and removed; and what Kafka refuses of that (S41, S42)."""

from __future__ import annotations

from operator import attrgetter
from typing import Final, TypeAlias

from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import ask, eventually, quietly

SHA_256, SHA_512 = 1, 2
SALTED: Final = bytes(range(32))
Change: TypeAlias = ScramCredentialUpsertion | ScramCredentialDeletion


def user(run: Run, name: str) -> str:
    """A user that no other run has."""
    return f"{name} of {run.name}"


def made(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt", salted: bytes = SALTED
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def gone(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter(run: Run, note: str, *changes: Change) -> None:
    """Ask for these changes in one request, and enter the answer."""
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    await ask(run, request, 0, note)


async def until_there(run: Run, name: str, count: int) -> None:
    """Wait until the user has that many credentials: Kafka's brokers learn of them after the answer."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name)])
    await eventually(run, request, 0, lambda reply: len(reply.results[0].credential_infos) == count)


async def describe(run: Run, *names: str) -> None:
    users = [UserName(name=name) for name in names]
    await ask(run, DescribeUserScramCredentialsRequest(users=users), 0, str(names))


@scenario("6 DescribeUserScramCredentials")
async def users_are_described(run: Run) -> None:
    """Without salts and keys; those that are not there, and those that are named twice, are errors (S41)."""
    one, both = user(run, "one"), user(run, "both")
    await alter(run, "two users", made(one, SHA_512, 16384), made(both))
    await alter(run, "the second mechanism", made(both, SHA_512, 5000))
    await until_there(run, one, 1)
    await until_there(run, both, 2)
    for names in ((one,), (both, one), ("nobody",), (one, one), (one, "nobody", one), ("",), ("a", "a", "a")):
        await describe(run, *names)
    everyone: tuple[list[UserName] | None, ...] = (None, [])
    for users in everyone:
        reply = await quietly(run, DescribeUserScramCredentialsRequest(users=users), 0)
        ours = [each for each in reply.results if each.user in (one, both)]
        infos = [
            [each.user, sorted([info.mechanism, info.iterations] for info in each.credential_infos)]
            for each in sorted(ours, key=attrgetter("user"))
        ]
        run.saw(f"all, asked by {users}", [reply.error_code, reply.error_message, infos])


@scenario("6 AlterUserScramCredentials")
async def users_are_made_and_removed(run: Run) -> None:
    """Other users of a request go through where one is refused; one name is of one letter case (S42, S11)."""
    alice, upper = user(run, "alice"), user(run, "Alice")
    await alter(run, "nothing")
    await alter(run, "a user", made(alice))
    await until_there(run, alice, 1)
    await describe(run, alice, upper)
    await alter(run, "another count", made(alice, iterations=8192), gone(upper))
    await alter(run, "an empty salt", made(upper, salt=b""))
    await until_there(run, upper, 1)
    await describe(run, alice, upper)
    await alter(run, "one goes, another comes", gone(alice), made(user(run, "é,=\n"), SHA_512))
    await until_there(run, alice, 0)
    await describe(run, alice, user(run, "é,=\n"))
    await alter(run, "again", gone(alice))
    await alter(run, "the other mechanism", gone(upper, SHA_512))
    await alter(run, "a long salted password", made(alice, salted=bytes(1000), salt=bytes(200)))
    await until_there(run, alice, 1)
    await describe(run, alice)


@scenario("6 AlterUserScramCredentials: what is refused")
async def credentials_are_refused(run: Run) -> None:
    """The first error of a user counts; a user who is named twice is not changed at all (S42)."""
    bob = user(run, "bob")
    refused: dict[str, tuple[Change, ...]] = {
        "twice": (made(bob), made(bob)),
        "twice, of two mechanisms": (made(bob), made(bob, SHA_512)),
        "three times": (made(bob), made(bob), made(bob)),
        "an error, then a good one": (made(bob, iterations=1), made(bob)),
        "a good one, then an error": (made(bob), made(bob, iterations=1)),
        "no name": (made(""),),
        "no name, twice": (made(""), made("")),
        "no name, to be removed": (gone(""),),
        "mechanism 0": (made(bob, 0),),
        "mechanism 3": (made(bob, 3),),
        "mechanism -1": (made(bob, -1), gone("nobody", -1)),
        "no name and no mechanism": (made("", 9, 1),),
        "mechanism and iterations": (made(bob, 9, 1),),
        "too few": (made(bob, iterations=4095),),
        "too many": (made(bob, iterations=16385),),
        "less than none": (made(bob, iterations=-1),),
        "not there": (gone(bob),),
        "not there, then made": (gone(bob), made(bob)),
        "not there, twice": (gone(bob), gone(bob)),
        "an empty salted password": (made(bob, salted=b""),),
        "beside good ones": (made(bob, iterations=1), made(user(run, "carol")), gone(user(run, "nobody"))),
    }
    for note, changes in refused.items():
        await alter(run, note, *changes)
    await until_there(run, user(run, "carol"), 1)
    await describe(run, bob, user(run, "carol"))
    await alter(run, "removed and made", gone(user(run, "carol")), made(user(run, "carol")))
    await alter(run, "removed twice", gone(user(run, "carol")), gone(user(run, "carol"), SHA_512))
    await describe(run, user(run, "carol"))
    for name in (bob, user(run, "carol")):
        await quietly(run, AlterUserScramCredentialsRequest(deletions=[gone(name)], upsertions=[]), 0)
