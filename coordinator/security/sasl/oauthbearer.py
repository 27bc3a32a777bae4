"""OAUTHBEARER on the server's side (RFC 7628, KIP-255, S33, S34): a client shows a token to a validator.

A token that is refused is answered with the reason as JSON, and only what the client says to that ends the login.
The client's message is cut at its separators, and each byte looked at once. No sockets, no clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from coordinator.security.sasl.mechanism import Authenticated, AuthenticationFailed, Challenge
from coordinator.security.tokens.validated import MAX_NAME_CHARS, TokenRefused, Validator

OAUTHBEARER: Final = "OAUTHBEARER"
ACKNOWLEDGEMENT: Final = b"\x01"
"""What a client answers to the reason of a refusal."""

_SEPARATOR: Final = b"\x01"
_NAME: Final = re.compile(rb"[\x01-\x7f]+")
_STRAY_EQUALS: Final = re.compile(rb"=(?!2C|3D)")
_PAIRS: Final = re.compile(rb"(?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01)++")
"""Possessive: each byte is looked at once, in one call for a hundred thousand of them."""
_AUTH: Final = re.compile(rb"([A-Za-z0-9_]++) ++([-_~+/.a-zA-Z0-9]++=*+)")


class NotOauthbearer(Exception):
    """The message is not what a client of OAUTHBEARER sends. The text has nothing of the message."""


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """The client's message."""

    authorization_id: str
    """As it was sent, escapes and all, which is how Kafka compares it; blank if there is none."""
    token: str


def parse_client_message(message: bytes) -> ClientMessage:
    """Read `n,[a=authzid],^Aauth=Bearer token^A[key=value^A...]^A`. Raises NotOauthbearer."""
    if not message.startswith(b"n,"):
        raise NotOauthbearer("only messages without channel binding are understood")
    authorization_id, comma, pairs = message[2:].partition(b",")
    if not comma or not pairs.startswith(_SEPARATOR) or not pairs.endswith(2 * _SEPARATOR):
        raise NotOauthbearer("a separator is missing")
    pairs = pairs[1:-1]
    if _PAIRS.fullmatch(pairs) is None:
        raise NotOauthbearer("what follows the header is not of names and values")
    given = [pair for pair in pairs.split(_SEPARATOR) if pair.startswith(b"auth=")]
    if not given:
        raise NotOauthbearer("it shows no token")
    auth = _AUTH.fullmatch(given[-1].removeprefix(b"auth="))  # Of several the last counts, as in Kafka.
    if auth is None or auth[1].lower() != b"bearer":
        raise NotOauthbearer("it shows no bearer's token")
    return ClientMessage(_authorization_id(authorization_id), auth[2].decode())


class Oauthbearer:
    """The mechanism as one listener offers it."""

    name: Final = OAUTHBEARER

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    def begin(self) -> OauthbearerExchange:
        """Begin the exchange of one login."""
        return OauthbearerExchange(self._validator)


class OauthbearerExchange:
    """One login: a token, or one that is refused and then another or the client's farewell."""

    held_bytes: Final = 0  # The words of a refusal are ours.

    def __init__(self, validator: Validator) -> None:
        self._validator = validator
        self._refusal: tuple[str, str] | None = None  # What the client was answered, and why.

    def step(self, token: bytes, now_ms: int) -> Challenge | Authenticated:
        """Take the client's message at the time of day `now_ms`. Raises AuthenticationFailed."""
        refusal, self._refusal = self._refusal, None
        if refusal is not None and token == ACKNOWLEDGEMENT:
            raise AuthenticationFailed(*refusal)
        try:
            message = parse_client_message(token)
        except NotOauthbearer as error:
            raise AuthenticationFailed(None, f"not a message of {OAUTHBEARER}: {error}") from None
        try:
            valid = self._validator.validate(message.token, now_ms)
        except TokenRefused as refused:
            answer = _refusal(refused.missing_scope)
            self._refusal = answer, f"the token is refused: {refused}"
            return Challenge(answer.encode())
        if message.authorization_id and message.authorization_id != valid.name:
            raise _other_authorization_id(message.authorization_id, valid.name)
        return Authenticated(valid.name, expires_at_ms=valid.expires_at_ms)


def _refusal(missing_scope: str | None) -> str:
    if missing_scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{missing_scope}"}}'


def _authorization_id(field: bytes) -> str:
    if not field:
        return ""
    value = field.removeprefix(b"a=")
    if value == field or _NAME.fullmatch(value) is None or _STRAY_EQUALS.search(value) is not None:
        raise NotOauthbearer("the authorization id is no name")
    return value.decode()


def _other_authorization_id(authorization_id: str, name: str) -> AuthenticationFailed:
    reason = "an authorization id other than the principal's name"
    if len(authorization_id) > MAX_NAME_CHARS:
        return AuthenticationFailed(None, reason)
    return AuthenticationFailed(
        f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
        f"from the token's principal name ({name})",
        reason,
    )
