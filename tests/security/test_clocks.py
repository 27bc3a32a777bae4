"""Strangers that keep on sending: each byte is life to Kafka, and to us the clock runs from the accept (F2)."""

from __future__ import annotations

import itertools
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final

import pytest

from harness.daemon import MusterDaemon
from protocol.framing import encode_request
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.security.tls.certificates import client_context
from tests.security.tls.test_tls_daemon import started

TIMEOUT_MS: Final = 3000
PACE_S: Final = 0.1
SIZE: Final = Struct(">i")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    """One that does not wait for strangers, with a listener of each protocol that has some."""
    folder: Path = tmp_path_factory.mktemp("clocks")
    with started(folder, muster_handshake_timeout_ms=str(TIMEOUT_MS)) as running:
        yield running


def hello_by_the_byte() -> Iterator[bytes]:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return (bytes((byte,)) for byte in outgoing.read())


def login_by_the_byte() -> Iterator[bytes]:
    data = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 7, "t")
    data += encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + b"x" * 900), 2, 8, "t")
    return (bytes((byte,)) for byte in data)


def versions_without_end() -> Iterator[bytes]:
    """ApiVersions of a version that there is not: answered, and of no use."""
    body = Struct(">hhihx").pack(18, 99, 7, -1)
    return itertools.repeat(SIZE.pack(len(body)) + body)


@pytest.mark.parametrize(
    ("make", "is_encrypted", "pace_s"),
    [
        (hello_by_the_byte, False, PACE_S),
        (login_by_the_byte, True, PACE_S / 10),
        (versions_without_end, True, 2 * PACE_S),
    ],
    ids=["hello", "login", "versions"],
)
def test_a_stranger_that_keeps_on_sending_is_closed_in_time(
    daemon: MusterDaemon, make: Callable[[], Iterator[bytes]], is_encrypted: bool, pace_s: float
) -> None:
    host, port = daemon.bootstrap_of("LOGIN").rsplit(":", 1)
    began_s = time.monotonic()
    client = socket.create_connection((host, int(port)), timeout=30)
    if is_encrypted:
        client = client_context().wrap_socket(client, server_hostname="localhost")
    client.settimeout(pace_s)
    is_open = True
    for data in make():
        try:
            client.sendall(data)
            is_open = client.recv(4096) != b""
            time.sleep(pace_s)  # It is answered at once; what is tried is to go on for long.
        except TimeoutError:
            continue
        except OSError:
            is_open = False
        if not is_open:
            break
    assert not is_open, "all was said, and the connection is open"
    took_ms = (time.monotonic() - began_s) * 1000
    client.close()
    assert TIMEOUT_MS - 100 <= took_ms < 5 * TIMEOUT_MS
