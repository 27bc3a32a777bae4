"""Tokens that their issuer has signed (S37), with the rules that Kafka's broker has by jose4j.

The signature is verified before the claims are read. What a header says of where keys are (`jku`, `jwk`, `x5u`,
`x5c`) is not looked at: keys come from the issuer's own set alone, found by `kid`, which is a name and no path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from coordinator.security.tokens.compact import (
    JAVA_BLANKS,
    Claims,
    decode_part,
    needed_seconds,
    principal_name,
    read_object,
    read_untrusted,
    seconds,
    split_token,
)
from coordinator.security.tokens.keys import ALGORITHMS, Key
from coordinator.security.tokens.validated import TokenRefused, ValidToken

_NOT_UNDERSTOOD: Final = ("crit", "b64")
"""What changes how a token is to be read, or asks for it."""
_NESTED: Final = ("jwt", "application/jwt")


class Keys(Protocol):
    """The issuer's keys, at hand."""

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """Return the key for a token; None if there is none, or none yet. Waits for nothing."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a token has to say."""

    issuer: str | None = None
    """None: any."""
    audiences: frozenset[str] = frozenset()
    """One of them; empty: the token may not have an audience."""
    name_claim: str = "sub"
    scope_claim: str = "scope"
    skew_s: int = 30
    """How far the issuer's clock may be off."""


class SignedTokens:
    """The validator of one listener."""

    def __init__(self, keys: Keys, expected: Expectations) -> None:
        self._keys = keys
        self._expected = expected

    def validate(self, token: str, now_ms: int) -> ValidToken:
        """Look at a token at the time of day `now_ms`. Raises TokenRefused."""
        header_part, claims_part, signature = split_token(token)
        header = read_untrusted(header_part, "the header")
        algorithm = _algorithm(header)
        key = self._keys.find(_key_id(header), algorithm)
        if key is None:
            raise TokenRefused("there is no key for it")
        signed = f"{header_part}.{claims_part}".encode()
        if not key.verifies(algorithm, signed, decode_part(signature, "the signature")):
            raise TokenRefused("its signature is wrong")
        claims = read_object(decode_part(claims_part, "the claims"), "the claims")
        expires_at_s = self._expiry_s(claims, now_ms // 1000)
        self._check_issuer(claims.get("iss"))
        self._check_audience(claims.get("aud"))
        _check_scopes(claims.get(self._expected.scope_claim))
        name = principal_name(claims, self._expected.name_claim).strip(JAVA_BLANKS)
        return ValidToken(name, expires_at_s * 1000)

    def _expiry_s(self, claims: Claims, now_s: int) -> int:
        """Return when the token ends; times are whole seconds, as in jose4j."""
        expires_at_s, issued_at_s = int(needed_seconds(claims, "exp")), int(needed_seconds(claims, "iat"))
        not_before_s = seconds(claims, "nbf")
        if now_s - self._expected.skew_s >= expires_at_s:
            raise TokenRefused("it has expired")
        if expires_at_s < issued_at_s:
            raise TokenRefused("it expires before it was issued")
        if not_before_s is not None and (
            now_s + self._expected.skew_s < int(not_before_s) or expires_at_s < int(not_before_s)
        ):
            raise TokenRefused("it is not valid yet")
        return expires_at_s

    def _check_issuer(self, issuer: Any) -> None:
        if self._expected.issuer is not None and issuer != self._expected.issuer:
            raise TokenRefused("its issuer is another")

    def _check_audience(self, audience: Any) -> None:
        if audience is None and not self._expected.audiences:
            return
        given = [audience] if isinstance(audience, str) else audience
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise TokenRefused("its audience is missing, or no text")
        if self._expected.audiences.isdisjoint(given):
            raise TokenRefused("it is for another audience")


def _algorithm(header: Claims) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused("it is signed by no algorithm that is taken")
    if any(name in header for name in _NOT_UNDERSTOOD):
        raise TokenRefused("it asks for what is not understood")
    if str(header.get("cty", "")).lower() in _NESTED:
        raise TokenRefused("it holds another token")
    return algorithm


def _key_id(header: Claims) -> str | None:
    key_id = header.get("kid")
    if not isinstance(key_id, str | None):
        raise TokenRefused("its kid is no text")
    return key_id


def _check_scopes(value: Any) -> None:
    """Refuse blank scopes, and such as are given twice; they are not used otherwise."""
    if not isinstance(value, str | list):
        return
    seen: set[str] = set()
    for each in [value] if isinstance(value, str) else value:
        scope = each.strip(JAVA_BLANKS) if isinstance(each, str) else ""
        if not scope or scope in seen:
            raise TokenRefused("a scope of it is blank, no text, or given twice")
        seen.add(scope)
