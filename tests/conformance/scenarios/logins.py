"""The state machine of a login by raw frames (docs/kafka-security.md S1 to S12): what is answered, what closes."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.conformance.connection import CORRELATION_ID, Connection
from tests.conformance.logins import AUTHENTICATE_VERSION, HANDSHAKE_VERSION
from tests.conformance.registry import scenario
from tests.conformance.run import CLOSED, Asked, Run
from tests.conformance.secured import PASSWORDS, SECURED
from tests.quotas.asking import alteration, entry

SIZE: Final = Struct(">i")
HEAD: Final = Struct(">hhih")
MOST_BYTES: Final = 524_288
"""Of a frame in a login."""
DELAY_S: Final = 0.09
"""A little less than connection.failed.authentication.delay.ms."""
SLOW_S: Final = 10.0
LONG: Final = "X" * 100
CLIENT: Final = "stranger"

HELLO: Final = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
NAMELESS: Final = ApiVersionsRequest(client_software_name="-", client_software_version="")
ALICE: Final = f"\0alice\0{PASSWORDS['alice']}".encode()
TOKENS: Final = {
    "right": ALICE,
    "with an authzid": f"alice\0alice\0{PASSWORDS['alice']}".encode(),
    "wrong password": b"\0alice\0wrong",
    "unknown user": b"\0nobody\0alice-secret",
    "a user in other letters": f"\0Alice\0{PASSWORDS['alice']}".encode(),
    "empty": b"",
    "one part": b"alice",
    "two parts": b"alice\0alice-secret",
    "four parts": b"\0alice\0alice-secret\0",
    "five parts": b"\0alice\0alice-secret\0\0",
    "no user": b"\0\0alice-secret",
    "no password": b"\0alice\0",
    "another authzid": f"bob\0alice\0{PASSWORDS['alice']}".encode(),
    "another authzid, wrong password": b"bob\0alice\0wrong",
    "no UTF-8": b"\0alice\0\xff\xfe",
}
SUCCEEDING: Final = ("right", "with an authzid")


def handshake(mechanism: str = "PLAIN") -> SaslHandshakeRequest:
    return SaslHandshakeRequest(mechanism=mechanism)


def frame_of(request: Any, version: int) -> bytes:
    return encode_request(request, version, CORRELATION_ID, CLIENT)


def raw(key: int, version: int, body: bytes = b"") -> bytes:
    """A frame with a header of its own, whatever follows it."""
    frame = HEAD.pack(key, version, CORRELATION_ID, len(CLIENT)) + CLIENT.encode() + body
    return SIZE.pack(len(frame)) + frame


NEWER: Final = raw(18, 99, b"\0\6tests\x021\0")
"""ApiVersions in a version that is not there yet."""


async def ask(run: Run, connection: Connection, request: Any, version: int, note: str = "") -> Any:
    """The answer, or CLOSED."""
    name = type(request).__name__.removesuffix("Request")
    return await run.answer(
        Asked(f"{name} v{version} {note}".strip(), request, connection.send(request, version))
    )


async def hello(run: Run, connection: Connection, version: int = 3, note: str = "") -> int | None:
    """The error in the answer to ApiVersions, whose table is compared elsewhere; None if it was closed."""
    asked = Asked("", HELLO, connection.send(HELLO, version))
    try:
        error: int | None = (await asked.reply).error_code
    except ConnectionError:
        error = None
    run.saw(f"ApiVersions v{version} {note}".strip(), CLOSED if error is None else error)
    return error


async def ask_raw(run: Run, connection: Connection, frame: bytes, key: int, version: int, what: str) -> Any:
    return await run.answer(Asked(what, None, connection.send_frame(frame, key, version)))


async def is_in(run: Run, connection: Connection) -> None:
    """Whoever is on the connection is served: the answer itself is another part's."""
    reply = await connection.send(MetadataRequest(topics=[]), 12)
    run.saw("Metadata v12", [node.port for node in reply.brokers] != [])
    connection.close()


async def is_closed(run: Run, connection: Connection) -> None:
    """The connection closes without another answer."""
    reply = await run.answer(Asked("what follows", None, connection.send_bytes(b"")))
    run.expect(reply == CLOSED, "it is closed")
    connection.close()


@scenario("security S3", "security S6", "security S7", versions=range(3), on=SECURED)
async def a_login_in_every_version_of_its_requests(run: Run, version: int) -> None:
    connection = await run.stranger()
    await hello(run, connection, 4)
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    await ask(run, connection, SaslAuthenticateRequest(auth_bytes=ALICE), version)
    await is_in(run, connection)


@scenario("security S3", versions=range(5), on=SECURED)
async def a_stranger_may_ask_for_versions_once(run: Run, version: int) -> None:
    connection = await run.stranger()
    run.expect(await hello(run, connection, version) == ErrorCode.NONE, "it is answered")
    run.expect(await hello(run, connection, version, "again") is None, "once")


@scenario("security S3", on=SECURED)
async def what_cannot_be_answered_does_not_use_it_up(run: Run) -> None:
    connection = await run.stranger()
    for number in range(3):
        await ask_raw(run, connection, NEWER, 18, 0, f"ApiVersions v99, {number}")
        await ask(run, connection, NAMELESS, 3, f"with a name that is none, {number}")
    await hello(run, connection)
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    await ask(run, connection, SaslAuthenticateRequest(auth_bytes=ALICE), AUTHENTICATE_VERSION)
    await is_in(run, connection)


BEFORE: Final = {
    "Metadata": frame_of(MetadataRequest(topics=[]), 12),
    "SaslAuthenticate": frame_of(SaslAuthenticateRequest(auth_bytes=ALICE), 2),
    "unknown-api": raw(999, 0),
    "handshake-v2": raw(17, 2, b"\0\5PLAIN"),
    "handshake-cut-short": raw(17, 1, b"\0\5PL"),
    "versions-cut-short": raw(18, 3, b"\0\5"),
    "no-header": SIZE.pack(4) + b"abcd",
    "nothing": SIZE.pack(0),
    "gssapi": SIZE.pack(5) + b"\x60\1\2\3\4",
}


@scenario("security S2", "security S4", choices=BEFORE, on=SECURED)
async def before_the_handshake_anything_else_closes(run: Run, choice: str) -> None:
    connection = await run.stranger()
    reply = await run.answer(Asked(choice, None, connection.send_bytes(BEFORE[choice])))
    run.expect(reply == CLOSED, "unanswered")
    connection = await run.stranger()
    await hello(run, connection)
    reply = await run.answer(Asked(f"{choice} later", None, connection.send_bytes(BEFORE[choice])))
    run.expect(reply == CLOSED, "unanswered")


@scenario("security S4", versions=range(2), choices=("GSSAPI", "plain", "", LONG), on=SECURED)
async def an_unknown_mechanism_is_refused_with_those_there_are(run: Run, version: int, choice: str) -> None:
    connection = await run.stranger()
    async with run.taking(DELAY_S, SLOW_S):
        reply = await ask(run, connection, handshake(choice), version)
    run.expect(reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM, "33")
    await is_closed(run, connection)


@scenario("security S4", versions=range(2), on=SECURED)
async def a_second_handshake_is_out_of_order(run: Run, version: int) -> None:
    connection = await run.stranger()
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    async with run.taking(DELAY_S, SLOW_S):
        reply = await ask(run, connection, handshake(), version, "again")
    run.expect(reply.error_code == ErrorCode.ILLEGAL_SASL_STATE, "34")
    await is_closed(run, connection)


@scenario("security S5", choices=TOKENS, on=SECURED)
async def after_a_handshake_of_v0_tokens_are_bare(run: Run, choice: str) -> None:
    connection = await run.stranger()
    await ask(run, connection, handshake(), 0)
    token = TOKENS[choice]
    reply = await run.answer(Asked(choice, None, connection.send_bytes(SIZE.pack(len(token)) + token)))
    run.expect(reply == (b"" if choice in SUCCEEDING else CLOSED), "an empty token, or none")
    if choice in SUCCEEDING:
        await is_in(run, connection)


def produce(acks: int) -> ProduceRequest:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=2, records=b"")])]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1, topic_data=data)


def fetch() -> FetchRequest:
    partitions = [FetchPartition(partition=2, fetch_offset=0, partition_max_bytes=1)]
    topics = [FetchTopic(topic="t", topic_id=b"i" * 16, partitions=partitions)]
    return FetchRequest(max_wait_ms=1, min_bytes=1, topics=topics)


OTHERS: Final = {
    "DeleteGroups": (DeleteGroupsRequest(groups_names=["a", "b"]), 2),
    "ListGroups": (ListGroupsRequest(), 4),
    "Heartbeat": (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
    "ApiVersions": (HELLO, 3),
    "Produce": (produce(acks=1), 9),
    "Fetch-4": (fetch(), 4),
    "Fetch-12": (fetch(), 12),
    "Fetch-13": (fetch(), 13),
    "Metadata-1": (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 1),
    "Metadata-13": (MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=b"i" * 16)]), 13),
    "Metadata-all": (MetadataRequest(topics=None), 12),
    "FindCoordinator-2": (FindCoordinatorRequest(key="g"), 2),
    "FindCoordinator-4": (FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4),
    "AlterReplicaLogDirs": (
        AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(path="/a", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0, 1])])
            ]
        ),
        2,
    ),
    "DescribeLogDirs-1": (DescribeLogDirsRequest(topics=None), 1),
    "DescribeLogDirs-4": (DescribeLogDirsRequest(topics=None), 4),
    "CreateDelegationToken": (CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3),
    "RenewDelegationToken": (RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=-1), 2),
    "ExpireDelegationToken": (ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1), 2),
    "AlterClientQuotas": (
        alteration(entry({"user": "u", "client-id": None}, producer_byte_rate=1.0)),
        1,
    ),
}


@scenario("security S6", choices=OTHERS, on=SECURED)
async def another_api_in_the_exchange_is_refused_in_its_own_words(run: Run, choice: str) -> None:
    connection = await run.stranger()
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    request, version = OTHERS[choice]
    async with run.taking(DELAY_S, SLOW_S):
        await ask(run, connection, request, version)
    await is_closed(run, connection)


@scenario("security S6", on=SECURED)
async def a_producer_that_wants_no_answer_in_the_exchange(run: Run) -> None:
    connection = await run.stranger()
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    reply = await ask(run, connection, produce(acks=0), 9)
    run.expect(reply == CLOSED, "unanswered")


@scenario("security S6", on=SECURED)
async def versions_of_an_unknown_version_in_the_exchange(run: Run) -> None:
    connection = await run.stranger()
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    await ask_raw(run, connection, NEWER, 18, 0, "ApiVersions v99")
    await is_closed(run, connection)


GARBAGE: Final = {
    "v3": raw(36, 3, b"\1\0"),
    "cut-short": raw(36, 1, b"\0\0\0\x09abc"),
    "unknown-api": raw(999, 0),
    "bare": SIZE.pack(len(ALICE)) + ALICE,
    "nothing": SIZE.pack(0),
}


@scenario("security S6", choices=GARBAGE, on=SECURED)
async def what_cannot_be_read_in_the_exchange_closes(run: Run, choice: str) -> None:
    connection = await run.stranger()
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    reply = await run.answer(Asked(choice, None, connection.send_bytes(GARBAGE[choice])))
    run.expect(reply == CLOSED, "unanswered")


@scenario(
    "security S7",
    "security S8",
    "security S11",
    "security S12",
    versions=range(3),
    choices=TOKENS,
    on=SECURED,
)
async def a_token_of_plain(run: Run, version: int, choice: str) -> None:
    connection = await run.stranger()
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    reply = await ask(run, connection, SaslAuthenticateRequest(auth_bytes=TOKENS[choice]), version)
    fails = choice not in SUCCEEDING
    run.expect(reply.error_code == (ErrorCode.SASL_AUTHENTICATION_FAILED if fails else 0), "58 or 0")
    if fails:
        await is_closed(run, connection)
    else:
        await is_in(run, connection)


@scenario("security S8", on=SECURED)
async def a_failure_is_answered_late(run: Run) -> None:
    connection = await run.stranger()
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    async with run.taking(DELAY_S, SLOW_S):
        await ask(run, connection, SaslAuthenticateRequest(auth_bytes=b"\0alice\0no"), AUTHENTICATE_VERSION)


@scenario("security S9", choices=("right", "wrong password"), on=SECURED)
async def all_of_it_in_one_segment(run: Run, choice: str) -> None:
    """The request behind a login that fails is not looked at."""
    connection = await run.stranger()
    requests = (
        (handshake(), HANDSHAKE_VERSION),
        (SaslAuthenticateRequest(auth_bytes=TOKENS[choice]), AUTHENTICATE_VERSION),
        (handshake(), HANDSHAKE_VERSION),
    )
    frames = b"".join(frame_of(*each) for each in requests)
    await ask_raw(run, connection, frames, 17, HANDSHAKE_VERSION, "all at once")
    for request, version in requests[1:]:
        key = spec(type(request)).api_key
        assert key is not None
        name = type(request).__name__
        await run.answer(Asked(f"the answer to {name}", request, connection.next_answer(key, version)))
    connection.close()


@scenario("security S1", choices=(MOST_BYTES, MOST_BYTES + 1, 1 << 30, -1), on=SECURED)
async def a_frame_that_is_too_long(run: Run, choice: int) -> None:
    """The longest is a request like any other: it has no right password."""
    connection = await run.stranger()
    await ask(run, connection, handshake(), HANDSHAKE_VERSION)
    version = 1
    empty = frame_of(SaslAuthenticateRequest(auth_bytes=b""), version)
    if choice == MOST_BYTES:
        token = b"x" * (MOST_BYTES + SIZE.size - len(empty))
        await ask(run, connection, SaslAuthenticateRequest(auth_bytes=token), version)
        await is_closed(run, connection)
        return
    async with run.taking(DELAY_S, SLOW_S):
        reply = await run.answer(
            Asked(f"{choice} bytes", None, connection.send_bytes(SIZE.pack(choice) + empty[4:]))
        )
    run.expect(reply == CLOSED, "unanswered")


@scenario("security S10", versions=range(2), on=SECURED)
async def a_handshake_after_the_login_changes_nothing(run: Run, version: int) -> None:
    run.logs_in("alice")
    for actor in ("alice", "anybody"):
        for mechanism in ("PLAIN", "GSSAPI"):
            await run.answer(await run.send(actor, handshake(mechanism), version, mechanism))
        token = SaslAuthenticateRequest(auth_bytes=ALICE)
        await run.answer(await run.send(actor, token, version))
        await is_in(run, await run.free_connection(actor))
