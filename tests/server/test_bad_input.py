"""What a broken or hostile peer sends: it alone is answered or closed on; all other clients go on."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.codec.codec import decode, encode, spec
from protocol.errors import DecodeError
from protocol.framing import encode_request
from protocol.messages import REQUESTS
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.versions import SUPPORTED
from tests.protocol.random_messages import random_message

MAX_REQUEST_BYTES = 1 << 20
IDLE_MS = 1500
MEMORY_GROWTH_BYTES = 64 << 20


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    overrides = {"socket.request.max.bytes": str(MAX_REQUEST_BYTES)}
    with MusterDaemon(tmp_path_factory.mktemp("daemon"), overrides) as running:
        yield running


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[MusterDaemon]:
    """One that closes who is idle for long enough to be noticed; a bystander of the others may be kept waiting."""
    with MusterDaemon(tmp_path, {"connections.max.idle.ms": str(IDLE_MS)}) as running:
        yield running


def closes_on(daemon: MusterDaemon, data: bytes) -> None:
    """The daemon closes the connection that sends `data`, names it in one log line, and serves a bystander on."""
    before = len(daemon.log_path.read_text())  # Where another peer may have had the same port.
    with (
        WireClient(daemon.bootstrap) as bystander,
        socket.create_connection(("127.0.0.1", daemon.port)) as peer,
    ):
        own_name = "{}:{}".format(*peer.getsockname())
        peer.settimeout(10)
        peer.sendall(data)
        with contextlib.suppress(ConnectionResetError):  # Closed with bytes of ours unread: still closed.
            assert peer.recv(1) == b"", "nothing is answered"
        hello = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        assert bystander.ask(hello, 3).error_code == 0
    lines = [line for line in daemon.log_path.read_text()[before:].splitlines() if own_name in line]
    assert len(lines) == 1, lines
    assert "refused" in lines[0]


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 3, MAX_REQUEST_BYTES + 1, 2**31 - 1])
def test_a_frame_of_impossible_size_closes_its_connection_alone(daemon: MusterDaemon, size: int) -> None:
    closes_on(daemon, struct.pack(">i", size) + b"x" * 64)


@pytest.mark.parametrize("key", [-1, 4, 999, 32767])
def test_an_unknown_api_closes_its_connection_alone(daemon: MusterDaemon, key: int) -> None:
    closes_on(daemon, struct.pack(">ihhih", 10, key, 0, 1, -1))


@pytest.mark.parametrize(("key", "version"), [(12, 99), (12, -1), (0, 2), (3, 32767)])
def test_an_unserved_version_closes_its_connection_alone(
    daemon: MusterDaemon, key: int, version: int
) -> None:
    closes_on(daemon, struct.pack(">ihhih", 10, key, version, 1, -1))


def test_an_unknown_version_of_api_versions_is_answered_in_v0_with_35(daemon: MusterDaemon) -> None:
    """KIP-511: a newer client learns what we speak, on a connection that stays."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=10) as peer:
        peer.sendall(struct.pack(">ihhihx", 11, 18, 99, 5, -1))
        size, correlation_id, error, rows = struct.unpack(">iihi", peer.recv(14, socket.MSG_WAITALL))
        assert (correlation_id, error, rows) == (5, 35, 1)
        assert struct.unpack(">h", peer.recv(2, socket.MSG_WAITALL))[0] == 18
        assert size == 4 + 2 + 4 + 6


def heartbeat_frame() -> bytes:
    request = HeartbeatRequest(group_id="group", generation_id=1, member_id="member")
    return encode_request(request, 4, 1, "client")


def test_every_truncation_of_a_body_closes_its_connection_alone(daemon: MusterDaemon) -> None:
    body = heartbeat_frame()[4:]
    for cut in range(10, len(body)):
        closes_on(daemon, struct.pack(">i", cut) + body[:cut])


def test_a_length_inside_a_body_cannot_reach_beyond_its_frame(daemon: MusterDaemon) -> None:
    """The next request on the wire is not read as part of this one."""
    body = bytearray(heartbeat_frame()[4:])
    body[body.index(b"\x06group")] = 0x7F
    closes_on(daemon, struct.pack(">i", len(body)) + bytes(body) + heartbeat_frame() * 4)


def test_an_array_that_claims_two_billion_entries_allocates_nothing(daemon: MusterDaemon) -> None:
    before = resident_bytes(daemon.pid)
    closes_on(daemon, struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1))
    assert resident_bytes(daemon.pid) - before < MEMORY_GROWTH_BYTES


def undecodable(key: int, bodies: Iterable[bytes]) -> list[bytes]:
    """Those of `bodies` that are no request of this API in its newest version, each as a frame."""
    cls, version = REQUESTS[key], SUPPORTED[key][1]
    frames = []
    for body in bodies:
        try:
            decode(cls, version, body)
        except DecodeError:
            head = struct.pack(">hhih", key, version, 1, -1) + b"\0" * spec(cls).is_flexible(version)
            frames.append(struct.pack(">i", len(head) + len(body)) + head + body)
    return frames


@pytest.mark.parametrize("key", sorted(REQUESTS))
def test_a_damaged_request_of_any_api_closes_its_connection_alone(daemon: MusterDaemon, key: int) -> None:
    """Cut short, followed by nothing; or bytes that never were a request."""
    random, version = Random(key), SUPPORTED[key][1]
    whole = encode(random_message(random, REQUESTS[key], version), version)
    cuts = undecodable(
        key, (whole[:length] for length in random.sample(range(len(whole)), min(4, len(whole))))
    )
    noise = undecodable(key, (random.randbytes(200) for _ in range(3)))
    assert cuts or noise or not whole.strip(b"\0"), "some are none"
    for frame in cuts + noise:
        closes_on(daemon, frame)


@pytest.mark.parametrize("seed", range(20))
def test_garbage_closes_its_connection_alone(daemon: MusterDaemon, seed: int) -> None:
    noise = Random(seed).randbytes(200)
    closes_on(daemon, struct.pack(">ihh", 200, 3, 9) + noise[4:])


def test_a_peer_that_drips_bytes_is_closed_after_the_idle_time(hasty: MusterDaemon) -> None:
    """Slow loris: bytes alone do not keep a connection alive, whole requests do."""
    with socket.create_connection(("127.0.0.1", hasty.port), timeout=10) as peer:
        peer.sendall(struct.pack(">i", 4_000))  # More than it can drip until it is waited for no longer.

        def is_closed() -> bool:
            try:
                peer.sendall(b"x")
            except OSError:
                return True
            return False

        wait_until(is_closed, "the dripping peer is closed", 20)


def test_a_peer_that_does_not_read_cannot_grow_our_memory(daemon: MusterDaemon) -> None:
    """Its requests are left in the socket until it takes its answers; other connections are served."""
    before = resident_bytes(daemon.pid)
    request = encode_request(MetadataRequest(topics=None), 12, 1, "deaf")
    with (
        WireClient(daemon.bootstrap) as bystander,
        socket.create_connection(("127.0.0.1", daemon.port)) as peer,
    ):
        peer.setblocking(False)
        sent = 0
        while sent < 256 << 20:
            try:
                sent += peer.send(request * 1000)
            except BlockingIOError:
                break  # The daemon stopped reading: that is the back-pressure.
        assert sent < 256 << 20
        assert bystander.ask(MetadataRequest(topics=[]), 12).brokers
        assert resident_bytes(daemon.pid) - before < MEMORY_GROWTH_BYTES


def test_requests_in_one_segment_are_answered_in_their_order(daemon: MusterDaemon) -> None:
    with WireClient(daemon.bootstrap) as client:
        for _ in range(200):
            client.send(HeartbeatRequest(group_id="unused", generation_id=1, member_id="m"), 4)
            client.send(MetadataRequest(topics=[]), 12)
        for _ in range(200):
            assert client.receive().error_code == 25
            assert client.receive().brokers


def test_a_request_that_arrives_byte_by_byte_is_answered(daemon: MusterDaemon) -> None:
    with WireClient(daemon.bootstrap) as client:
        frame = encode_request(MetadataRequest(topics=[]), 12, 1, "slow")
        for position in range(len(frame)):
            client.socket.sendall(frame[position : position + 1])
        assert client.receive_frame()[:4] == struct.pack(">i", 1)


def test_the_daemon_still_lives(daemon: MusterDaemon) -> None:
    """After all of the above: the same process, and no request of ours failed inside."""
    os.kill(daemon.pid, 0)
    assert "request failed" not in daemon.log_path.read_text()


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10
