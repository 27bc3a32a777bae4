"""A connection whose session ends, by plain calls: what is answered, started, and closed (S28 to S32)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Any

import pytest

from coordinator.runtime.clock import Clock
from coordinator.runtime.turn_share import TurnShare
from coordinator.security.sasl.login import Failure, LoginTerms
from coordinator.security.sasl.plain import Plain
from coordinator.security.session import Session
from coordinator.server.api_table import api_table
from coordinator.server.connection import Connection, use_apis
from coordinator.server.ending_connection import EndingConnection, connection_for
from coordinator.server.login import LoginRules
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepared
from coordinator.server.strangers import Strangers
from coordinator.settings.model import Settings
from protocol.errors import ErrorCode
from protocol.framing import EncodedResponse, decode_response, encode_request
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.security.test_login import Versions
from tests.server.test_connection import (
    BEAT,
    JOINED,
    LISTED,
    FakeServer,
    FakeTransport,
    heartbeat,
    join,
    list_groups,
)

SIZE = Struct(">i")
NOW_MS, LASTS_MS = 50_000, 5_000
MAX_BYTES = 5_000
ALICE = Session("User:alice", "PLAIN", NOW_MS + LASTS_MS)
RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0guess"


class Server(FakeServer):
    """One whose time a test moves, and which answers SaslHandshake as on any connection."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = NOW_MS
        self.clock = Clock(lambda: self.now_ms * 1_000_000, lambda: 0)
        self.apis = api_table({**dict.fromkeys((9, 11, 12, 16), self.handle), 17: refuse_handshake})
        bounds = Settings(listeners=("PLAINTEXT://127.0.0.1:0",))
        self.strangers = Strangers(bounds, self.clock, lambda owner, key, deadline_ms: None)


def refuse_handshake(_request: Any, pending: Pending) -> None:
    pending.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def rules(failure_delay_ms: int = 0) -> LoginRules:
    mechanisms = {"PLAIN": Plain({"user_alice": "secret", "user_bob": "secret"})}
    terms = LoginTerms(mechanisms, {"PLAIN": LASTS_MS})
    return LoginRules("EXT", terms, Versions(), MAX_BYTES, failure_delay_ms)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


@pytest.fixture
def connection(server: Server, transport: FakeTransport) -> Connection:
    return connected_to(server, transport)


def connected_to(server: Server, transport: FakeTransport, failure_delay_ms: int = 0) -> Connection:
    made = connection_for(server, rules(failure_delay_ms), ALICE)
    made.connection_made(transport)
    return made


def with_prepared_heartbeats(server: Server, transport: FakeTransport) -> Connection:
    """A connection after two heartbeats: from the next one on they are answered by what was prepared."""
    encoded = EncodedResponse(BEAT, 4)

    def prepare(_request: Any, _version: int, frame: bytes) -> Prepared:
        return Prepared(frame, lambda: True, lambda *_: None, answer=lambda _now_ms: encoded)

    server.apis = api_table(dict.fromkeys((9, 11, 12, 16), server.handle), {12: prepare})
    connection = connected_to(server, transport)
    for number in (1, 2):
        connection.data_received(heartbeat(number))
        server.started[-1].reply(BEAT)
    return connection


def handshake(correlation_id: int, mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return encode_request(SaslHandshakeRequest(mechanism=mechanism), version, correlation_id, "c")


def token(correlation_id: int, auth_bytes: bytes = RIGHT) -> bytes:
    return encode_request(SaslAuthenticateRequest(auth_bytes=auth_bytes), 2, correlation_id, "c")


def bare(auth_bytes: bytes = RIGHT) -> bytes:
    return SIZE.pack(len(auth_bytes)) + auth_bytes


def answers(transport: FakeTransport) -> list[bytes]:
    """All frames that were written so far, without their lengths."""
    found, position = [], 0
    while position < len(transport.written):
        (size,) = SIZE.unpack_from(transport.written, position)
        found.append(transport.written[position + 4 : position + 4 + size])
        position += 4 + size
    return found


def error_of(answer: bytes, version: int = 1) -> int:
    """The error in an answer to SaslHandshake."""
    error: int = decode_response(SaslHandshakeResponse, version, answer)[1].error_code
    return error


def authenticated(answer: bytes) -> SaslAuthenticateResponse:
    response = decode_response(SaslAuthenticateResponse, 2, answer)[1]
    assert isinstance(response, SaslAuthenticateResponse)
    return response


def test_only_sessions_that_end_have_connections_of_their_own(server: Server) -> None:
    assert type(connection_for(server, rules(), ALICE)) is EndingConnection
    for session in (Session(), Session("User:alice", "PLAIN")):
        assert type(connection_for(server, rules(), session)) is Connection


# The end.


def test_after_the_end_a_request_closes_unanswered(
    server: Server, transport: FakeTransport, connection: Connection
) -> None:
    server.now_ms += LASTS_MS - 1
    connection.data_received(list_groups(1))
    assert server.started_ids() == [1]
    server.started[0].reply(LISTED)
    server.now_ms += 1
    assert connection.is_open, "the end itself closes nothing"
    connection.data_received(list_groups(2))
    assert server.started_ids() == [1]
    assert transport.answered() == [1]
    assert transport.is_closed


@pytest.mark.parametrize("behind", [heartbeat, list_groups])
def test_what_was_parked_before_the_end_is_answered_before_the_next_request_closes(
    server: Server, transport: FakeTransport, connection: Connection, behind: Callable[[int], bytes]
) -> None:
    """Also if the next one need not wait for it while the session lasts."""
    connection.data_received(heartbeat(1))
    server.now_ms += LASTS_MS
    connection.data_received(behind(2))
    assert not transport.is_closed
    server.started[0].reply(BEAT)
    server.run_soon()
    assert transport.answered() == [1]
    assert server.started_ids() == [1]
    assert transport.is_closed


def test_requests_that_came_before_the_end_and_start_behind_it_are_refused(
    server: Server, transport: FakeTransport, connection: Connection
) -> None:
    """As in Kafka, which reads a request only when those before it are answered."""
    connection.data_received(join(1) + heartbeat(2))
    server.now_ms += LASTS_MS
    server.started[0].reply(JOINED)
    server.run_soon()
    assert server.started_ids() == [1]
    assert transport.is_closed


def test_prepared_requests_hold_until_the_end(server: Server, transport: FakeTransport) -> None:
    """In the hot path, in bulk, and for those that wait for the disk (A28)."""
    connection = with_prepared_heartbeats(server, transport)
    server.now_ms += LASTS_MS - 1
    connection.data_received(heartbeat(3))
    connection.data_received(heartbeat(4) + heartbeat(5))
    assert transport.answered() == [1, 2, 3, 4, 5]
    assert server.started_ids() == [1, 2]
    server.now_ms += 1
    connection.data_received(heartbeat(6))
    assert transport.answered() == [1, 2, 3, 4, 5]
    assert transport.is_closed


def test_a_session_ends_though_the_process_stood_still(
    server: Server, transport: FakeTransport, connection: Connection
) -> None:
    """What members are given back of their sessions, clients get nothing of: a token is over when it is."""
    server.clock.wake_by(NOW_MS)
    server.now_ms += LASTS_MS
    assert server.clock.now_ms() == NOW_MS, "a stall, which deadlines of groups leave out"
    connection.data_received(list_groups(1))
    assert server.started_ids() == []
    assert transport.is_closed


def test_a_prepared_request_amid_a_login_is_refused(server: Server, transport: FakeTransport) -> None:
    """S30: as any other; from the handshake on none is answered by what was prepared (A28)."""
    connection = with_prepared_heartbeats(server, transport)
    connection.data_received(heartbeat(3))
    assert transport.answered() == [1, 2, 3], "it is prepared"
    connection.data_received(handshake(4))
    connection.data_received(heartbeat(5))
    refused = decode_response(HeartbeatResponse, 4, answers(transport)[4])[1]
    assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert transport.is_closed


def test_prepared_requests_that_were_held_back_are_refused_after_the_end(
    server: Server, transport: FakeTransport
) -> None:
    run: list[Any] = []

    def prepare(_request: Any, _version: int, frame: bytes) -> Prepared:
        return Prepared(frame, lambda: True, lambda values, pending: run.append(pending))

    server.apis = api_table(dict.fromkeys((9, 11, 12, 16), server.handle), {9: prepare})
    connection = connected_to(server, transport)

    def fetch(number: int) -> bytes:
        return encode_request(OffsetFetchRequest(group_id="g", topics=None), 5, number, "c")

    for number in (1, 2):
        connection.data_received(fetch(number))
        server.started[-1].no_reply()
    connection.data_received(fetch(3))
    assert len(run) == 1
    run[0].no_reply()
    connection.pause_writing()
    connection.data_received(fetch(4))
    server.now_ms += LASTS_MS
    connection.resume_writing()
    server.run_soon()
    assert len(run) == 1
    assert transport.is_closed


def test_other_tables_of_apis_change_nothing_about_the_end(
    server: Server, transport: FakeTransport, connection: Connection
) -> None:
    """Quotas come and go by another table on all connections."""
    use_apis(connection, api_table({16: server.handle}))
    server.now_ms += LASTS_MS
    connection.data_received(list_groups(1))
    assert not server.started
    assert transport.is_closed


def test_the_table_of_apis_is_the_one_when_the_client_is_known(
    server: Server, transport: FakeTransport
) -> None:
    """Quotas that are set while TLS shakes hands, or a client logs in, hold for it as for others."""
    made = Connection(server, "EXT")
    of_before = server.apis
    asked: list[Any] = []
    server.apis = api_table({16: lambda request, pending: asked.append(pending)})
    made.connection_made(transport)
    assert server.apis is not of_before
    made.data_received(list_groups(1))
    assert len(asked) == 1
    assert not server.started


# A login on the living connection.


@pytest.mark.parametrize("after_ms", [0, LASTS_MS, 100 * LASTS_MS])
def test_a_login_on_the_living_connection_renews_the_session(
    server: Server, transport: FakeTransport, connection: Connection, after_ms: int
) -> None:
    server.now_ms += after_ms
    connection.data_received(handshake(1))
    connection.data_received(token(2))
    shaken, done = answers(transport)
    assert error_of(shaken) == 0
    assert (authenticated(done).error_code, authenticated(done).session_lifetime_ms) == (0, LASTS_MS)
    assert connection.session == Session("User:alice", "PLAIN", server.now_ms + LASTS_MS)
    server.now_ms += LASTS_MS - 1
    connection.data_received(list_groups(3))
    assert server.started_ids() == [3]
    server.started[0].reply(LISTED)
    server.now_ms += 1
    connection.data_received(list_groups(4))
    assert transport.answered() == [1, 2, 3]
    assert transport.is_closed


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_after_a_handshake_of_v0_tokens_are_bare(
    server: Server, transport: FakeTransport, connection: Connection, step: int
) -> None:
    """In pieces or in one segment with what is around them."""
    data = heartbeat(1) + handshake(2, version=0) + bare() + list_groups(3)
    connection.data_received(data[: len(heartbeat(1))])
    server.started[0].reply(BEAT)
    rest = data[len(heartbeat(1)) :]
    for start in range(0, len(rest), step):
        connection.data_received(rest[start : start + step])
    assert server.started_ids() == [1, 3]
    server.started[1].reply(LISTED)
    beat, shaken, done, listed = answers(transport)
    assert (error_of(shaken, 0), done) == (0, b"")
    assert [frame[:4] for frame in (beat, listed)] == [SIZE.pack(1), SIZE.pack(3)]
    assert connection.session.ends_at_ms == NOW_MS + LASTS_MS


def test_all_before_a_handshake_is_answered_first_and_nothing_behind_it_starts_until_it_is_done(
    server: Server, transport: FakeTransport, connection: Connection
) -> None:
    """A pipeline full of requests on both sides."""
    before = b"".join(heartbeat(number) for number in range(1, 50))
    behind = b"".join(heartbeat(number) for number in range(103, 150))
    connection.data_received(before + handshake(101))
    assert server.started_ids() == list(range(1, 50))
    connection.data_received(token(102) + behind)
    for pending in list(server.started):
        assert len(server.started) == 49
        pending.reply(BEAT)
    server.run_soon()
    assert transport.answered()[:51] == [*range(1, 50), 101, 102]
    assert server.started_ids()[49:] == list(range(103, 150))
    for pending in server.started[49:]:
        pending.reply(BEAT)
    assert transport.answered()[51:] == list(range(103, 150))


def test_nothing_behind_a_login_that_fails_is_started(
    server: Server, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(handshake(1) + token(2, WRONG) + token(3) + heartbeat(4))
    assert transport.answered() == [1, 2]
    assert authenticated(answers(transport)[1]).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert transport.is_closed
    assert not server.started
    assert connection.session is ALICE


def test_within_a_second_of_the_last_one_a_handshake_is_refused_and_the_session_goes_on(
    server: Server, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(handshake(1) + token(2))
    server.now_ms += 999
    connection.data_received(handshake(3) + list_groups(4))
    assert error_of(answers(transport)[2]) == ErrorCode.ILLEGAL_SASL_STATE
    assert server.started_ids() == [4]
    server.started[0].reply(LISTED)
    server.now_ms += 1
    connection.data_received(handshake(5) + token(6))
    assert transport.answered() == [1, 2, 3, 4, 5, 6]
    assert authenticated(answers(transport)[5]).error_code == 0


@pytest.mark.parametrize(
    "frame",
    [
        list_groups(2),
        heartbeat(2),
        handshake(2),
        encode_request(OffsetFetchRequest(group_id="g", topics=None), 5, 2, "c"),
    ],
)
def test_another_request_in_the_exchange_is_answered_and_closed(
    server: Server, transport: FakeTransport, connection: Connection, frame: bytes
) -> None:
    connection.data_received(handshake(1))
    connection.data_received(frame)
    assert transport.answered() == [1, 2]
    assert transport.is_closed
    assert not server.started


@pytest.mark.parametrize(
    ("frames", "answered"),
    [
        (handshake(1, "GSSAPI"), []),
        (handshake(1) + token(2, b"\0bob\0secret"), [1, 2]),
        (handshake(1) + SIZE.pack(MAX_BYTES + 1), [1]),
        (handshake(1) + SIZE.pack(-1), [1]),
        (handshake(1) + SIZE.pack(3) + b"abc", [1]),
        (handshake(1, version=0) + bare(WRONG), [1]),
    ],
    ids=["mechanism", "another-user", "too-long", "no-size", "garbage", "bare-token"],
)
def test_a_login_that_fails_closes(
    transport: FakeTransport, connection: Connection, frames: bytes, answered: list[int]
) -> None:
    connection.data_received(frames)
    assert transport.answered() == answered
    assert transport.is_closed
    assert not connection.is_open


def test_a_failure_is_answered_late_and_what_comes_meanwhile_is_ignored(server: Server) -> None:
    class Transport(FakeTransport):
        def __init__(self) -> None:
            super().__init__()
            self.closed = asyncio.Event()

        def close(self) -> None:
            super().close()
            self.closed.set()

    async def fail() -> FakeTransport:
        transport = Transport()
        connection = connected_to(server, transport, failure_delay_ms=20)
        connection.data_received(handshake(1) + token(2, WRONG))
        connection.data_received(token(3) + heartbeat(4))
        assert transport.answered() == [1]
        assert not transport.is_reading()
        await asyncio.wait_for(transport.closed.wait(), 10)
        return transport

    transport = asyncio.run(fail())
    assert transport.answered() == [1, 2]
    assert not server.started


def test_each_password_that_is_tried_is_answered_later_than_the_one_before(server: Server) -> None:
    """F3: a client that has logged in tries another's, again and again, by logins on living connections."""
    delays: list[float] = []

    async def play() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            transport = FakeTransport()
            connection = connected_to(server, transport, failure_delay_ms=100)
            connection.data_received(handshake(1))
            connection.data_received(token(2, WRONG))
            scheduled: list[asyncio.TimerHandle] = getattr(loop, "_scheduled")  # noqa: B009 - mypy does not know it
            (timer,) = [each for each in scheduled if not each.cancelled()]
            delays.append(round(timer.when() - loop.time(), 1))
            connection.connection_lost(None)

    asyncio.run(play())
    assert delays == [0.1, 0.2, 0.4]


def test_a_client_that_goes_during_the_delay_is_said_nothing(server: Server) -> None:
    async def go() -> FakeTransport:
        transport = FakeTransport()
        connection = connected_to(server, transport, failure_delay_ms=1)
        connection.data_received(handshake(1) + token(2, WRONG))
        connection.connection_lost(None)
        await asyncio.sleep(0.01)
        return transport

    assert asyncio.run(go()).answered() == [1]


def test_a_login_waits_while_the_peer_does_not_read(
    server: Server, transport: FakeTransport, connection: Connection
) -> None:
    connection.data_received(handshake(1))
    connection.pause_writing()
    connection.data_received(token(2))
    assert transport.answered() == [1]
    assert not transport.is_reading()
    connection.resume_writing()
    server.run_soon()
    assert transport.answered() == [1, 2]
    assert transport.is_reading()


def test_a_login_that_is_put_off_to_a_later_turn(server: Server, transport: FakeTransport) -> None:
    """With the shortest bare token there is, and requests behind it."""
    cpu_s = 0.0
    server.turn = TurnShare(server.call_soon, lambda: cpu_s, lambda: int(cpu_s * 1e9))
    connection = connected_to(server, transport)
    connection.data_received(handshake(1, version=0))
    cpu_s = 1.0
    connection.data_received(bare())
    connection.data_received(list_groups(2))
    assert transport.answered() == [1]
    server.run_soon()
    assert server.started_ids() == [2]
    assert connection.session.ends_at_ms == NOW_MS + LASTS_MS


def test_frames_of_a_login_are_life(server: Server, connection: Connection) -> None:
    """For the clock of idle connections."""
    server.now_ms += 3
    connection.data_received(handshake(1))
    assert connection.last_request_ms == NOW_MS + 3
    server.now_ms += 4
    connection.data_received(token(2))
    assert connection.last_request_ms == NOW_MS + 7


def test_failures_of_first_and_of_repeated_logins_count_together(server: Server) -> None:
    """F3: who guesses on a living connection waits for what was guessed on others, and the other way round."""

    async def guess_again() -> int:
        transport = FakeTransport()
        connection = connected_to(server, transport, failure_delay_ms=1)
        connection.data_received(handshake(1) + token(2, WRONG))
        host = connection.client_host.removeprefix("/")
        return server.strangers.failure_delay_ms(host, Failure("a guess", user="alice"), 100)

    assert [asyncio.run(guess_again()) for _ in range(2)] == [200, 800]
