"""Logging in by raw frames on a broker's SASL listener, as a client does that follows KIP-152.

A login's tokens are a generator: it yields what the client sends, is sent what the broker answered, and ends when
the client has nothing more to say.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.conformance.connection import Connection

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2

Tokens = Generator[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Login:
    """How a client logs in: by which mechanism, with which tokens in each login."""

    mechanism: str
    tokens: Callable[[], Tokens]


class LoginRefused(Exception):
    """Raised when a login that a script needs is refused."""


def plain(user: str, password: str, authzid: str = "") -> Tokens:
    """The one token of PLAIN (RFC 4616)."""
    yield f"{authzid}\0{user}\0{password}".encode()


async def log_in(
    connection: Connection, tokens: Tokens, mechanism: str = "PLAIN"
) -> SaslAuthenticateResponse:
    """Log in on a new connection; the last answer. Raises LoginRefused, or ConnectionError when hung up on."""
    shaken = await connection.send(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)
    if shaken.error_code != ErrorCode.NONE:
        raise LoginRefused(f"{mechanism}: {shaken.error_code}, there are {shaken.mechanisms}")
    token = next(tokens)
    while True:
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = await connection.send(request, AUTHENTICATE_VERSION)
        if answer.error_code != ErrorCode.NONE:
            raise LoginRefused(f"{mechanism}: {answer.error_code} {answer.error_message}")
        try:
            token = tokens.send(bytes(answer.auth_bytes))
        except StopIteration:
            assert isinstance(answer, SaslAuthenticateResponse)
            return answer
