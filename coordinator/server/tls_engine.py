"""OpenSSL for one connection, on two buffers in memory: encrypted bytes in and out, plaintext in and out.

No sockets: what is to be sent lies in `outgoing` after each call, and after an exception too, for the alert of a
handshake that failed is what tells a client not to try again (T20). OpenSSL keeps up to 4/3 of the largest piece
that passed through either buffer, and a record that is not whole; so pieces are small, and nothing else grows.
"""

from __future__ import annotations

import ssl
from typing import Final, cast

from protocol.codec.primitives import Buffer

PIECE_BYTES: Final = 1 << 15
"""Bytes that are received, and plaintext that is encrypted, at a time. OpenSSL's buffers never shrink again, so
this is what bounds the memory of an idle connection; larger pieces save under 10 % of the CPU."""

_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})
_UNEXPECTED_MESSAGE: Final = b"\x15\x03\x03\x00\x02\x02\x0a"  # A record of a fatal alert, which is number 10.

WANT_READ = ssl.SSLWantReadError
"""Raised where OpenSSL needs more bytes from the peer."""


class TlsEngine:
    """The server's side of one TLS connection. All methods may raise ssl.SSLError: the connection has to end."""

    __slots__ = ("_own", "incoming", "outgoing")

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming = ssl.MemoryBIO()
        """What the peer has sent. At most PIECE_BYTES are to be written before it is read again."""
        self.outgoing = ssl.MemoryBIO()
        """What is to be sent to the peer."""
        self._own = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def shake_hands(self) -> bool:
        """Take the handshake as far as the received bytes allow; return whether it is done.

        Where it fails there is an alert to be sent: OpenSSL has none for what does not look like TLS, Kafka has.
        """
        try:
            self._own.do_handshake()
        except WANT_READ:
            return False
        except ssl.SSLError as error:
            if error.reason in _NOT_TLS and not self.outgoing.pending:
                self.outgoing.write(_UNEXPECTED_MESSAGE)
            raise
        return True

    @property
    def has_input(self) -> bool:
        """Whether there are received bytes that were not looked at; a record that is not whole is none."""
        return bool(self.incoming.pending or self._own.pending())

    def read_into(self, room: memoryview) -> int:
        """Decrypt at most one record into `room`; 0: the peer sends no more. May raise WANT_READ."""
        # It is an int with a buffer to read into, whatever the stubs say.
        return cast(int, self._own.read(len(room), cast(bytearray, room)))

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
                if not (self.incoming.pending or self._own.pending()):
                    break
        except ssl.SSLError as error:
            return filled, error
        return filled, None

    def encrypt(self, data: Buffer) -> list[bytes]:
        """Return `data` as it is to be sent, in pieces."""
        own, take = self._own, self.outgoing.read
        view, position = memoryview(data), 0
        pieces = []
        while position < len(view):
            position += own.write(view[position : position + PIECE_BYTES])
            pieces.append(take())
        return pieces

    def encrypt_small(self, data: Buffer) -> bytes:
        """Return `data`, of 1 to PIECE_BYTES, as it is to be sent: less work where it is an answer as most are."""
        if (written := self._own.write(data)) < len(data):
            return b"".join([self.outgoing.read(), *self.encrypt(memoryview(data)[written:])])
        return self.outgoing.read()

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
