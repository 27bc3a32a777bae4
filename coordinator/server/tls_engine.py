"""OpenSSL for one connection, on two buffers in memory: encrypted bytes in and out, plaintext in and out.

No sockets: what is to be sent lies in `outgoing` after each call, and after an exception too, for the alert of a
handshake that failed is what tells a client not to try again (T20). OpenSSL keeps up to 4/3 of the largest piece
that passed through either buffer, for as long as the connection lasts, and Python can give it no new buffers; so
pieces are small, and nothing else grows. Few connections that carry much may have larger ones.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Final

from protocol.codec.primitives import Buffer

PIECE_BYTES: Final = 1 << 15
"""Bytes that are received from the socket at a time, and handed to OpenSSL at a time where a connection has large
pieces: twice as many save 8 %, four times 16 to 30 % of their CPU."""

RECORD_BYTES: Final = 1 << 14
"""Plaintext that is encrypted at a time with large pieces: what one record of TLS may have. Through a socket twice
and four times as much made no difference beyond the noise."""

SMALL_PIECE_BYTES: Final = 2560
"""As much either way otherwise. Measured on 200 connections that carried 64 KiB each way, then idle: 21 KiB each
with these, 36 with 8 KiB, 78 with large pieces, and 16 where no request had so much. A daemon's connection has 22
KiB more than a plain one, 66 with large pieces. OpenSSL's CPU per MiB: 1.2 ms to receive and 0.84 to send, with
large pieces 0.5 and 0.4. Requests and answers that fit one piece cost the same."""

LARGE_CONNECTIONS: Final = 16
"""Connections of all listeners that may have large pieces at a time: 60 KiB more of each, 1 MiB in all."""

MUCH_BYTES: Final = 1 << 20
"""What a connection has to carry, in requests and answers that are no small ones, before it is one of them."""

_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})
_UNEXPECTED_MESSAGE: Final = b"\x15\x03\x03\x00\x02\x02\x0a"  # A record of a fatal alert, which is number 10.

WANT_READ = ssl.SSLWantReadError
"""Raised where OpenSSL needs more bytes from the peer."""


class LargePieces:
    """How many more connections may have large pieces."""

    def __init__(self, left: int = LARGE_CONNECTIONS) -> None:
        self.left = left


class TlsEngine:
    """The server's side of one TLS connection. All methods may raise ssl.SSLError: the connection has to end."""

    __slots__ = (
        "_carried",
        "_is_large",
        "_large",
        "_own",
        "decrypt_into",
        "encrypt_whole",
        "incoming",
        "outgoing",
        "piece_bytes",
        "record_bytes",
        "rest",
    )

    def __init__(self, context: ssl.SSLContext, large: LargePieces) -> None:
        self.incoming = ssl.MemoryBIO()
        """What OpenSSL has been given of what was received, and has not read."""
        self.outgoing = ssl.MemoryBIO()
        """What is to be sent to the peer."""
        self._own = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        # Python's own class hands these two on, in a call of its own for each of a small request.
        direct: Any = getattr(self._own, "_sslobj", self._own)
        self.decrypt_into: Callable[[int, memoryview], int] = direct.read
        """Decrypts at most one record into memory of so many bytes; 0, or an exception, as `read_into`."""
        self.encrypt_whole: Callable[[Buffer], int] = direct.write
        """Encrypts at most one record into `outgoing`; returns how many bytes it took."""
        self.rest: bytes | memoryview = b""
        """Received, and not OpenSSL's yet."""
        self.piece_bytes = self.record_bytes = SMALL_PIECE_BYTES
        self._carried = 0  # Bytes of what was no small piece.
        self._large = large
        self._is_large = False

    def receive(self, data: memoryview) -> None:
        """Take what the peer has sent. `data` is looked at until `keep` is called."""
        if self.rest:
            self.rest = bytes(self.rest) + data
        elif len(data) <= self.piece_bytes:
            self.incoming.write(data)
        else:
            self._carry(len(data))
            self.rest = data
            self._feed()

    def keep(self) -> None:
        """Copy what is left of what was received: its memory is about to be used again."""
        if self.rest:
            self.rest = bytes(self.rest)

    def close(self) -> None:
        """Leave large pieces to another connection."""
        if self._is_large:
            self._is_large = False
            self._large.left += 1

    def _feed(self) -> None:
        self.incoming.write(self.rest[: self.piece_bytes])
        self.rest = self.rest[self.piece_bytes :]

    def _carry(self, size_bytes: int) -> None:
        """Count what is no small piece, and have large ones if it was much and there is room."""
        if self._is_large:
            return
        self._carried += size_bytes
        if self._carried >= MUCH_BYTES and self._large.left > 0:
            self._large.left -= 1
            self._is_large = True
            self.piece_bytes, self.record_bytes = PIECE_BYTES, RECORD_BYTES

    @property
    def unread(self) -> int:
        """Received bytes that OpenSSL has not looked at."""
        return self.incoming.pending + len(self.rest)

    def shake_hands(self) -> bool:
        """Take the handshake as far as the received bytes allow; return whether it is done.

        Where it fails there is an alert to be sent: OpenSSL has none for what does not look like TLS, Kafka has.
        """
        try:
            while True:
                try:
                    self._own.do_handshake()
                    break
                except WANT_READ:
                    if not self.rest:
                        return False
                    self._feed()
        except ssl.SSLError as error:
            if error.reason in _NOT_TLS and not self.outgoing.pending:
                self.outgoing.write(_UNEXPECTED_MESSAGE)
            raise
        return True

    @property
    def has_input(self) -> bool:
        """Whether there are received bytes that were not looked at; a record that is not whole is none."""
        return bool(self.incoming.pending or self.rest or self._own.pending())

    def read_into(self, room: memoryview) -> int:
        """Decrypt at most one record into `room`; 0: the peer sends no more. May raise WANT_READ."""
        while True:
            try:
                return self.decrypt_into(len(room), room)
            except WANT_READ:
                if not self.rest:
                    raise
                self._feed()

    def read_all_into(self, room: memoryview) -> tuple[int, ssl.SSLError | None]:
        """Decrypt what there is; return the number of bytes, and what came behind them: None for nothing special.

        A WANT_READ stands for a part of a record, SSLZeroReturnError for the end, any other for what is no TLS.
        """
        filled = 0
        try:
            while filled < len(room):
                count = self.read_into(room[filled:] if filled else room)
                if not count:
                    return filled, ssl.SSLZeroReturnError()
                filled += count
                if not (self.incoming.pending or self.rest or self._own.pending()):
                    break
        except ssl.SSLError as error:
            return filled, error
        return filled, None

    def encrypt(self, data: Buffer) -> list[bytes]:
        """Return `data` as it is to be sent, in pieces."""
        write, take = self.encrypt_whole, self.outgoing.read
        view, position = memoryview(data), 0
        pieces = []
        if len(view) > self.record_bytes:
            self._carry(len(view))
        while position < len(view):
            position += write(view[position : position + self.record_bytes])
            pieces.append(take())
        return pieces

    def say_goodbye(self) -> None:
        """Write a close_notify. The peer's is not waited for, which is what the error says that is raised then."""
        try:
            self._own.unwrap()
        except ssl.SSLError:
            return

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate, verified, in DER; None if it showed none. After the handshake."""
        return self._own.getpeercert(binary_form=True)

    @property
    def ssl_object(self) -> ssl.SSLObject:
        return self._own
