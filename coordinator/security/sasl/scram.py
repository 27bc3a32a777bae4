"""SCRAM-SHA-256 and SCRAM-SHA-512 on the server's side (RFC 5802, 7677), as Kafka's broker does it (S17 to S26).

A client shows that it has the password and never sends it; the last answer shows that the server has the keys.
No channel binding: what a client says of it is signed, and not looked at (S21). No sockets, no clock, and
chance comes from outside.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable
from typing import Final, TypeAlias

from coordinator.security.sasl.mechanism import Authenticated, AuthenticationFailed, Challenge
from coordinator.security.sasl.scram_messages import (
    ClientFinal,
    ClientFirst,
    NotScram,
    parse_client_final,
    parse_client_first,
)
from coordinator.security.scram_credentials import (
    LEAST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)

TOKEN_EXTENSION: Final = b"tokenauth"
"""The extension by which the name is that of a delegation token; there are none here (S24)."""
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)

Find: TypeAlias = Callable[[str], ScramCredential | None]
"""Returns the credential of the user with that name, None if there is none; looks at memory alone."""
NewNonce: TypeAlias = Callable[[], bytes]
"""Returns the server's part of a nonce: printable, without a comma, and never to be foreseen."""


class Scram:
    """One of the two mechanisms, as a listener offers it."""

    def __init__(self, mechanism: ScramMechanism, find: Find, new_nonce: NewNonce) -> None:
        self._mechanism = mechanism
        self._find = find
        self._new_nonce = new_nonce

    @property
    def name(self) -> str:
        """SCRAM-SHA-256 or SCRAM-SHA-512."""
        return self._mechanism.name

    def begin(self) -> ScramExchange:
        """Begin the exchange of one login."""
        return ScramExchange(self._mechanism, self._find, self._new_nonce)


class ScramExchange:
    """One login: two tokens from the client, each answered."""

    def __init__(self, mechanism: ScramMechanism, find: Find, new_nonce: NewNonce) -> None:
        self._mechanism = mechanism
        self._find = find
        self._new_nonce = new_nonce
        self._proving: _Proving | None = None
        self._is_over = False

    @property
    def held_bytes(self) -> int:
        """A nonce may have half a megabyte, and stands in four texts."""
        return 0 if self._proving is None else self._proving.held_bytes

    def step(self, token: bytes, now_ms: int) -> Challenge | Authenticated:
        """Take the client's next token. Raises AuthenticationFailed, which ends it, as does a success."""
        proving, self._proving = self._proving, None
        if self._is_over:
            raise AuthenticationFailed(None, "a token after the end of the exchange")
        self._is_over = True
        try:
            if proving is not None:
                return proving.finish(parse_client_final(token))
            self._proving = self._challenged(parse_client_first(token))
        except NotScram as error:
            raise AuthenticationFailed(None, f"not a message of {self._mechanism.name}: {error}") from None
        self._is_over = False
        return Challenge(self._proving.server_first)

    def _challenged(self, first: ClientFirst) -> _Proving:
        if first.extension(TOKEN_EXTENSION).lower() == b"true":
            raise AuthenticationFailed(None, "a delegation token, of which there are none")
        credential = self._find(first.name)
        if credential is None:
            raise AuthenticationFailed(None, f"no such user of {self._mechanism.name}", first.name)
        if first.authorization_id and first.authorization_id != first.name:
            raise AuthenticationFailed(OTHER_AUTHORIZATION_ID)
        if credential.iterations < LEAST_ITERATIONS:
            raise AuthenticationFailed(
                None, f"the credential has {credential.iterations} iterations, too few"
            )
        nonce = first.nonce + self._new_nonce()
        return _Proving(self._mechanism, credential, first, nonce)


class _Proving:
    """An exchange whose client has been challenged to prove that it has the password."""

    def __init__(
        self, mechanism: ScramMechanism, credential: ScramCredential, first: ClientFirst, nonce: bytes
    ) -> None:
        self._mechanism = mechanism
        self._credential = credential
        self._first = first
        self._nonce = nonce
        salt = b64encode(credential.salt)
        self.server_first = b"r=%b,s=%b,i=%d" % (nonce, salt, credential.iterations)
        """The challenge."""

    @property
    def held_bytes(self) -> int:
        first = self._first
        kept = (self._nonce, self.server_first, first.bare, first.nonce, first.extensions)
        return len(first.name) + len(first.authorization_id) + sum(map(len, kept))

    def finish(self, final: ClientFinal) -> Authenticated:
        """Check the proof, and return the server's own. Raises AuthenticationFailed."""
        if not hmac.compare_digest(final.nonce, self._nonce):
            raise AuthenticationFailed(None, "the nonce is another exchange's")
        signed = b",".join((self._first.bare, self.server_first, final.without_proof))
        if not self._is_proof(final.proof, signed):
            raise AuthenticationFailed(None, "the proof is wrong", self._first.name)
        signature = self._mechanism.hmac(self._credential.server_key, signed)
        return Authenticated(self._first.name, b"v=" + b64encode(signature))

    def _is_proof(self, proof: bytes, signed: bytes) -> bool:
        """Whether `proof` was made with the password, of this exchange (S22); takes as long for any proof."""
        signature = self._mechanism.hmac(self._credential.stored_key, signed)
        if len(proof) != len(signature):
            return False
        client_key = (int.from_bytes(proof) ^ int.from_bytes(signature)).to_bytes(len(signature))
        return hmac.compare_digest(self._mechanism.hash(client_key), self._credential.stored_key)
