"""What a client says before its handshake is encrypted, kept aside until each message of it is whole.

OpenSSL takes 50 KB for a handshake as soon as it has the first byte, and as much as a message claims to have as
soon as it has read the claim, and keeps them while it waits for the next byte. A client that says its hello
slowly, or that claims a long one, would cost many times what one does that is done; here it costs what it has
sent.
"""

from __future__ import annotations

from typing import Final

from protocol.codec.primitives import Buffer

HEADER_BYTES: Final = 5
RECORD_BYTES_MAX: Final = 1 << 14
"""Of what is not encrypted yet; OpenSSL refuses a longer record."""
HELLO_BYTES_MAX: Final = 1 << 14
"""Of one ClientHello: browsers with keys against quantum computers send 2 KB."""
MESSAGE_BYTES_MAX: Final = 1 << 15
"""Of one other message of TLS 1.2, which may be a chain of certificates."""

_CHANGE_CIPHER_SPEC: Final = 0x14
_ALERT: Final = 0x15
_HANDSHAKE: Final = 0x16
_KINDS: Final = range(_CHANGE_CIPHER_SPEC, 0x19)
_MAJOR_VERSION: Final = 3
_CLIENT_HELLO: Final = 1
_MESSAGE_HEAD_BYTES: Final = 4  # Its kind, and three bytes of length.
_IS_SSL2: Final = 0x80
_RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""In place of the server's random number: a HelloRetryRequest (RFC 8446, 4.1.3)."""
_RETRY_AT: Final = 11

_UNEXPECTED_MESSAGE: Final = 10
_ILLEGAL_PARAMETER: Final = 47


class HandshakeRefused(Exception):
    """Raised for what OpenSSL is not given; its text is in OpenSSL's words."""

    def __init__(self, reason: str, alert: int) -> None:
        super().__init__(reason)
        self.record: Final = bytes((_ALERT, _MAJOR_VERSION, _MAJOR_VERSION, 0, 2, 2, alert))
        """The fatal alert that the peer is to be sent."""


class PlainHandshake:
    """The client's part of one handshake as long as it is not encrypted. No sockets, no OpenSSL."""

    __slots__ = ("_awaits_hello", "_head", "_held", "_is_begun", "_is_over", "_missing", "_read", "_whole")

    def __init__(self) -> None:
        self._held = bytearray()
        self._read = 0  # Bytes of it that were looked at: whole records.
        self._whole = 0  # Bytes of it behind which no message is under way.
        self._head = b""  # Of the message that is under way.
        self._missing = 0  # Bytes of that message that are still to come, once its head is there.
        self._awaits_hello = True
        self._is_begun = False  # Whether a first record was looked at.
        self._is_over = False  # Whether what follows is encrypted, or for OpenSSL to refuse.

    @property
    def held_bytes(self) -> int:
        """What was received and not handed on."""
        return len(self._held)

    def receive(self, data: Buffer) -> bytes:
        """Take what has come; return what is OpenSSL's now. Raises HandshakeRefused.

        What stands behind a hello is returned by a later call: what it is depends on the answer.
        """
        self._held += data
        awaited_hello = self._awaits_hello
        while not self._is_over and self._awaits_hello is awaited_hello and self._take_record():
            pass
        ready = len(self._held) if self._is_over else self._whole
        taken = bytes(self._held[:ready])
        del self._held[:ready]
        self._read -= self._whole
        self._whole = 0
        return taken

    def on_answer(self, said: bytes) -> None:
        """Note what the server has answered: it may have asked for another hello."""
        if said[_RETRY_AT : _RETRY_AT + len(_RETRY)] == _RETRY:
            self._awaits_hello = True

    def _take_record(self) -> bool:
        """Look at the next record; False if it is not whole, or if nothing more is to be looked at."""
        held, start = self._held, self._read
        if len(held) < start + HEADER_BYTES:
            return False
        kind, size = held[start], int.from_bytes(held[start + 3 : start + HEADER_BYTES], "big")
        if not self._is_begun and kind & _IS_SSL2:  # OpenSSL would go on with it.
            raise HandshakeRefused("WRONG_VERSION_NUMBER", _UNEXPECTED_MESSAGE)
        if not self._is_tls(kind, held[start + 1], size):
            self._is_over = True
            return False
        stop = start + HEADER_BYTES + size
        if len(held) < stop:
            return False
        self._is_begun = True
        if kind == _HANDSHAKE and size:
            self._take_messages(memoryview(held)[start + HEADER_BYTES : stop])
        elif self._is_under_way or kind == _HANDSHAKE:
            raise HandshakeRefused("UNEXPECTED_MESSAGE", _UNEXPECTED_MESSAGE)
        self._read = stop
        if not self._is_under_way:
            self._whole = stop
        return True

    def _is_tls(self, kind: int, major_version: int, size: int) -> bool:
        """Whether to look into a record: not if OpenSSL refuses it by its head, nor if it is encrypted."""
        if major_version != _MAJOR_VERSION or size > RECORD_BYTES_MAX:
            return False
        if kind == _HANDSHAKE or self._is_under_way:
            return True
        if not self._awaits_hello:
            return kind == _ALERT
        if self._is_begun and kind == _CHANGE_CIPHER_SPEC:  # Sent ahead of a second hello, and means nothing.
            return True
        if kind in _KINDS:  # OpenSSL would take a hello behind some of these.
            raise HandshakeRefused("UNEXPECTED_MESSAGE", _UNEXPECTED_MESSAGE)
        return False

    @property
    def _is_under_way(self) -> bool:
        return bool(self._head)

    def _take_messages(self, payload: memoryview) -> None:
        """Follow the messages through one record. Raises HandshakeRefused for one that claims too much."""
        while payload:
            if self._missing:
                taken = min(self._missing, len(payload))
                self._missing -= taken
            else:
                taken = min(_MESSAGE_HEAD_BYTES - len(self._head), len(payload))
                self._head += bytes(payload[:taken])
                if len(self._head) == _MESSAGE_HEAD_BYTES:
                    self._missing = self._claimed_bytes()
            payload = payload[taken:]
            if len(self._head) == _MESSAGE_HEAD_BYTES and not self._missing:
                self._head, self._awaits_hello = b"", False

    def _claimed_bytes(self) -> int:
        size = int.from_bytes(self._head[1:], "big")
        if self._awaits_hello and self._head[0] != _CLIENT_HELLO:
            raise HandshakeRefused("UNEXPECTED_MESSAGE", _UNEXPECTED_MESSAGE)
        if size > (HELLO_BYTES_MAX if self._awaits_hello else MESSAGE_BYTES_MAX):
            raise HandshakeRefused("EXCESSIVE_MESSAGE_SIZE", _ILLEGAL_PARAMETER)
        return size
