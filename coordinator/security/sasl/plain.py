"""PLAIN on the server's side (RFC 4616, S12, S13): a user's name and password in one token.

Passwords are held as digests, and compared as such, in a time that does not depend on them; a name that is not
known costs as much as one that is. They are worth nothing without TLS: the token is readable on its way.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from coordinator.security.sasl.mechanism import Authenticated, AuthenticationFailed

PLAIN: Final = "PLAIN"
USER_OPTION: Final = "user_"
"""What the options of a login module begin with that name users."""

_PARTS: Final = 3
_NO_PASSWORD: Final = bytes(sha256().digest_size)
"""In place of the digest of a user who is not known: no password has it."""


class Plain:
    """The mechanism, with the users of one listener."""

    name: Final = PLAIN

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are those of PlainLoginModule: `user_alice` has alice's password."""
        self._digests = {
            option.removeprefix(USER_OPTION): _digest(password)
            for option, password in options.items()
            if option.startswith(USER_OPTION)
        }

    def begin(self) -> PlainExchange:
        """Begin the exchange of one login."""
        return PlainExchange(self._digests)


class PlainExchange:
    """One login, which one token decides."""

    held_bytes: Final = 0

    def __init__(self, digests: Mapping[str, bytes]) -> None:
        self._digests = digests

    def step(self, token: bytes, now_ms: int) -> Authenticated:
        """Take `authzid NUL user NUL password`. Raises AuthenticationFailed, with Kafka's texts."""
        parts = token.decode("utf-8", "replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            raise AuthenticationFailed(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}", "a malformed token"
            )
        authzid, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        known = self._digests.get(user, _NO_PASSWORD)
        if not hmac.compare_digest(_digest(password), known):
            raise AuthenticationFailed("Authentication failed: Invalid username or password", user=user)
        if authzid and authzid != user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Authenticated(user)


def _digest(password: str) -> bytes:
    return sha256(password.encode("utf-8", "surrogatepass")).digest()
