"""The sending half of a TLS connection: the transport that the protocol behind it writes to.

Everything is encrypted and handed to the socket's transport within the call, so that transport's limits and its
`pause_writing` are the only ones there are: with `high=0` a long answer goes on as soon as the socket has taken
the piece before (T23). Nothing is joined but small buffers, each of which would be a record of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from coordinator.server.tls_engine import TlsEngine
from protocol.codec.primitives import Buffer

SMALL_BYTES: Final = 1 << 12
"""Buffers below this are joined before they are encrypted: each record has 22 bytes of its own, and a call."""

UNREAD_ANSWERS_BYTES: Final = 1 << 16
"""Unsent bytes beyond which nothing more is read from a peer that makes OpenSSL answer (key updates, alerts)."""


class State(Enum):
    """Where a connection stands."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    CLOSING = "closing"
    """What was written is still sent; nothing more is read."""
    LOST = "lost"


OPEN: Final = State.OPEN
"""The name by itself: each request asks for it, and an enum's members are looked up by two names."""


class TlsSending(asyncio.Transport):
    """What a `TlsTransport` is for what writes to it; after the end of the connection all is dropped."""

    __slots__ = ("_engine", "_is_choked", "_lower", "_state")

    def __init__(self) -> None:
        super().__init__()
        self._lower: asyncio.Transport | None = None
        self._engine: TlsEngine | None = None
        self._state = State.HANDSHAKE
        self._is_choked = False  # Whether the peer does not read what OpenSSL answers by itself.

    def write(self, data: Buffer) -> None:
        if self._state is not OPEN or not data:
            return
        engine, lower = self._engine, self._lower
        assert engine is not None
        assert lower is not None
        if len(data) > engine.record_bytes:
            lower.writelines(engine.encrypt(data))
        elif (written := engine.encrypt_whole(data)) == len(data):  # Most answers are small.
            lower.write(engine.outgoing.read())
        else:
            lower.writelines([engine.outgoing.read(), *engine.encrypt(memoryview(data)[written:])])

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        if self._state is not State.OPEN:
            return
        assert self._engine is not None
        assert self._lower is not None
        pieces: list[bytes] = []
        small: list[Buffer] = []
        for each in list_of_data:
            if len(each) < SMALL_BYTES:
                small.append(each)
                continue
            pieces += self._engine.encrypt(b"".join(small))
            small.clear()
            pieces += self._engine.encrypt(each)
        pieces += self._engine.encrypt(b"".join(small))
        if pieces:
            self._lower.writelines(pieces)

    def _drain(self) -> None:
        """Send what OpenSSL has to say by itself: its part of the handshake, alerts, answers to key updates."""
        if self._engine is not None and self._engine.outgoing.pending:
            assert self._lower is not None
            self._lower.write(self._engine.outgoing.read())

    def _drain_answers(self) -> None:
        """Send them, and read no more from a peer that asks for them and does not read."""
        assert self._lower is not None
        self._drain()
        if self._lower.get_write_buffer_size() > UNREAD_ANSWERS_BYTES:
            self._is_choked = True
            self._lower.pause_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert self._lower is not None
        self._lower.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        """Return the encrypted bytes that the socket has not taken; 0 after the end."""
        return 0 if self._lower is None else self._lower.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Close behind all that was written and a close_notify (T19)."""
        if self._state is State.OPEN:
            assert self._engine is not None
            self._engine.say_goodbye()
            self._drain()
        if self._state in (State.HANDSHAKE, State.OPEN):
            self._state = State.CLOSING
            if self._lower is not None:
                self._lower.close()

    def abort(self) -> None:
        """Close at once; what was not sent is dropped."""
        if self._state is not State.LOST:
            self._state = State.CLOSING
        if self._lower is not None:
            self._lower.abort()

    def is_closing(self) -> bool:
        return self._state in (State.CLOSING, State.LOST)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the socket's transport knows (`peername`, `socket`), or the `ssl_object`."""
        if name == "ssl_object":
            return default if self._engine is None else self._engine.ssl_object
        return default if self._lower is None else self._lower.get_extra_info(name, default)

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate, verified, in DER; None if it showed none. After the handshake."""
        return None if self._engine is None else self._engine.peer_certificate

    @property
    def peer(self) -> str:
        """The client's address and port as text; blank after the end."""
        peer = self.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if peer else ""
