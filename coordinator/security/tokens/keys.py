"""The public keys of an issuer of tokens, as a JSON web key set has them (RFC 7517).

Keys are made, and signatures verified, by PyJWT and `cryptography`, which the extra `security` brings. Only keys
that are public by nature are taken: a secret of HMAC in a key set is no secret, and one made of a public key is
an old forgery (F7). Private parts of a key are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

NEEDS_LIBRARY: Final = "needs `pip install muster[security]`"
LEAST_RSA_BITS: Final = 2048
"""Smaller ones can be broken; jose4j, which Kafka uses, refuses them as well."""


class KeysUnusable(Exception):
    """Raised when there are no keys to be had; one sentence, for people."""


class _Algorithm(NamedTuple):
    type: str
    """`kty` of its keys."""
    curve: str | None
    """`crv` of its keys; None: any that the library has."""


ALGORITHMS: Final[Mapping[str, _Algorithm]] = {
    **{name: _Algorithm("RSA", None) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")},
    "ES256": _Algorithm("EC", "P-256"),
    "ES384": _Algorithm("EC", "P-384"),
    "ES512": _Algorithm("EC", "P-521"),
    "EdDSA": _Algorithm("OKP", None),
}
"""The algorithms of signatures that are taken, by their names in a token's header."""

_PUBLIC: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""The members that make a public key, by its type."""


@dataclass(frozen=True, slots=True)
class Key:
    """One public key that verifies signatures."""

    id: str | None
    """`kid`; None: it has none."""
    type: str
    curve: str | None
    algorithm: str | None
    """The one that it is for; None: all of its type."""
    public: Any = field(repr=False)

    def is_for(self, algorithm: str) -> bool:
        """Whether it verifies signatures of this algorithm."""
        wanted = ALGORITHMS.get(algorithm)
        if wanted is None or wanted.type != self.type or self.algorithm not in (None, algorithm):
            return False
        return wanted.curve is None or wanted.curve == self.curve

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether `signature` was made of `signed` by the owner of the key."""
        assert self.is_for(algorithm), algorithm
        return bool(_library()[algorithm].verify(signed, self.public, signature))


class KeySet:
    """The keys of one issuer. Never changed, so any thread may read it."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._by_id: dict[str | None, list[Key]] = {}
        self._all = list(keys)
        for key in self._all:
            self._by_id.setdefault(key.id, []).append(key)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, key_id: str) -> bool:
        return key_id in self._by_id

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """Return the key of that id for the algorithm; without an id the first for it; None: there is none."""
        among = self._all if key_id is None else self._by_id.get(key_id, [])
        return next((key for key in among if key.is_for(algorithm)), None)


def need_library() -> None:
    """Raise KeysUnusable if signatures cannot be verified here."""
    if not ALGORITHMS.keys() <= _library().keys():
        raise KeysUnusable(NEEDS_LIBRARY)


def parse_key_set(data: bytes) -> KeySet:
    """Read a key set; keys of kinds that are not known are left out. Raises KeysUnusable, if none is left too."""
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise KeysUnusable("what it has is not JSON") from None
    members = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(members, list):
        raise KeysUnusable("what it has is no key set: a JSON object with a list of keys")
    keys = [key for each in members if isinstance(each, dict) and (key := _key(each)) is not None]
    if not keys:
        raise KeysUnusable(f"it has no key that verifies signatures, of {len(members)}")
    return KeySet(keys)


def _key(member: Mapping[str, Any]) -> Key | None:
    """Return the key that a member of a set describes; None if it is none that verifies signatures here."""
    kind, key_id, algorithm = member.get("kty"), member.get("kid"), member.get("alg")
    if not all(isinstance(each, str | None) for each in (kind, key_id, algorithm)) or kind not in _PUBLIC:
        return None
    if member.get("use") not in (None, "sig") or not _may_verify(member.get("key_ops")):
        return None
    by_name = next(name for name, each in ALGORITHMS.items() if each.type == kind)
    parts = {name: member.get(name) for name in _PUBLIC[kind]}
    if not all(isinstance(each, str) for each in parts.values()):
        return None
    try:
        public = _library()[by_name].from_jwk({"kty": kind, **parts})
    except Exception:  # The libraries promise no classes for what is no key.
        return None
    if kind == "RSA" and public.key_size < LEAST_RSA_BITS:
        return None
    return Key(key_id, kind, parts.get("crv"), algorithm, public)


def _may_verify(operations: Any) -> bool:
    return operations is None or (isinstance(operations, list) and "verify" in operations)


@cache
def _library() -> Mapping[str, Any]:
    """Return what verifies signatures, by the algorithm's name. Raises KeysUnusable."""
    try:
        from jwt.algorithms import get_default_algorithms
    except ImportError:
        raise KeysUnusable(NEEDS_LIBRARY) from None
    return get_default_algorithms()
