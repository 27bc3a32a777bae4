"""JSON web tokens in their compact form (RFC 7515, 7519), read strictly (F7).

Their JSON comes from strangers: a name may stand in an object once, numbers are numbers of JSON, and what is
nested too deeply is refused. Each reader takes time in proportion to the text, and none shows it.
"""

from __future__ import annotations

import json
import math
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, Final, Never, TypeAlias

from coordinator.security.tokens.validated import MAX_NAME_CHARS, TokenRefused

Claims: TypeAlias = Mapping[str, Any]

LAST_SECOND: Final = 253_402_300_799
"""The end of the year 9999, in seconds since the epoch: no date in a token is later."""
JAVA_BLANKS: Final = "".join(map(chr, range(33)))
"""What Java trims off both ends of a text."""
UNTRUSTED_CHARS_MAX: Final = 64 * 1024
"""Longest part, in base64, that is read before it is known who has written it: JSON of that takes milliseconds."""

_PARTS: Final = 3
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")


def split_token(token: str) -> list[str]:
    """Return header, claims and signature, each as it was sent. Raises TokenRefused."""
    parts = token.split(".", _PARTS)
    if len(parts) != _PARTS:
        raise TokenRefused("it is no token of three parts")
    return parts


def decode_part(part: str, what: str) -> bytes:
    """Decode base64url without padding. Raises TokenRefused."""
    if len(part) % 4 == 1 or _BASE64.fullmatch(part) is None:
        raise TokenRefused(f"{what} is not base64url")
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def read_untrusted(part: str, what: str) -> Claims:
    """Read the object of JSON in a part of which is not known who has written it. Raises TokenRefused."""
    if len(part) > UNTRUSTED_CHARS_MAX:
        raise TokenRefused(f"{what} has more than {UNTRUSTED_CHARS_MAX} characters")
    return read_object(decode_part(part, what), what)


def read_object(data: bytes, what: str) -> Claims:
    """Read an object of JSON in UTF-8. Raises TokenRefused."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_once_each, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise TokenRefused(f"{what} is not JSON, names something twice, or is nested too deeply") from None
    if not isinstance(found, dict):
        raise TokenRefused(f"{what} is no JSON object")
    return found


def seconds(claims: Claims, name: str) -> float | None:
    """Return a time in seconds since the epoch, None if it is not given. Raises TokenRefused."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused(f"{name} is no number")
    if not (math.isfinite(value) if isinstance(value, float) else True) or not 0 <= value <= LAST_SECOND:
        raise TokenRefused(f"{name} is a time that cannot be")
    return value


def needed_seconds(claims: Claims, name: str) -> float:
    """Return a time in seconds since the epoch. Raises TokenRefused, also if it is not given."""
    value = seconds(claims, name)
    if value is None:
        raise TokenRefused(f"{name} is missing")
    return value


def principal_name(claims: Claims, name: str) -> str:
    """Return the claim that names the principal. Raises TokenRefused unless it is a text that can be a name."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip(JAVA_BLANKS):
        raise TokenRefused(f"{name} is missing, blank, or no text")
    if len(value) > MAX_NAME_CHARS:
        raise TokenRefused(f"{name} has more than {MAX_NAME_CHARS} characters")
    try:
        value.encode()
    except UnicodeEncodeError:  # Half of a pair, by an escape of JSON.
        raise TokenRefused(f"{name} has a character that is none") from None
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def _no_number(_constant: str) -> Never:
    raise ValueError("NaN and Infinity are not JSON")
