"""What is kept of a SCRAM user's password (RFC 5802): a salt, two keys, a count of iterations; never the password.

A credential is of one mechanism, as its keys are made with the mechanism's hash function. Pure computation.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
"""Bounds of the count of iterations, for both mechanisms, as Kafka's (S42)."""


@dataclass(frozen=True, slots=True)
class ScramMechanism:
    """One of the two mechanisms: its number in requests, its SASL name, its hash function as hashlib names it."""

    number: int
    name: str
    hash_name: str

    @property
    def key_bytes(self) -> int:
        """Size of a key, and of a client's proof."""
        return hashlib.new(self.hash_name).digest_size

    def hmac(self, key: bytes, message: bytes) -> bytes:
        """Return HMAC(`key`, `message`)."""
        return hmac.digest(key, message, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        """Return H(`data`)."""
        return hashlib.new(self.hash_name, data).digest()

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """Return Hi(`password`, `salt`, `iterations`): takes milliseconds by design.

        The password is taken as it is: Kafka prepares no text (S23).
        """
        return hashlib.pbkdf2_hmac(self.hash_name, password, salt, iterations)


SCRAM_SHA_256: Final = ScramMechanism(1, "SCRAM-SHA-256", "sha256")
SCRAM_SHA_512: Final = ScramMechanism(2, "SCRAM-SHA-512", "sha512")
MECHANISMS: Final = (SCRAM_SHA_256, SCRAM_SHA_512)
BY_NUMBER: Final = {each.number: each for each in MECHANISMS}
BY_NAME: Final = {each.name: each for each in MECHANISMS}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a user is known by: enough to check a proof, not enough to make one."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(
        cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Derive the keys from a salted password, which is all that a request has of the password (S43)."""
        client_key = mechanism.hmac(salted_password, b"Client Key")
        server_key = mechanism.hmac(salted_password, b"Server Key")
        return cls(salt, mechanism.hash(client_key), server_key, iterations)


UserCredentials: TypeAlias = Mapping[ScramMechanism, ScramCredential]
"""The credentials of one user: at least one."""
Users: TypeAlias = Mapping[str, UserCredentials]
"""All users that have a credential, by name."""

DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
RANDOM_BITS: Final = 130
"""Bits in the server's part of a nonce, and in a salt: 25 or 26 letters of base 36, seldom fewer (S20)."""


def base_36(number: int) -> str:
    """Return `number`, which is not negative, in base 36: the form of Kafka's nonces and salts."""
    letters = [DIGITS[0]] if number == 0 else []
    while number:
        number, digit = divmod(number, len(DIGITS))
        letters.append(DIGITS[digit])
    return "".join(reversed(letters))


def decoy(mechanism: ScramMechanism, name: str, key: bytes) -> ScramCredential:
    """Return the credential that a user who is not known seems to have; no proof fits it.

    The same name gets the same one as long as `key`, which is secret, is the same: an attacker sees a salt like
    that of any user, and never another one. Only the default count of iterations looks like that of others.
    """

    def derived(purpose: bytes) -> bytes:
        return mechanism.hmac(key, b"\0".join((purpose, mechanism.name.encode(), name.encode())))

    salt = base_36(int.from_bytes(derived(b"salt")) >> (8 * mechanism.key_bytes - RANDOM_BITS))
    return ScramCredential(salt.encode(), derived(b"stored key"), derived(b"server key"), LEAST_ITERATIONS)
