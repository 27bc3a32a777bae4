"""JSON web tokens and key sets (F7, S35 to S38): what PyJWT has signed is taken, and nothing that differs from it.

The issuer has three keys; what it has signed is known, so a token that was damaged may only be taken for what its
issuer said. Of claims that are good or not the rules are written here once more, in the order that makes no
difference.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from coordinator.security.tokens.keys import KeySet, KeysUnusable, parse_key_set
from coordinator.security.tokens.signed import Expectations, SignedTokens
from coordinator.security.tokens.unsecured import UnsecuredTokens
from coordinator.security.tokens.validated import MAX_NAME_CHARS, TokenRefused, ValidToken
from tests.security.fuzz.properties import CANARY, Property, assert_sentence
from tests.security.tokens import (
    NOW_MS,
    NOW_S,
    claims,
    ec_key,
    ed_key,
    key_set,
    member,
    rsa_key,
    signed_text,
    unsecured,
)

SKEW_S: Final = 30
LAST_S: Final = 253_402_300_799
KEYS: Final = {"RS256": "rsa", "PS512": "rsa", "ES256": "ec", "EdDSA": "ed"}
"""The id of the key for each algorithm."""
BLANKS: Final = "".join(map(chr, range(33)))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.just(CANARY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
times = st.integers(NOW_S - 100, NOW_S + 100) | st.floats(NOW_S - 100, NOW_S + 100) | json_values
names = (
    st.text(max_size=8)
    | st.sampled_from(["alice", " bob ", "\t", "\ud800", "x" * 1000, "x" * 1001])
    | json_values
)
texts = st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=3) | json_values


class Case(NamedTuple):
    """Claims and header beside what is good; what is damaged of the token; members of a key set."""

    algorithm: str
    given: dict[str, Any]
    header: dict[str, Any]
    is_signed: bool
    damage: tuple[int, int, str] | None
    members: list[dict[str, Any]]


claims_given = st.fixed_dictionaries(
    {},
    optional={
        "sub": names,
        "exp": times,
        "iat": times,
        "nbf": times,
        "aud": texts,
        "scope": texts,
        "x": json_values,
    },
)
header_given = st.fixed_dictionaries(
    {},
    optional={
        "typ": json_values,
        "cty": st.sampled_from(["JWT", "application/jwt", "x"]) | json_values,
        "kid": st.sampled_from(["rsa", "ec", "ed", "none", "../rsa"]) | json_values,
        "alg": st.sampled_from([*KEYS, "none", "HS256", "ES512"]) | json_values,
        "crit": json_values,
        "b64": json_values,
        "jwk": json_values,
        "jku": json_values,
    },
)
key_members = st.dictionaries(
    st.sampled_from(["kty", "kid", "n", "e", "crv", "x", "y", "use", "alg", "key_ops"]),
    st.sampled_from(["RSA", "EC", "OKP", "P-256", "Ed25519", "AQAB", "sig", "rsa", "A" * 342]) | json_values,
    max_size=7,
)
cases = st.builds(
    Case,
    algorithm=st.sampled_from(sorted(KEYS)),
    given=st.just({}) | claims_given,
    header=st.just({}) | header_given,
    is_signed=st.booleans(),
    damage=st.none()
    | st.tuples(st.integers(0, 2), st.integers(0, 900), st.text("aZ0-_.=+/ \x01\xe9", max_size=3)),
    members=st.lists(key_members, max_size=3),
)


@cache
def own_keys() -> dict[str, Any]:
    return {"rsa": rsa_key(), "ec": ec_key(), "ed": ed_key()}


@cache
def own_members() -> list[dict[str, Any]]:
    return [member(key, kid=name) for name, key in own_keys().items()]


@cache
def keys() -> KeySet:
    return parse_key_set(key_set(*own_members()))


def check(case: Case) -> str:
    """The issuer's token, signed or not, whole or damaged; and its keys among others that are none."""
    _check_keys(case)
    key_id = KEYS[case.algorithm]
    given = claims() | case.given
    if case.is_signed:
        header = {"alg": case.algorithm, "kid": key_id} | case.header
        token = signed_text(header, given, own_keys()[key_id], case.algorithm)
        validator: Any = SignedTokens(keys(), Expectations(skew_s=SKEW_S))
        said = _signed_value(given) if _is_header(header, case.algorithm) else None
    else:
        header = {"alg": "none"} | case.header
        token = unsecured(given, header)
        validator = UnsecuredTokens({})
        said = _unsecured_value(given) if header["alg"] == "none" else None
    damaged = _damaged(token, case)
    try:
        valid = validator.validate(damaged, NOW_MS)
    except TokenRefused as refused:
        assert_sentence(str(refused))
        assert damaged != token or said is None, "a good token was refused"
        return "refused" if damaged == token else "damaged and refused"
    if damaged == token or case.is_signed:
        assert valid == said, "taken for what it is not"
    return "taken" if damaged == token else "damaged and taken"


def _damaged(token: str, case: Case) -> str:
    if case.damage is None:
        return token
    number, at, put = case.damage
    parts = token.split(".")
    at = at % (len(parts[number]) + 1)
    parts[number] = parts[number][:at] + put + parts[number][at + len(put) :]
    return ".".join(parts)


def _check_keys(case: Case) -> None:
    """Members that are no keys take nothing away from those that are."""
    try:
        alone: Any = parse_key_set(key_set(*case.members))
        assert len(alone) >= 1
    except KeysUnusable as error:
        assert_sentence(str(error))
    among = parse_key_set(key_set(*case.members, *own_members()))
    assert all(name in among for name in own_keys())
    assert CANARY not in repr(among)


# The rules, once more.


def _is_header(header: dict[str, Any], algorithm: str) -> bool:
    """Whether a header is that of a token by this algorithm, which the key of its id has signed."""
    if header["alg"] != algorithm or "crit" in header or "b64" in header:
        return False
    if isinstance(header.get("cty"), str) and header["cty"].lower() in ("jwt", "application/jwt"):
        return False
    # Without an id the first key of the type is taken, of which there is one here.
    return header["kid"] is None or header["kid"] == KEYS[algorithm]


def _time(given: dict[str, Any], name: str, is_needed: bool) -> tuple[bool, float | None]:
    """Whether a time is one, or need not be there; and the time."""
    value = given.get(name)
    if value is None:
        return not is_needed, None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_number and 0 <= value <= LAST_S, value


def _name(given: dict[str, Any]) -> str | None:
    value = given.get("sub")
    if not isinstance(value, str) or not value.strip(BLANKS) or len(value) > MAX_NAME_CHARS:
        return None
    return None if any("\ud800" <= each <= "\udfff" for each in value) else value


def _signed_value(given: dict[str, Any]) -> ValidToken | None:
    """S37, whole seconds: what the token is good for; None: nothing."""
    found = [_time(given, name, name != "nbf") for name in ("exp", "iat", "nbf")]
    name = _name(given)
    if name is None or not all(is_good for is_good, _ in found) or given.get("aud") is not None:
        return None
    expires, issued, begins = (None if value is None else int(value) for _, value in found)
    assert expires is not None
    assert issued is not None
    if expires + SKEW_S <= NOW_S or expires < issued:
        return None
    if begins is not None and (begins > NOW_S + SKEW_S or expires < begins):
        return None
    scopes = given.get("scope")
    if isinstance(scopes, str | list):
        listed = [scopes] if isinstance(scopes, str) else scopes
        shown = [each.strip(BLANKS) for each in listed if isinstance(each, str)]
        if len(shown) < len(listed) or "" in shown or len(set(shown)) < len(shown):
            return None
    return ValidToken(name.strip(BLANKS), expires * 1000)


def _unsecured_value(given: dict[str, Any]) -> ValidToken | None:
    """S35, fractions of seconds: what the token says of itself; None: nothing that is taken."""
    found = [_time(given, name, name == "exp") for name in ("exp", "iat")]
    name = _name(given)
    if name is None or not all(is_good for is_good, _ in found):
        return None
    (_, expires), (_, issued) = found
    assert expires is not None
    if expires * 1000 <= NOW_MS or (issued is not None and (issued * 1000 > NOW_MS or expires <= issued)):
        return None
    scopes = given.get("scope")
    listed = scopes if isinstance(scopes, list) else []
    if not isinstance(scopes, str | list | None) or not all(isinstance(each, str) for each in listed):
        return None
    return ValidToken(name, round(expires * 1000))


TOKENS: Final = Property("tokens", cases, check, frozenset({"taken", "refused", "damaged and refused"}))
