"""JKS, the key store of Java before PKCS12: read by hand, since there is no library that is alive (T12).

Big-endian: magic, version 2, the number of entries, and of each a tag, its alias, a time, and either a protected
key with its chain or a certificate; a digest over all of it and the password at the end. The protection of keys is
Sun's own, of SHA-1 (`_unprotected`). Nothing is trusted: each length is held against what there is.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct, error
from typing import Final, NamedTuple

from coordinator.security.tls.der import (
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    DerError,
    element_at,
    object_identifier,
)
from coordinator.security.tls.problems import TlsProblem

MAGIC: Final = b"\xfe\xed\xfe\xed"
_VERSION: Final = 2
_KEY, _CERTIFICATE = 1, 2
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_SUNS_PROTECTION: Final = "1.3.6.1.4.1.42.2.17.1.1"
_HEAD: Final = Struct(">4sii")
_INT: Final = Struct(">i")
_TIME_BYTES: Final = 8


class JksKey(NamedTuple):
    """A private key, in PKCS#8, and its certificates in DER, its own first."""

    alias: str
    key: bytes
    chain: tuple[bytes, ...]


class JksStore(NamedTuple):
    """What is in a store, in its order."""

    keys: tuple[JksKey, ...]
    certificates: tuple[tuple[str, bytes], ...]
    """Certificates alone: each with its alias, in DER."""


class _Reader:
    """A position in the bytes of a store. All methods raise TlsProblem if these end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, count: int) -> bytes:
        stop = self._position + count
        if count < 0 or stop > len(self._data):
            raise TlsProblem("it is cut short or damaged")
        taken = self._data[self._position : stop]
        self._position = stop
        return taken

    def number(self) -> int:
        return int(_INT.unpack(self.take(_INT.size))[0])

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.take(self.number())

    def certificate(self) -> bytes:
        if self.text() not in ("X.509", "X509"):
            raise TlsProblem("it has a certificate of another kind than X.509")
        return self.block()


def read_jks(data: bytes, password: str | None, key_password: str | None) -> JksStore:
    """Read a store. Without `password` it is not verified; without `key_password` no key is opened.

    Raises TlsProblem for a wrong password and a damaged file alike, which look the same.
    """
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_java_bytes(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise TlsProblem("its password is wrong, or it is damaged")
    try:
        magic, version, count = _HEAD.unpack_from(body)
    except error:
        raise TlsProblem("it is cut short or damaged") from None
    if magic != MAGIC or version != _VERSION:
        raise TlsProblem(f"it is no JKS store of version {_VERSION}")
    return _entries(_Reader(body[_HEAD.size :]), count, key_password)


def _entries(reader: _Reader, count: int, key_password: str | None) -> JksStore:
    keys: list[JksKey] = []
    certificates: list[tuple[str, bytes]] = []
    for _ in range(count):
        tag, alias = reader.number(), reader.text()
        reader.take(_TIME_BYTES)
        if tag == _KEY:
            protected = reader.block()
            chain = tuple(reader.certificate() for _ in range(reader.number()))
            key = b"" if key_password is None else _unprotected(protected, key_password)
            keys.append(JksKey(alias, key, chain))
        elif tag == _CERTIFICATE:
            certificates.append((alias, reader.certificate()))
        else:
            raise TlsProblem("it has an entry that is neither a key nor a certificate")
    return JksStore(tuple(keys), tuple(certificates))


def _unprotected(protected: bytes, password: str) -> bytes:
    """Open a key: its bytes are XORed with SHA-1 of password and block before, the first block being the salt."""
    try:
        algorithm, octets = element_at(protected).children()
        kind = algorithm.children()[0]
        if kind.tag != OBJECT_IDENTIFIER or octets.tag != OCTET_STRING:
            raise DerError("no protected key")
        if object_identifier(kind.content) != _SUNS_PROTECTION:
            raise TlsProblem("its key is protected in a way that JKS stores do not have")
    except (DerError, ValueError, IndexError) as problem:
        if isinstance(problem, TlsProblem):
            raise
        raise TlsProblem("its key is damaged") from None
    content, secret = octets.content, _java_bytes(password)
    block, hidden = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:-_DIGEST_BYTES]
    stream = bytearray()
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), content[-_DIGEST_BYTES:]):
        raise TlsProblem("the password of its key is wrong, or it is damaged")
    return key


def _java_bytes(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")
