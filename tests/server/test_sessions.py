"""Sessions that end, on a daemon's sockets by raw frames (S27 to S32)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

import pytest

from harness.daemon import MusterDaemon
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.conformance.secured import BRIEF_LISTENER, LISTENERS, PASSWORDS, SASL_LISTENER
from tests.quotas.asking import alteration, entry
from tests.security.tls.certificates import issued
from tests.security.tls.test_tls_daemon import TlsWire
from tests.server.test_logins import SECURED, assert_closed, log_in, token

SIZE = Struct(">i")
LASTS_MS = 4_000
"""What is served within a session comes before its end also where the machine is busy for seconds."""
HANDSHAKE = SaslHandshakeRequest(mechanism="PLAIN")
TLS = "tls"
"""A listener whose sessions are as short, behind TLS."""


def of_tls(key: Path) -> dict[str, str]:
    """Its settings, without what they begin with."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
        "connections.max.reauth.ms": str(LASTS_MS),
        "plain.sasl.jaas.config": next(iter(SECURED.values())),
    }


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    settings = SECURED | {
        "group.initial.rebalance.delay.ms": "0",
        f"listener.name.{BRIEF_LISTENER.lower()}.connections.max.reauth.ms": str(LASTS_MS),
    }
    folder = tmp_path_factory.mktemp("sessions")
    key = folder / "key.pem"
    key.write_text(issued().pem)
    settings |= {f"listener.name.{TLS}.{name}": value for name, value in of_tls(key).items()}
    listeners = LISTENERS | {TLS.upper(): "SASL_SSL"}
    with MusterDaemon(folder / "data", settings, listeners=listeners) as daemon:
        yield daemon


def known(daemon: MusterDaemon) -> WireClient:
    client = WireClient(daemon.bootstrap_of(BRIEF_LISTENER))
    assert log_in(client, token()) == (0, "", LASTS_MS)
    return client


def wait_for_the_end(began_s: float) -> None:
    """Nothing is to be seen of it until the client asks for something."""
    time.sleep(max(0.0, began_s + LASTS_MS / 1000 + 0.05 - time.monotonic()))


def is_served(client: WireClient) -> bool:
    error: int = client.ask(ListGroupsRequest(), 4).error_code
    return error == ErrorCode.NONE


def join(client: WireClient, group: str, member_id: str = "") -> None:
    client.send(
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=2 * LASTS_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        3,
    )


def sync(client: WireClient, group: str, member_id: str) -> None:
    assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"a")]
    request = SyncGroupRequest(group_id=group, generation_id=1, member_id=member_id, assignments=assignments)
    assert client.ask(request, 3).error_code == 0


def test_an_idle_connection_lives_on_and_its_client_logs_in_again(daemon: MusterDaemon) -> None:
    with known(daemon) as client:
        wait_for_the_end(time.monotonic())
        assert log_in(client, token()) == (0, "", LASTS_MS)
        assert is_served(client)


def test_after_the_end_a_request_closes_and_the_log_says_so(daemon: MusterDaemon) -> None:
    client = known(daemon)
    assert is_served(client)
    wait_for_the_end(time.monotonic())
    client.send(ListGroupsRequest(), 4)
    assert_closed(client)
    assert '"event": "session ended"' in daemon.log_path.read_text()


def test_a_login_goes_on_for_as_long_as_it_is_repeated(daemon: MusterDaemon) -> None:
    """The session's end moves with each; within a second of the last one a handshake is refused."""
    began_s = time.monotonic()
    with known(daemon) as client:
        while time.monotonic() < began_s + 3 * LASTS_MS / 1000:
            if client.ask(HANDSHAKE, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE:
                time.sleep(0.1)
                continue
            assert client.ask(token(), 2).error_code == 0
        assert is_served(client)


def test_a_session_without_an_end_is_served_on(daemon: MusterDaemon) -> None:
    with WireClient(daemon.bootstrap_of(SASL_LISTENER)) as client:
        assert log_in(client, token()) == (0, "", 0)
        assert client.ask(HANDSHAKE, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert is_served(client)


def test_heartbeats_are_answered_until_the_end(daemon: MusterDaemon) -> None:
    """They are recognised by their bytes, and answered past all else, after the first two (A28)."""
    began_s = time.monotonic()
    client = known(daemon)
    join(client, "beats")
    member_id = client.receive().member_id
    sync(client, "beats", member_id)
    beat = HeartbeatRequest(group_id="beats", generation_id=1, member_id=member_id)

    def answered_at_s() -> float | None:
        """When a heartbeat was answered; None once the connection is closed."""
        try:
            assert client.ask(beat, 4).error_code == 0
        except ConnectionError:
            return None
        return time.monotonic()

    answered = 0
    while (at_s := answered_at_s()) is not None:
        answered += 1
        assert at_s - began_s < 10 * LASTS_MS / 1000
    assert answered > 2
    assert time.monotonic() - began_s >= LASTS_MS / 1000 - 0.05, "not before the end"
    client.close()


def test_what_is_parked_at_the_end_is_answered(daemon: MusterDaemon) -> None:
    """A join that waits for another member of its group, for longer than the session."""
    with WireClient(daemon.bootstrap) as other:
        join(other, "parked")
        member_id = other.receive().member_id
        sync(other, "parked", member_id)
        client = known(daemon)
        began_s = time.monotonic()
        join(client, "parked")
        joined = client.receive()
        assert (joined.error_code, joined.generation_id) == (0, 2)
        assert time.monotonic() - began_s > LASTS_MS / 1000
        client.send(ListGroupsRequest(), 4)
        assert_closed(client)


def test_quotas_that_come_and_go_leave_sessions_as_they_are(daemon: MusterDaemon) -> None:
    """They put another table of APIs on all connections."""

    def set_quota(value: float | None) -> None:
        request = alteration(entry({"user": "bob"}, request_percentage=value))
        with WireClient(daemon.bootstrap) as plain:
            assert [each.error_code for each in plain.ask(request, 1).entries] == [0]

    renewed, cut = known(daemon), known(daemon)
    set_quota(50.0)
    try:
        assert log_in(renewed, token())[0] == 0
        wait_for_the_end(time.monotonic())
    finally:
        set_quota(None)
    assert log_in(renewed, token())[0] == 0
    assert is_served(renewed)
    renewed.close()
    cut.send(ListGroupsRequest(), 4)
    assert_closed(cut)


def test_a_pipeline_full_of_requests_around_a_login(daemon: MusterDaemon) -> None:
    beats = [HeartbeatRequest(group_id="none", generation_id=1, member_id="m")] * 100
    with known(daemon) as client:
        for request in beats:
            client.send(request, 4)
        client.send(HANDSHAKE, 1)
        client.send(token(), 2)
        for request in beats:
            client.send(request, 4)
        answers = [client.receive() for _ in range(202)]
    assert {answer.error_code for answer in answers[:100] + answers[102:]} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert [answer.error_code for answer in answers[100:102]] == [0, 0]


@pytest.mark.parametrize("step", [1, 10_000])
def test_bare_tokens_of_a_handshake_of_v0(daemon: MusterDaemon, step: int) -> None:
    """Also one that is longer than the bytes of a header, and by the byte."""
    bare = f"\0alice\0{PASSWORDS['alice']}".encode()
    with known(daemon) as client:
        data = (
            encode_request(HANDSHAKE, 0, 7, "t")
            + SIZE.pack(len(bare))
            + bare
            + encode_request(ListGroupsRequest(), 4, 8, "t")
        )
        for start in range(0, len(data), step):
            client.socket.sendall(data[start : start + step])
        assert client.receive_frame()[:4] == SIZE.pack(7)
        assert client.receive_frame() == b""
        assert client.receive_frame()[:4] == SIZE.pack(8)


def test_behind_tls_it_is_the_same(daemon: MusterDaemon) -> None:
    """With a pipeline around the login, and a token that is larger than one read."""
    with TlsWire(daemon, TLS.upper()) as client:
        assert log_in(client, token()) == (0, "", LASTS_MS)
        for request, version in (
            (ListGroupsRequest(), 4),
            (HANDSHAKE, 1),
            (token(), 2),
            (ListGroupsRequest(), 4),
        ):
            client.send(request, version)
        assert [client.receive().error_code for _ in range(4)] == [0, 0, 0, 0]
        wait_for_the_end(time.monotonic())
        assert log_in(client, token()) == (0, "", LASTS_MS)
        wait_for_the_end(time.monotonic())
        assert client.ask(HANDSHAKE, 1).error_code == 0
        large = SaslAuthenticateRequest(auth_bytes=b"x" * 400_000)
        assert client.ask(large, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert_closed(client)


def test_a_wrong_password_ends_the_connection(daemon: MusterDaemon) -> None:
    client = known(daemon)
    wrong = SaslAuthenticateRequest(auth_bytes=b"\0alice\0canary-guess")
    assert log_in(client, wrong)[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert_closed(client)
    text = daemon.log_path.read_text()
    assert "re-authentication" in text
    assert "canary-guess" not in text
