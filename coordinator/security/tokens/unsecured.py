"""Tokens without a signature, which anybody can make: for trials, and only if they are asked for (S35).

The rules and options are those of Kafka's OAuthBearerUnsecuredValidatorCallbackHandler, which is what a listener
of Kafka's has that names no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from coordinator.security.tokens.compact import (
    JAVA_BLANKS,
    Claims,
    needed_seconds,
    principal_name,
    read_untrusted,
    seconds,
    split_token,
)
from coordinator.security.tokens.validated import TokenRefused, ValidToken

_OPTION: Final = "unsecuredValidator"
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_SKEW: Final = re.compile(r"[0-9]{1,9}")


class UnsecuredOptionsError(ValueError):
    """Raised for options of the login module that are none; one sentence."""


class UnsecuredTokens:
    """The validator of one listener."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are those of the login module. Raises UnsecuredOptionsError."""
        self._name_claim = _option(options, "PrincipalClaimName") or "sub"
        self._scope_claim = _option(options, "ScopeClaimName") or "scope"
        self._needed_scopes = [each for each in _option(options, "RequiredScope").split(" ") if each]
        for each in self._needed_scopes:
            if _SCOPE.fullmatch(each) is None:
                raise UnsecuredOptionsError(f"{_OPTION}RequiredScope has characters that no scope may have")
        skew = _option(options, "AllowableClockSkewMs") or "0"
        if _SKEW.fullmatch(skew) is None:
            raise UnsecuredOptionsError(f"{_OPTION}AllowableClockSkewMs must be a number of ms")
        self._skew_ms = int(skew)

    def validate(self, token: str, now_ms: int) -> ValidToken:
        """Look at a token at the time of day `now_ms`. Raises TokenRefused."""
        header_part, claims_part, signature = split_token(token)
        header = read_untrusted(header_part, "the header")
        claims = read_untrusted(claims_part, "the claims")
        if header.get("alg") != "none" or signature:
            raise TokenRefused("it is signed, or says so, and only unsecured tokens are taken")
        name = principal_name(claims, self._name_claim)
        expires_at_s = self._expiry_s(claims, now_ms)
        scopes = _scopes(claims.get(self._scope_claim))
        for each in self._needed_scopes:
            if each not in scopes:
                shown = f"[{', '.join(self._needed_scopes)}]"
                raise TokenRefused(f"it lacks one of the scopes {shown}", missing_scope=shown)
        return ValidToken(name, round(expires_at_s * 1000))

    def _expiry_s(self, claims: Claims, now_ms: int) -> float:
        expires_at_s, issued_at_s = needed_seconds(claims, "exp"), seconds(claims, "iat")
        if issued_at_s is not None and issued_at_s * 1000 > now_ms + self._skew_ms:
            raise TokenRefused("it was issued in the future")
        if now_ms - self._skew_ms >= expires_at_s * 1000:
            raise TokenRefused("it has expired")
        if issued_at_s is not None and expires_at_s <= issued_at_s:
            raise TokenRefused("it expires before it was issued")
        return expires_at_s


def _option(options: Mapping[str, str], name: str) -> str:
    return options.get(f"{_OPTION}{name}", "").strip(JAVA_BLANKS)


def _scopes(value: Any) -> frozenset[str]:
    """Return the scopes of a token: a text is one of them, blanks and all."""
    if value is None:
        return frozenset()
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise TokenRefused("its scope is neither a text nor a list of them")
    return frozenset(filter(None, (each.strip(JAVA_BLANKS) for each in given)))
