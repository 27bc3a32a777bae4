"""What OpenSSL holds of one connection: small pieces, and large ones for the few that carry much."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

import pytest

from coordinator.server.tls_engine import (
    LARGE_CONNECTIONS,
    MUCH_BYTES,
    PIECE_BYTES,
    RECORD_BYTES,
    SMALL_PIECE_BYTES,
    WANT_READ,
    LargePieces,
    TlsEngine,
)
from tests.security.tls.certificates import client_context, server_context
from tests.security.tls.wired import Wired

OVERHEAD = 64
"""More than what a record of TLS has beside its plaintext."""


class Pair:
    """An engine and a client, after the handshake."""

    def __init__(self, large: LargePieces | None = None) -> None:
        self.engine = TlsEngine(server_context(), large or LargePieces())
        self.from_server, self.from_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client_context().wrap_bio(
            self.from_server, self.from_client, server_hostname="localhost"
        )
        is_done = False
        while not is_done:
            with suppress(WANT_READ):
                self.client.do_handshake()
            self.engine.receive(memoryview(self.from_client.read()))
            is_done = self.engine.shake_hands()
            self.from_server.write(self.engine.outgoing.read())

    def request(self, data: bytes) -> bytes:
        """Have the engine receive `data` as from a socket; return what it decrypts."""
        for start in range(0, len(data), RECORD_BYTES):
            self.client.write(data[start : start + RECORD_BYTES])
        room, decrypted = memoryview(bytearray(PIECE_BYTES)), b""
        while piece := self.from_client.read(PIECE_BYTES):
            self.engine.receive(memoryview(piece))
            self.engine.keep()
            while self.engine.has_input:
                count, came_behind = self.engine.read_all_into(room)
                decrypted += room[:count]
                assert came_behind is None or isinstance(came_behind, WANT_READ)
        return decrypted


def held(engine: TlsEngine) -> int:
    """Received bytes that OpenSSL has in its buffer, which stays as large as they were."""
    return engine.incoming.pending


def test_openssl_is_handed_small_pieces_and_all_of_it_is_read() -> None:
    pair = Pair()
    data = bytes(range(256)) * (PIECE_BYTES // 256)
    for start in range(0, len(data), RECORD_BYTES):
        pair.client.write(data[start : start + RECORD_BYTES])
    received = pair.from_client.read(PIECE_BYTES)
    pair.engine.receive(memoryview(received))
    assert 0 < held(pair.engine) <= SMALL_PIECE_BYTES
    assert pair.engine.unread == len(received)
    room = memoryview(bytearray(PIECE_BYTES))
    count, came_behind = pair.engine.read_all_into(room)
    assert isinstance(came_behind, WANT_READ)
    assert count == RECORD_BYTES, "the second record is not whole"
    pair.engine.receive(memoryview(pair.from_client.read()))
    rest = pair.engine.read_all_into(room[count:])[0]
    assert room[: count + rest] == data


def test_answers_are_encrypted_in_small_pieces() -> None:
    pair = Pair()
    pieces = pair.engine.encrypt(bytes(10 * SMALL_PIECE_BYTES))
    assert len(pieces) == 10
    assert max(map(len, pieces)) <= SMALL_PIECE_BYTES + OVERHEAD


def test_few_connections_that_carry_much_have_large_pieces_until_they_go() -> None:
    """However many carry much, and whichever way."""
    large = LargePieces(2)
    upload, download, third = (Pair(large) for _ in range(3))
    much = bytes(MUCH_BYTES)
    assert upload.request(much) == much
    download.engine.encrypt(much)
    third.engine.encrypt(much)
    assert [pair.engine.record_bytes for pair in (upload, download, third)] == [
        RECORD_BYTES,
        RECORD_BYTES,
        SMALL_PIECE_BYTES,
    ]
    assert large.left == 0
    assert upload.request(much) == much
    for _ in range(2):
        upload.engine.close()
    assert large.left == 1
    third.engine.encrypt(much)
    assert third.engine.record_bytes == RECORD_BYTES
    assert LARGE_CONNECTIONS * (PIECE_BYTES + RECORD_BYTES) * 4 // 3 <= 1 << 20


def test_small_requests_never_make_a_connection_large() -> None:
    pair = Pair()
    for _ in range(MUCH_BYTES // 2000):
        pair.request(bytes(2000))
        pair.engine.encrypt(bytes(2000))
    assert pair.engine.record_bytes == SMALL_PIECE_BYTES


class RecordByRecord(asyncio.BufferedProtocol):
    """Reads into its own memory, and pauses after each record."""

    def __init__(self) -> None:
        self.room = bytearray(RECORD_BYTES)
        self.received = b""
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.room

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.room[:nbytes]
        self.transport.pause_reading()


@pytest.mark.asyncio
async def test_what_is_not_read_yet_is_kept_while_others_use_the_memory() -> None:
    """All connections receive into the same memory."""
    receiver = RecordByRecord()
    wired = Wired(receiver).shake_hands()
    sent = b"".join(bytes((letter,)) * 5000 for letter in b"abcdef")
    for start in range(0, len(sent), 5000):
        wired.client.write(sent[start : start + 5000])
    wired.to_server()
    for _ in range(6):
        wired.host.tls_buffers.received[:] = bytes(PIECE_BYTES)
        receiver.transport.resume_reading()
        await asyncio.sleep(0)
    assert receiver.received == sent


@pytest.mark.asyncio
async def test_a_connection_that_is_lost_leaves_its_large_pieces() -> None:
    wired = Wired().shake_hands()
    wired.to_client()
    wired.receiver.transport.write(bytes(MUCH_BYTES))
    assert wired.host.tls_buffers.large.left == LARGE_CONNECTIONS - 1
    wired.transport.connection_lost(None)
    assert wired.host.tls_buffers.large.left == LARGE_CONNECTIONS
