"""Logins on a daemon's socket by raw frames: who is let in, what strangers may take up, and what is logged."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

import pytest

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.conformance.secured import LISTENERS, PASSWORDS, SASL_LISTENER, SECURITY

SIZE = Struct(">i")
HELLO = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
SECURED = {name: value for name, value in SECURITY.items() if name.endswith("plain.sasl.jaas.config")} | {
    "sasl.enabled.mechanisms": "PLAIN"
}
MOST_STRANGERS = 8
TIMEOUT_MS = 1500
FAILURES = 4
"""The fourth of the same user ends 2.4 s late, and the next would 4.8 s."""
SOONER_S = 4.0


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    settings = SECURED | {
        "muster.unauthenticated.connections.max": str(MOST_STRANGERS),
        "sasl.server.max.receive.size": "5000",
        "connection.failed.authentication.delay.ms": "300",
        f"listener.name.{SASL_LISTENER.lower()}.plain.connections.max.reauth.ms": "3600000",
    }
    with MusterDaemon(tmp_path_factory.mktemp("logins"), settings, listeners=LISTENERS) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    """One that does not wait for strangers; who logs in elsewhere has the time of a busy machine."""
    settings = SECURED | {"muster.handshake.timeout.ms": str(TIMEOUT_MS)}
    with MusterDaemon(tmp_path_factory.mktemp("hasty"), settings, listeners=LISTENERS) as daemon:
        yield daemon


def stranger(daemon: MusterDaemon) -> WireClient:
    return WireClient(daemon.bootstrap_of(SASL_LISTENER))


def token(user: str = "alice", password: str = PASSWORDS["alice"]) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode())


def log_in(
    client: WireClient, request: SaslAuthenticateRequest, version: int = 2
) -> tuple[int, str | None, int]:
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    answer = client.ask(request, version)
    return answer.error_code, answer.error_message, answer.session_lifetime_ms


def assert_closed(client: WireClient) -> None:
    with pytest.raises(ConnectionError):
        client.receive_frame()
    client.close()


def known(daemon: MusterDaemon) -> WireClient:
    client = stranger(daemon)
    assert log_in(client, token())[0] == 0
    return client


def test_a_user_logs_in_and_is_served_and_a_wrong_password_is_refused(daemon: MusterDaemon) -> None:
    with known(daemon) as client:
        assert client.ask(ListGroupsRequest(), 4).error_code == 0
    client = stranger(daemon)
    client.ask(HELLO, 3)
    wrong = "Authentication failed: Invalid username or password"
    assert log_in(client, token(password="guess"))[:2] == (ErrorCode.SASL_AUTHENTICATION_FAILED, wrong)
    assert_closed(client)


def test_before_the_login_nothing_is_served(daemon: MusterDaemon) -> None:
    client = stranger(daemon)
    client.send(MetadataRequest(topics=None), 12)
    assert_closed(client)


def test_a_failure_is_answered_late(daemon: MusterDaemon) -> None:
    client = stranger(daemon)
    began_s = time.monotonic()
    assert log_in(client, token(user="nobody"))[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert time.monotonic() - began_s >= 0.29
    assert_closed(client)


def test_a_password_tried_again_fails_later_each_time_and_the_right_one_is_not_held_back(
    daemon: MusterDaemon,
) -> None:
    """F3: by user, and never later than the end of the time that a stranger has."""
    took_s = []
    for _ in range(FAILURES):
        client = stranger(daemon)
        began_s = time.monotonic()
        assert log_in(client, token("bob", "guess"))[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
        took_s.append(time.monotonic() - began_s)
        assert_closed(client)
    assert all(took >= 0.3 * 2**number - 0.01 for number, took in enumerate(took_s)), took_s
    began_s = time.monotonic()
    with stranger(daemon) as client:
        assert log_in(client, token("bob", PASSWORDS["bob"]))[0] == 0
    assert time.monotonic() - began_s < SOONER_S


def test_what_comes_behind_a_login_that_fails_is_not_looked_at(daemon: MusterDaemon) -> None:
    client = stranger(daemon)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.send(token(password="guess"), 2)
    client.send(token(), 2)
    client.send(ListGroupsRequest(), 4)
    assert client.receive().error_code == 0
    assert client.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert_closed(client)


def test_login_and_requests_may_come_in_one_segment_or_by_the_byte(daemon: MusterDaemon) -> None:
    requests = [
        (HELLO, 3),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (token(), 2),
        (ListGroupsRequest(), 4),
        (ListGroupsRequest(), 5),
    ]
    data = b"".join(encode_request(request, version, 7, "t") for request, version in requests)
    for step in (len(data), 1):
        with stranger(daemon) as client:
            for start in range(0, len(data), step):
                client.socket.sendall(data[start : start + step])
            for _ in requests:
                client.receive_frame()


def test_a_frame_over_the_bound_ends_the_login(daemon: MusterDaemon) -> None:
    """It is not waited for: its length is enough. After the login, the bound is that of requests."""
    client = stranger(daemon)
    client.socket.sendall(SIZE.pack(5001))
    assert_closed(client)
    with known(daemon) as client:
        many = MetadataRequest(topics=[])
        assert client.ask(many, 12).error_code == 0
        client.client_id = "c" * 6000
        assert client.ask(many, 12).error_code == 0


def test_the_lifetime_of_a_session_is_told(daemon: MusterDaemon) -> None:
    """By the setting of the listener and the mechanism, to clients that can be told."""
    with stranger(daemon) as client:
        assert log_in(client, token())[2] == 3_600_000
    with stranger(daemon) as client:
        assert log_in(client, token(), 0)[2] == 0


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        SIZE.pack(100),
        encode_request(HELLO, 3, 7, "t"),
        encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 7, "t"),
    ],
    ids=["nothing", "half-a-frame", "versions", "handshake"],
)
def test_a_stranger_is_closed_in_time(hasty: MusterDaemon, sent: bytes) -> None:
    """Whatever it sends, and however often: the clock runs from accept."""
    began_s = time.monotonic()
    client = stranger(hasty)
    client.socket.sendall(sent)
    client.socket.settimeout(0.2)
    while True:
        try:
            if not client.socket.recv(4096):
                break
        except TimeoutError:
            continue
        except ConnectionResetError:
            break
    took_ms = (time.monotonic() - began_s) * 1000
    assert TIMEOUT_MS - 100 <= took_ms < 10 * TIMEOUT_MS
    client.close()


def test_strangers_beyond_the_bound_are_closed_at_once(daemon: MusterDaemon) -> None:
    """Those who are in are served on, and the plain listener takes clients; there is room again when one goes."""
    client = known(daemon)
    strangers: list[WireClient] = []

    def are_full() -> bool:
        """Whether a further one is closed; strangers of other tests may still be counted."""
        strangers.append(stranger(daemon))
        try:
            return bool(strangers[-1].ask(HELLO, 3).error_code)
        except ConnectionError:
            return True

    wait_until(are_full, "too many strangers", 30)
    assert len(strangers) <= MOST_STRANGERS + 1
    assert client.ask(ListGroupsRequest(), 4).error_code == 0
    with WireClient(daemon.bootstrap) as plain:
        assert plain.ask(ListGroupsRequest(), 4).error_code == 0
    for each in strangers:
        each.close()

    def is_let_in() -> bool:
        with stranger(daemon) as client:
            try:
                return log_in(client, token())[0] == 0
            except ConnectionError:
                return False

    wait_until(is_let_in, "room for strangers", 30)
    client.close()


def test_strangers_take_at_most_half_of_all_connections(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path, SECURED | {"max.connections": "6"}, listeners=LISTENERS) as daemon:
        strangers = [stranger(daemon) for _ in range(6)]
        for each in strangers[3:]:
            assert_closed(each)
        with WireClient(daemon.bootstrap) as plain:
            assert plain.ask(HELLO, 3).error_code == 0
        assert strangers[0].ask(HELLO, 3).error_code == 0


def test_strangers_count_by_their_address(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path, SECURED | {"max.connections.per.ip": "3"}, listeners=LISTENERS) as daemon:

        def fill() -> list[WireClient] | None:
            """The harness' own probe may still be counted for a moment after it was closed."""
            clients = [stranger(daemon) for _ in range(3)]
            try:
                for client in clients:
                    client.ask(HELLO, 3)
            except ConnectionError:
                for client in clients:
                    client.close()
                return None
            return clients

        clients = wait_until(fill, "three strangers", 30)
        assert_closed(stranger(daemon))
        client = clients[0]
        assert log_in(client, token())[0] == 0
        assert_closed(WireClient(daemon.bootstrap))
        client.close()
        clients[1].close()

        def is_let_in() -> bool:
            with stranger(daemon) as client:
                try:
                    return log_in(client, token())[0] == 0
                except ConnectionError:
                    return False

        wait_until(is_let_in, "both are counted no longer", 30)


def test_no_password_is_in_the_log_and_failures_are(daemon: MusterDaemon) -> None:
    client = stranger(daemon)
    assert log_in(client, token(password="guessed-canary"))[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert_closed(client)
    text = daemon.log_path.read_text()
    assert '"event": "login failed"' in text
    assert "guessed-canary" not in text
    for password in PASSWORDS.values():
        assert password not in text


def test_a_daemon_stops_while_strangers_are_there(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path, SECURED, listeners=LISTENERS) as daemon:
        strangers = [stranger(daemon) for _ in range(3)]
        strangers[0].ask(HELLO, 3)
        strangers[1].socket.sendall(SIZE.pack(100))
        began_s = time.monotonic()
        assert daemon.terminate() == 0
        assert time.monotonic() - began_s < 10
        for each in strangers:
            assert_closed(each)


@pytest.mark.parametrize("limit", [socket.SHUT_WR])
def test_a_stranger_that_hangs_up_is_forgotten(daemon: MusterDaemon, limit: int) -> None:
    for _ in range(3 * MOST_STRANGERS):
        client = stranger(daemon)
        client.socket.shutdown(limit)
        with pytest.raises(ConnectionError):
            client.receive_frame()
        client.close()
