"""PKCS12 stores, read by `cryptography`, which the extra `security` brings (T9)."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.security.tls.problems import TlsProblem

NEEDS_LIBRARY = "PKCS12 stores need `pip install muster[security]`; JKS and PEM are read without it"


class Pkcs12Store(NamedTuple):
    """What is in a store."""

    alias: str
    key: bytes
    """The private key in PKCS#8; empty if there is none."""
    chain: tuple[bytes, ...]
    """The key's certificates in DER, its own first."""
    certificates: tuple[bytes, ...]
    """The certificates that belong to no key."""


def read_pkcs12(data: bytes, password: str | None) -> Pkcs12Store:
    """Read a store. Raises TlsProblem for a wrong password and a damaged file alike, which look the same."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise TlsProblem(NEEDS_LIBRARY) from None
    try:
        loaded = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (
        Exception
    ):  # ValueError for a password, others for what is damaged: the library promises no classes.
        raise TlsProblem("its password is wrong, or it is damaged") from None
    others = [each.certificate.public_bytes(Encoding.DER) for each in loaded.additional_certs]
    if loaded.key is None or loaded.cert is None:
        alone = [loaded.cert.certificate.public_bytes(Encoding.DER)] if loaded.cert else []
        return Pkcs12Store("", b"", (), tuple(alone + others))
    key = loaded.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    by_subject = {each.certificate.subject: each.certificate for each in loaded.additional_certs}
    chain = [loaded.cert.certificate]
    while chain[-1].issuer != chain[-1].subject and (issuer := by_subject.pop(chain[-1].issuer, None)):
        chain.append(issuer)
    encoded = tuple(each.public_bytes(Encoding.DER) for each in chain)
    alias = (loaded.cert.friendly_name or b"").decode("utf-8", "replace")
    return Pkcs12Store(alias, key, encoded, tuple(each for each in others if each not in encoded))
