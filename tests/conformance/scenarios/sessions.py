"""Sessions that end, and logins on living connections, by raw frames (docs/kafka-security.md S27 to S32)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.conformance.actors import TOPIC
from tests.conformance.connection import Connection
from tests.conformance.logins import AUTHENTICATE_VERSION, HANDSHAKE_VERSION
from tests.conformance.registry import scenario
from tests.conformance.run import CLOSED, Asked, Run
from tests.conformance.scenarios.logins import (
    ALICE,
    DELAY_S,
    HELLO,
    SIZE,
    SLOW_S,
    TOKENS,
    ask,
    ask_raw,
    frame_of,
    handshake,
    is_closed,
    is_in,
    raw,
)
from tests.conformance.secured import BRIEF_LISTENER, BRIEF_MS, PASSWORDS, SECURED

OVER_S: Final = BRIEF_MS / 1000 + 0.3
"""After which a session on BRIEF is over."""
NAMES: Final = MetadataRequest(topics=[])


def authenticate(token: bytes = ALICE) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=token)


async def known(run: Run, token: bytes = ALICE) -> Connection:
    """A connection on BRIEF whose client has just logged in."""
    connection = await run.stranger(listener=BRIEF_LISTENER)
    shaken = await connection.send(handshake(), HANDSHAKE_VERSION)
    done = await connection.send(authenticate(token), AUTHENTICATE_VERSION)
    run.saw("the first login", (shaken.error_code, done.error_code, done.session_lifetime_ms))
    return connection


async def log_in_again(run: Run, connection: Connection, note: str) -> None:
    """All of a login on a living connection."""
    await ask(run, connection, handshake(), HANDSHAKE_VERSION, note)
    await ask(run, connection, authenticate(), AUTHENTICATE_VERSION, note)


async def is_served(run: Run, connection: Connection) -> None:
    """As `is_in`, and the connection stays."""
    reply = await connection.send(NAMES, 12)
    run.saw("Metadata v12", [node.port for node in reply.brokers] != [])


@scenario("security S27", versions=range(3), on=SECURED)
async def the_lifetime_of_a_session_is_told(run: Run, version: int) -> None:
    connection = await run.stranger(listener=BRIEF_LISTENER)
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    reply = await ask(run, connection, authenticate(), version)
    run.expect(reply.session_lifetime_ms == (BRIEF_MS if version else 0), "to those that can be told")
    await asyncio.sleep(OVER_S)
    reply = await ask(run, connection, NAMES, 12)
    run.expect(reply == CLOSED, "and binds all")


@scenario("security S27", on=SECURED)
async def a_session_of_bare_tokens_ends_as_well(run: Run) -> None:
    connection = await run.stranger(listener=BRIEF_LISTENER)
    await ask(run, connection, handshake(), 0)
    await run.answer(Asked("a bare token", None, connection.send_bytes(SIZE.pack(len(ALICE)) + ALICE)))
    await is_served(run, connection)
    await asyncio.sleep(OVER_S)
    reply = await ask(run, connection, NAMES, 12)
    run.expect(reply == CLOSED, "unanswered")


@scenario("security S28", versions=range(3), on=SECURED)
async def a_login_on_the_living_connection(run: Run, version: int) -> None:
    """At once, and again a second later; the session is as long as at first."""
    connection = await known(run)
    for number in range(2):
        await ask(run, connection, handshake(), HANDSHAKE_VERSION, f"{number}")
        await ask(run, connection, authenticate(), version, f"{number}")
        await is_served(run, connection)
        await asyncio.sleep(1.2)
    await is_in(run, connection)


@scenario("security S28", versions=range(2), on=SECURED)
async def within_a_second_of_the_last_one_a_handshake_is_refused(run: Run, version: int) -> None:
    connection = await known(run)
    await log_in_again(run, connection, "again")
    reply = await ask(run, connection, handshake(), version, "too soon")
    run.expect(reply.error_code == ErrorCode.ILLEGAL_SASL_STATE, "34")
    await ask(run, connection, authenticate(), AUTHENTICATE_VERSION, "without a handshake")
    await is_in(run, connection)


@scenario("security S28", choices=TOKENS, on=SECURED)
async def a_login_of_bare_tokens_on_the_living_connection(run: Run, choice: str) -> None:
    connection = await known(run)
    await ask(run, connection, handshake(), 0)
    token = TOKENS[choice]
    reply = await run.answer(Asked(choice, None, connection.send_bytes(SIZE.pack(len(token)) + token)))
    if reply != CLOSED:
        await is_in(run, connection)


@scenario("security S29", choices=("SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "plain", ""), on=SECURED)
async def another_mechanism_on_the_living_connection(run: Run, choice: str) -> None:
    connection = await known(run)
    reply = await ask(run, connection, handshake(choice), HANDSHAKE_VERSION)
    if reply == CLOSED:
        return
    async with run.taking(DELAY_S, SLOW_S):
        reply = await ask(run, connection, authenticate(b"n,,n=alice,r=fyko"), AUTHENTICATE_VERSION)
    run.expect(reply == CLOSED, "unanswered")


@scenario("security S8", "security S30", versions=range(3), choices=TOKENS, on=SECURED)
async def a_token_on_the_living_connection(run: Run, version: int, choice: str) -> None:
    connection = await known(run)
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    reply = await ask(run, connection, authenticate(TOKENS[choice]), version)
    if reply.error_code:
        await is_closed(run, connection)
    else:
        await is_in(run, connection)


@scenario("security S30", on=SECURED)
async def another_principal_on_the_living_connection(run: Run) -> None:
    connection = await known(run)
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    async with run.taking(DELAY_S, SLOW_S):
        token = f"\0bob\0{PASSWORDS['bob']}".encode()
        await ask(run, connection, authenticate(token), AUTHENTICATE_VERSION)
    await is_closed(run, connection)


OTHERS: Final[dict[str, tuple[Any, int]]] = {
    "DeleteGroups": (DeleteGroupsRequest(groups_names=["a", "b"]), 2),
    "ListGroups": (ListGroupsRequest(), 4),
    "Heartbeat": (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
    "ApiVersions": (HELLO, 3),
    "SaslHandshake": (handshake(), HANDSHAKE_VERSION),
}


@scenario("security S30", choices=OTHERS, on=SECURED)
async def another_api_while_the_login_is_under_way(run: Run, choice: str) -> None:
    connection = await known(run)
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    async with run.taking(DELAY_S, SLOW_S):
        await ask(run, connection, *OTHERS[choice])
    await is_closed(run, connection)


AFTER: Final = {
    "Metadata": frame_of(NAMES, 12),
    "ApiVersions": frame_of(HELLO, 3),
    "SaslAuthenticate": frame_of(authenticate(), AUTHENTICATE_VERSION),
    "handshake-v2": raw(17, 2, b"\0\5PLAIN"),
    "unknown-api": raw(999, 0),
}


@scenario("security S31", choices=AFTER, on=SECURED)
async def after_the_end_anything_else_closes(run: Run, choice: str) -> None:
    connection = await known(run)
    await asyncio.sleep(OVER_S)
    reply = await run.answer(Asked(choice, None, connection.send_bytes(AFTER[choice])))
    run.expect(reply == CLOSED, "unanswered")


@scenario("security S31", versions=range(2), on=SECURED)
async def after_the_end_a_login_still_works(run: Run, version: int) -> None:
    connection = await known(run)
    await asyncio.sleep(OVER_S)
    await ask(run, connection, handshake(), version, "after the end")
    if version:
        await ask(run, connection, authenticate(), AUTHENTICATE_VERSION)
    else:
        await run.answer(Asked("a bare token", None, connection.send_bytes(SIZE.pack(len(ALICE)) + ALICE)))
    await is_in(run, connection)


@scenario("security S31", on=SECURED)
async def what_is_parked_at_the_end_is_answered(run: Run) -> None:
    connection = await known(run, f"\0admin\0{PASSWORDS['admin']}".encode())
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    topics = [FetchTopic(topic=TOPIC, topic_id=run.topic_ids[TOPIC], partitions=partitions)]
    wait_ms = BRIEF_MS + 700
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1 << 30, max_bytes=1 << 30, topics=topics)
    async with run.taking(BRIEF_MS / 1000, SLOW_S):
        reply = await connection.send(request, 13)
    run.saw("Fetch v13", reply.error_code)
    reply = await ask(run, connection, NAMES, 12)
    run.expect(reply == CLOSED, "the next one is not")


@scenario("security S32", choices=("right", "wrong password"), on=SECURED)
async def requests_around_a_login_in_one_segment(run: Run, choice: str) -> None:
    """What is behind a login that fails is not looked at."""
    connection = await known(run)
    requests: tuple[tuple[Any, int], ...] = (
        (handshake(), HANDSHAKE_VERSION),
        (authenticate(TOKENS[choice]), AUTHENTICATE_VERSION),
        (handshake(), HANDSHAKE_VERSION),
        (authenticate(), AUTHENTICATE_VERSION),
    )
    frames = b"".join(frame_of(*each) for each in requests)
    await ask_raw(run, connection, frames, 17, HANDSHAKE_VERSION, "all at once")
    for request, version in requests[1:]:
        key = spec(type(request)).api_key
        assert key is not None
        name = type(request).__name__
        reply = await run.answer(
            Asked(f"the answer to {name}", request, connection.next_answer(key, version))
        )
        if reply == CLOSED:
            break
    connection.close()
