"""Every API in every version and every state of a login, on sockets: none runs before its client is known (F9).

What is sent comes from the table of what the daemon serves, so an API that is new joins by itself. That nothing
has run is seen in the daemon's own counts of requests, and in that neither group nor topic is there that a
request would have made.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from struct import Struct
from typing import Final

import pytest

from harness.daemon import MusterDaemon
from harness.http_client import get
from harness.processes import HOST, free_port, wait_until
from harness.wire import WireClient
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.framing import decode_response, encode_request
from protocol.messages import REQUESTS, RESPONSES
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.conformance.secured import BRIEF_LISTENER, LISTENERS, SASL_LISTENER
from tests.protocol.random_messages import random_message
from tests.security.scram_requests import add_scram_user
from tests.server.test_logins import HELLO, SECURED, log_in, token

HEAD: Final = Struct(">hhi")
HANDSHAKE_KEY, VERSIONS_KEY, AUTHENTICATE_KEY = 17, 18, 36
LASTS_MS: Final = 8_000
MADE_S: Final = 30.0
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
TOPIC: Final = MetadataRequest(topics=[MetadataRequestTopic(name="made-by-a-stranger")])
COUNT: Final = re.compile(r'^muster_requests_total\{api="(\w+)"\} (\d+)', re.MULTILINE)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    settings = SECURED | {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connection.failed.authentication.delay.ms": "0",
        f"listener.name.{BRIEF_LISTENER.lower()}.connections.max.reauth.ms": str(LASTS_MS),
        "muster.http.listeners": f"http://{HOST}:{free_port()}",
    }
    for name in LISTENERS:
        settings[f"listener.name.{name.lower()}.scram-sha-256.sasl.jaas.config"] = SCRAM
    with MusterDaemon(tmp_path_factory.mktemp("states"), settings, listeners=LISTENERS) as daemon:
        add_scram_user(daemon.bootstrap, "alice", "of no use")
        yield daemon


def served(daemon: MusterDaemon) -> list[tuple[int, int]]:
    """Each API that the daemon serves, with each of its versions and the one behind them."""
    with WireClient(daemon.bootstrap) as client:
        keys = client.ask(HELLO, 4).api_keys
    return [
        (each.api_key, version) for each in keys for version in range(each.min_version, each.max_version + 2)
    ]


def counts(daemon: MusterDaemon) -> dict[str, int]:
    port = int(daemon.overrides["muster.http.listeners"].rsplit(":", 1)[1])
    return {api: int(number) for api, number in COUNT.findall(get(port, "/metrics").body.decode())}


def whole(key: int, version: int, correlation_id: int = 9) -> bytes:
    """A request of this API with random contents; of a version that there is not, its head alone."""
    lowest, highest = spec(REQUESTS[key]).min_version, spec(REQUESTS[key]).max_version
    if not lowest <= version <= highest:
        return b"\0\0\0\x0a" + HEAD.pack(key, version, correlation_id) + b"\xff\xff"
    request = random_message(Random(key * 100 + version), REQUESTS[key], version)
    return encode_request(request, version, correlation_id, "states")


def world(daemon: MusterDaemon) -> tuple[dict[str, int], set[str], set[str]]:
    """What a request leaves behind: counts, topics, groups."""
    found = counts(daemon)
    with WireClient(daemon.bootstrap) as client:
        groups = {each.group_id for each in client.ask(ListGroupsRequest(), 4).groups}
    return found, topics(daemon), groups


def topics(daemon: MusterDaemon) -> set[str]:
    with WireClient(daemon.bootstrap) as client:
        return {each.name for each in client.ask(MetadataRequest(topics=None), 12).topics}


def await_topic(daemon: MusterDaemon, name: str) -> None:
    """Wait for a topic that is made behind the answer to who asked for it."""
    wait_until(lambda: name in topics(daemon), f"{name} is made", MADE_S)


# The states.


def new(daemon: MusterDaemon) -> WireClient:
    return WireClient(daemon.bootstrap_of(SASL_LISTENER))


def after_versions(daemon: MusterDaemon) -> WireClient:
    client = new(daemon)
    assert client.ask(HELLO, 3).error_code == 0
    return client


def after_handshake(daemon: MusterDaemon, version: int = 1, mechanism: str = "PLAIN") -> WireClient:
    client = new(daemon)
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), version).error_code == 0
    return client


def before_bare_tokens(daemon: MusterDaemon) -> WireClient:
    return after_handshake(daemon, 0)


def amid_scram(daemon: MusterDaemon) -> WireClient:
    """The first message was answered by a challenge."""
    client = after_handshake(daemon, 1, "SCRAM-SHA-256")
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2)
    assert answer.error_code == 0
    assert answer.auth_bytes.startswith(b"r=abc")
    return client


def known(daemon: MusterDaemon) -> WireClient:
    client = WireClient(daemon.bootstrap_of(BRIEF_LISTENER))
    assert log_in(client, token()) == (0, "", LASTS_MS)
    return client


def end_sessions(_clients: list[WireClient], began_s: float) -> None:
    time.sleep(max(0.0, began_s + LASTS_MS / 1000 + 0.05 - time.monotonic()))


def begin_again(clients: list[WireClient], began_s: float) -> None:
    """A login that is repeated, a second after the last one: its handshake is answered, its token is due."""
    time.sleep(max(0.0, began_s + 1.05 - time.monotonic()))
    for client in clients:
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0


Open = Callable[[MusterDaemon], WireClient]
Then = Callable[[list[WireClient], float], None]
STATES: Final[dict[str, tuple[Open, Then | None, frozenset[int]]]] = {
    "new": (new, None, frozenset({HANDSHAKE_KEY, VERSIONS_KEY})),
    "after versions": (after_versions, None, frozenset({HANDSHAKE_KEY})),
    "after handshake": (after_handshake, None, frozenset({AUTHENTICATE_KEY})),
    "before bare tokens": (before_bare_tokens, None, frozenset()),
    "amid scram": (amid_scram, None, frozenset({AUTHENTICATE_KEY})),
    "session over": (known, end_sessions, frozenset({HANDSHAKE_KEY})),
    "again": (known, begin_again, frozenset({AUTHENTICATE_KEY})),
}
"""By name: how a connection gets there, what brings many of them there together, what the login machine takes."""
ANSWERED_BY_CLOSING: Final = frozenset({"new", "after versions", "before bare tokens", "session over"})
"""Where what is out of order is closed without an answer; elsewhere it is told so (S2, S5, S6, S31)."""


def outcome(client: WireClient) -> list[bytes]:
    """All that is answered until the connection is closed."""
    frames = []
    client.socket.settimeout(20)
    with suppress(ConnectionError):
        while True:
            frames.append(client.receive_frame())
    client.close()
    return frames


@pytest.mark.parametrize("state", STATES)
def test_no_request_runs_before_its_client_is_known(daemon: MusterDaemon, state: str) -> None:
    open_, then, taken = STATES[state]
    requests = served(daemon)
    assert len(requests) > 300
    began_s = time.monotonic()
    clients = [open_(daemon) for _ in requests]
    if then is not None:
        then(clients, began_s if state == "again" else time.monotonic())
    before = world(daemon)
    for (key, version), client in zip(requests, clients, strict=True):
        with suppress(ConnectionError):
            # Behind it one that would be served, and would make a topic: neither may run.
            client.socket.sendall(whole(key, version) + encode_request(TOPIC, 5, 10, "states"))
    for (key, version), client in zip(requests, clients, strict=True):
        frames = outcome(client)
        if key in taken:
            continue  # What the login machine takes has tests of its own; the request behind it did not run.
        assert len(frames) <= 1, (key, version)
        if state in ANSWERED_BY_CLOSING:
            assert not frames, (key, version)
    (runs_before, *made_before), (runs, *made) = before, world(daemon)
    for name in ("Metadata", "ListGroups"):  # Those that looked.
        runs[name] -= 1
    assert runs == runs_before
    assert made == made_before


def test_what_is_made_by_whom_is_known_is_seen(daemon: MusterDaemon) -> None:
    """Counts and topics do change where a request runs: what the other tests look at is no blind spot."""
    before = world(daemon)
    with known(daemon) as client:
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="made-by-alice")]), 5)
    await_topic(daemon, "made-by-alice")
    after = world(daemon)
    assert after[0]["Metadata"] >= before[0]["Metadata"] + 2
    assert after[1] - before[1] == {"made-by-alice"}


@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
@pytest.mark.parametrize("handshake", [0, 1])
def test_a_login_and_requests_in_one_segment(daemon: MusterDaemon, handshake: int, is_right: bool) -> None:
    """All of them run behind a login that succeeds, and none behind one that fails."""
    name = f"behind-a-login-{handshake}-{is_right}"
    bare = token(password="alice-secret" if is_right else "canary-guess").auth_bytes
    data = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), handshake, 1, "t")
    if handshake:
        data += encode_request(SaslAuthenticateRequest(auth_bytes=bare), 2, 2, "t")
    else:
        data += Struct(">i").pack(len(bare)) + bare
    topic = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    data += b"".join(encode_request(topic, 5, number, "t") for number in range(3, 53))
    before = world(daemon)[0]["Metadata"]
    with WireClient(daemon.bootstrap_of(SASL_LISTENER)) as client:
        client.socket.sendall(data)
        if is_right:
            frames = [client.receive_frame() for _ in range(52)]
            assert len(frames) == 52
        else:
            assert len(outcome(client)) == (2 if handshake else 1)
    assert counts(daemon)["Metadata"] == before + 1 + (50 if is_right else 0)
    if is_right:
        await_topic(daemon, name)
    else:
        assert name not in topics(daemon)


def test_a_login_that_is_repeated_and_fails_amid_a_pipeline_runs_nothing_behind_it(
    daemon: MusterDaemon,
) -> None:
    """Requests before it are answered; of those behind it, in the same segment, none runs."""
    topic = MetadataRequest(topics=[MetadataRequestTopic(name="behind-a-repeated-login")])
    lists = [encode_request(ListGroupsRequest(), 4, number, "t") for number in range(100)]
    client = known(daemon)
    time.sleep(1.05)
    before = world(daemon)[0]
    data = b"".join(lists) + encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 7, "t")
    data += encode_request(token(password="canary-guess"), 2, 8, "t")
    data += encode_request(topic, 5, 9, "t") + b"".join(lists)
    client.socket.sendall(data)
    frames = outcome(client)
    assert len(frames) == 102
    _, answer = decode_response(RESPONSES[AUTHENTICATE_KEY], 2, frames[-1])
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    after = world(daemon)
    assert "behind-a-repeated-login" not in after[1]
    assert after[0]["ListGroups"] == before["ListGroups"] + 1 + 100
