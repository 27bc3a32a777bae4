"""The two messages of a SCRAM client (RFC 5802), read exactly as far as Kafka's broker reads them (S17, S21).

Fields stand between commas, which no value may have, so a message is cut at them and each byte looked at once:
half a megabyte takes milliseconds, whatever it is. All of it is ASCII; other bytes do not parse.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(rb"[\x01-\x7f]+")
_STRAY_EQUALS: Final = re.compile(rb"=(?!2C|3D)")
"""An equals sign in a name that begins neither of the two escapes."""
_VALUE: Final = re.compile(rb"[\x01-\x7f]+")
_PRINTABLE: Final = re.compile(rb"[\x21-\x7e]+")
_EXTENSIONS: Final = re.compile(rb"(?:,[A-Za-z]++=[\x01-\x2b\x2d-\x7f]++)*+")
"""Possessive: each byte is looked at once, in one call for a hundred thousand extensions."""
_BASE64: Final = re.compile(rb"[a-zA-Z0-9/+]*={0,2}")


class NotScram(Exception):
    """The token is not the SCRAM message that is due. The text has nothing of the token."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The client's first message."""

    authorization_id: str
    """As it was sent, escapes and all, which is how Kafka compares it (S19); blank if there is none."""
    name: str
    nonce: bytes
    extensions: bytes
    """Blank, or each with a comma before it."""
    bare: bytes
    """The part that is signed: from the name on, so without what is reserved for later (`m=`), as Kafka has it."""

    def extension(self, name: bytes) -> bytes:
        """Return the value of an extension; of one that is given twice the last one, as Kafka."""
        _, found, rest = self.extensions.rpartition(b",%b=" % name)
        return rest.partition(b",")[0] if found else b""


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """The client's last message."""

    nonce: bytes
    proof: bytes
    without_proof: bytes
    """The part that is signed: without extensions, and the channel binding as it is encoded anew (S21)."""


def parse_client_first(token: bytes) -> ClientFirst:
    """Read `n,[a=authzid],[m=value,]n=name,r=nonce[,extension=value...]`. Raises NotScram."""
    flag, authorization_id, rest = _split(token, 3)
    if flag != b"n":
        raise NotScram("only messages without channel binding are understood")
    if rest.startswith(b"m="):
        reserved, rest = _split(rest, 2)
        _matching(_VALUE, _after(b"m=", reserved), "what is reserved")
    name, behind = _split(rest, 2)
    nonce, comma, extensions = behind.partition(b",")
    plain = _sasl_name(_after(b"n=", name)).replace(b"=2C", b",").replace(b"=3D", b"=")
    return ClientFirst(
        authorization_id=_sasl_name(_after(b"a=", authorization_id)).decode() if authorization_id else "",
        name=plain.decode(),
        nonce=_matching(_PRINTABLE, _after(b"r=", nonce), "the nonce"),
        extensions=_matching(_EXTENSIONS, comma + extensions, "an extension"),
        bare=rest,
    )


def parse_client_final(token: bytes) -> ClientFinal:
    """Read `c=base64,r=nonce[,extension=value...],p=base64`. Raises NotScram."""
    without_proof, _, last = token.rpartition(b",")
    proof = _base64(_after(b"p=", last))
    first, behind = _split(without_proof, 2)
    channel = _base64(_after(b"c=", first))
    second, comma, extensions = behind.partition(b",")
    nonce = _matching(_PRINTABLE, _after(b"r=", second), "the nonce")
    _matching(_EXTENSIONS, comma + extensions, "an extension")
    return ClientFinal(nonce, proof, b"c=%b,r=%b" % (b64encode(channel), nonce))


def _split(text: bytes, parts: int) -> list[bytes]:
    found = text.split(b",", parts - 1)
    if len(found) < parts:
        raise NotScram("a field is missing")
    return found


def _after(prefix: bytes, part: bytes) -> bytes:
    if not part.startswith(prefix):
        raise NotScram(f"there is no {prefix.decode()} where it has to be")
    return part[len(prefix) :]


def _matching(pattern: re.Pattern[bytes], value: bytes, what: str) -> bytes:
    if pattern.fullmatch(value) is None:
        raise NotScram(f"{what} is empty or has bytes that it may not have")
    return value


def _sasl_name(value: bytes) -> bytes:
    _matching(_NAME, value, "a name")
    if _STRAY_EQUALS.search(value) is not None:
        raise NotScram("a name has an equals sign that is no escape")
    return value


def _base64(value: bytes) -> bytes:
    if len(value) % 4 or _BASE64.fullmatch(value) is None:
        raise NotScram("what has to be base64 is not")
    return b64decode(value)
