"""A TLS connection without sockets: a transport of ours, and a client of OpenSSL's, joined in memory."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from coordinator.runtime.turn_share import TurnShare, unlimited
from coordinator.server.strangers import Stranger
from coordinator.server.tls_transport import TlsBuffers, TlsTransport
from tests.security.tls.certificates import client_context, server_context


class Lower(asyncio.Transport):
    """The socket's transport: keeps what is written until `take`, and reports it as unsent bytes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.1.2.3", 4567)})
        self.unsent = bytearray()
        self.writes: list[int] = []
        self.reading = True
        self.is_closed = False
        self.is_aborted = False
        self.limits: tuple[int | None, int | None] | None = None

    def write(self, data: Any) -> None:
        self.writes.append(len(data))
        self.unsent += data

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def take(self) -> bytes:
        taken = bytes(self.unsent)
        self.unsent.clear()
        return taken

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = high, low

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True
        self.close()


class Host:
    """Keeps what a transport reports, in order."""

    def __init__(self, turn: TurnShare | None = None) -> None:
        self.tls_buffers = TlsBuffers()
        # A whole handshake, the client's side of it too, may take longer than the share of a real turn.
        self.turn = turn or unlimited(lambda action: asyncio.get_running_loop().call_soon(action))
        self.events: list[str] = []
        self.reasons: list[str] = []
        self.closes_known = False
        self.held_bytes = 0

    def on_stranger(self, transport: TlsTransport) -> None:
        self.events.append("stranger")

    def on_hello(self, transport: TlsTransport, held_bytes: int) -> None:
        self.held_bytes = held_bytes

    def on_handshake(self, transport: TlsTransport) -> None:
        self.events.append("handshake")
        if self.closes_known:
            transport.close()

    def on_stranger_gone(self, transport: TlsTransport, reason: str) -> None:
        self.events.append("gone")
        self.reasons.append(reason)


class Receiver(asyncio.Protocol):
    """The protocol behind: keeps what it receives; may pause after each piece."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received: list[bytes] = []
        self.pauses = False
        self.ended = 0
        self.keeps_open = False
        self.lost: list[Exception | None] = []
        self.paused_writing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received.append(data)
        if self.pauses:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.ended += 1
        return self.keeps_open

    def pause_writing(self) -> None:
        self.paused_writing += 1

    def resume_writing(self) -> None:
        self.paused_writing -= 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Wired:
    """Both ends of one connection. Bytes move when `to_server` and `to_client` are called."""

    def __init__(
        self,
        receiver: asyncio.BaseProtocol | None = None,
        context: ssl.SSLContext | None = None,
        client: ssl.SSLContext | None = None,
        host: Host | None = None,
    ) -> None:
        self.receiver: Any = receiver or Receiver()
        self.host = host or Host()
        self.lower = Lower()
        self.transport = TlsTransport(context or server_context(), self.receiver, self.host, Stranger(0))
        self.transport.connection_made(self.lower)
        self.from_server, self.from_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = (client or client_context()).wrap_bio(
            self.from_server, self.from_client, server_hostname="localhost"
        )

    def to_server(self, data: bytes | None = None) -> None:
        """Hand `data`, else all that the client has to say, to the server, as a socket does while it is read."""
        data = self.from_client.read() if data is None else data
        while data and self.lower.reading and not self.lower.is_closed:
            room = self.transport.get_buffer(-1)
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.transport.buffer_updated(count)
            data = data[count:]
        if data:
            rest = self.from_client.read()
            self.from_client.write(data + rest)

    def to_client(self) -> bytes:
        """Hand what the server has written to the client; return what the client can read."""
        self.from_server.write(self.lower.take())
        plain = b""
        try:
            while piece := self.client.read(1 << 20):
                plain += piece
        except ssl.SSLWantReadError:
            return plain
        return plain

    def shake_hands(self) -> Wired:
        """Go through the handshake. Raises ssl.SSLError if the client is refused."""
        for _ in range(8):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                pass
            else:
                self.to_server()
                return self
            finally:
                self.to_server()
            self.from_server.write(self.lower.take())
        raise AssertionError("a handshake that does not end")

    def send(self, data: bytes) -> None:
        self.client.write(data)
        self.to_server()
