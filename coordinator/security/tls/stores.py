"""Key stores and trust stores: PEM, PKCS12 or JKS, whichever the first bytes say (T1 to T3, T9 to T13).

Java reads PKCS12 under the type JKS and the other way round, and keytool has written PKCS12 for years, so the type
in the settings only tells PEM from the others. What comes out is the same for all: one key with its chain, or
certificates, each of which is trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from coordinator.security.regular_file import read_regular
from coordinator.security.tls.jks import MAGIC as JKS_MAGIC
from coordinator.security.tls.jks import JksKey, read_jks
from coordinator.security.tls.names import names_of
from coordinator.security.tls.pem import certificates_in, key_in, pem
from coordinator.security.tls.pkcs12 import read_pkcs12
from coordinator.security.tls.problems import TlsProblem

PEM: Final = "PEM"
MAX_STORE_BYTES: Final = 16 << 20
"""Largest store; the list of all public authorities has 300 KB."""

_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_SEQUENCE: Final = b"\x30"  # What PKCS12 begins with.
_CONVERT: Final = "keytool -importkeystore -srckeystore {} -destkeystore new.p12 -deststoretype PKCS12"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key and its certificates."""

    key_pem: str = field(repr=False)
    chain: tuple[bytes, ...]
    """In DER, the key's own first."""
    entries: tuple[bytes, ...]
    """The first certificate of each entry of the store, in the order of their aliases; one for PEM."""
    key_password: str | None = field(default=None, repr=False)
    """Of the PEM; None: it is open."""


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Certificates, in DER, each of which is trusted by itself (T3)."""

    certificates: tuple[bytes, ...]


def pem_key_store(text: str, certificates: str, key_password: str | None) -> KeyStore:
    """Return the key in `text`, and the chain in `certificates`, its own first. Raises TlsProblem."""
    chain = tuple(certificates_in(certificates))
    if not chain:
        raise TlsProblem("at least one certificate is needed, and none found")
    for each in chain:
        names_of(each)
    return KeyStore(key_in(text), chain, chain[:1], key_password)


def pem_trust_store(text: str) -> TrustStore:
    """Return the certificates in `text`. Raises TlsProblem if there are none."""
    certificates = tuple(certificates_in(text))
    if not certificates:
        raise TlsProblem("at least one certificate is needed, and none found")
    for each in certificates:
        names_of(each)
    return TrustStore(certificates)


def read_key_store(path: Path, kind: str, password: str | None, key_password: str | None) -> KeyStore:
    """Read the key store at `path`, of the type `kind`. Raises TlsProblem, which names the file."""
    return _read(path, lambda data: _key_store(data, path, kind, password, key_password))


def read_trust_store(path: Path, kind: str, password: str | None) -> TrustStore:
    """Read the trust store at `path`; without `password` it is read unverified. Raises TlsProblem."""
    return _read(path, lambda data: _trust_store(data, path, kind, password))


def _read(path: Path, parse: Callable[[bytes], T]) -> T:
    try:
        data = read_regular(path, MAX_STORE_BYTES)
    except OSError as error:
        raise TlsProblem(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        return parse(data)
    except TlsProblem as problem:
        raise TlsProblem(f"{path} cannot be read: {problem}") from None


def _key_store(
    data: bytes, path: Path, kind: str, password: str | None, key_password: str | None
) -> KeyStore:
    if _is_pem(data, kind):
        text = data.decode("utf-8", "replace")
        return pem_key_store(text, text, key_password)
    if data.startswith(JKS_MAGIC):
        store = read_jks(data, password, key_password or password)
        key = min(store.keys, key=lambda each: each.alias, default=JksKey("", b"", ()))
        named = sorted(
            [(each.alias, each.chain[0]) for each in store.keys if each.chain] + [*store.certificates]
        )
        return _from_der(key.key, key.chain, tuple(certificate for _, certificate in named))
    _expect_pkcs12(data, path)
    read = read_pkcs12(data, password)
    return _from_der(read.key, read.chain, (*read.chain[:1], *read.certificates))


def _from_der(key: bytes, chain: tuple[bytes, ...], entries: tuple[bytes, ...]) -> KeyStore:
    if not key or not chain:
        raise TlsProblem("it has no private key")
    for each in entries:
        names_of(each)
    return KeyStore(pem("PRIVATE KEY", key), chain, entries)


def _trust_store(data: bytes, path: Path, kind: str, password: str | None) -> TrustStore:
    if _is_pem(data, kind):
        return pem_trust_store(data.decode("utf-8", "replace"))
    if data.startswith(JKS_MAGIC):
        certificates = tuple(each for _, each in read_jks(data, password, None).certificates)
    else:
        _expect_pkcs12(data, path)
        certificates = read_pkcs12(data, password).certificates
    if not certificates:
        raise TlsProblem("it has no trusted certificate")
    for each in certificates:
        names_of(each)
    return TrustStore(certificates)


def _is_pem(data: bytes, kind: str) -> bool:
    """Whether to read a store as PEM. Raises TlsProblem if what is said and what is there differ."""
    is_binary = data.startswith((JKS_MAGIC, _JCEKS_MAGIC, _SEQUENCE))
    if kind == PEM and is_binary:
        raise TlsProblem("its type is given as PEM, and it is none")
    if kind != PEM and not is_binary and b"-----BEGIN " in data:
        raise TlsProblem(f"its type is given as {kind}, and it is PEM")
    return kind == PEM


def _expect_pkcs12(data: bytes, path: Path) -> None:
    if data.startswith(_JCEKS_MAGIC):
        raise TlsProblem(f"JCEKS stores are not supported; this makes another: {_CONVERT.format(path)}")
    if not data.startswith(_SEQUENCE):
        raise TlsProblem("it is neither a PKCS12 nor a JKS store")
