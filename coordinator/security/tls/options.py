"""The settings of TLS as one listener has them, read by Kafka's rules (T1 to T8, T14).

What does not fit together is refused with a sentence of its own before anything is opened, and so is what Kafka
takes and what would leave the listener useless: no key, or client certificates without a trust store. Settings are
asked for by name, so it does not matter whether a listener has its own.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from coordinator.security.tls.ciphers import TLS_1_2, TLS_1_3
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.rules import DEFAULT, MappingRules
from coordinator.security.tls.rules import OPTION as RULES_OPTION
from coordinator.security.tls.stores import PEM

Lookup: TypeAlias = Callable[[str], str | None]
"""Returns the text of a setting of the listener by its name; None, or blank: it is not given."""

STORE_TYPES: Final = ("JKS", "PKCS12", PEM)
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS_OPTION: Final = "ssl.enabled.protocols"
_SUITES_OPTION: Final = "ssl.cipher.suites"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Where a key store or trust store is: at `path`, or inline."""

    kind: str
    path: Path | None
    password: str | None = field(repr=False)
    key_password: str | None = field(default=None, repr=False)
    key_text: str | None = field(default=None, repr=False)
    certificates_text: str | None = field(default=None, repr=False)


class Suites(NamedTuple):
    """Which cipher suites are on."""

    openssl: tuple[str, ...] | None
    """Those of TLS 1.2, by OpenSSL's names; None: its own choice. Empty: there is no TLS 1.2."""
    has_1_3: bool
    are_some_1_3: bool
    """Whether only some of those of TLS 1.3 are listed, which this Python cannot see to."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The settings of TLS of one listener, which fit together."""

    key_store: StoreOptions
    trust_store: StoreOptions | None
    client_auth: ssl.VerifyMode
    lowest: ssl.TLSVersion
    highest: ssl.TLSVersion
    suites: Suites
    rules: MappingRules = field(repr=False, compare=False)
    may_change_subject: bool = False
    may_change_alternatives: bool = False


def tls_options(lookup: Lookup, client_auth: str | None) -> TlsOptions:
    """Read the settings. `client_auth` is `ssl.client.auth`, which has other rules for SASL_SSL (T4).

    Raises TlsProblem.
    """

    def text(option: str) -> str | None:
        return (lookup(option) or "").strip() or None

    key_store = _key_store(text)
    trust_store = _trust_store(text)
    verify_mode = CLIENT_AUTH.get((client_auth or "none").strip().lower())
    if verify_mode is None:
        raise TlsProblem(f"ssl.client.auth must be one of {', '.join(CLIENT_AUTH)}")
    if verify_mode is not ssl.CERT_NONE and trust_store is None:
        raise TlsProblem(
            "ssl.client.auth asks for certificates, and ssl.truststore.* names none to verify them by"
        )
    versions = _versions(text(_VERSIONS_OPTION), text("ssl.protocol"))
    suites = _suites(text(_SUITES_OPTION))
    if suites.openssl == ():
        versions = [each for each in versions if each is not ssl.TLSVersion.TLSv1_2]
    if not suites.has_1_3:
        versions = [each for each in versions if each is not ssl.TLSVersion.TLSv1_3]
    if not versions:
        raise TlsProblem(f"{_SUITES_OPTION} has no suite for what {_VERSIONS_OPTION} enables")
    return TlsOptions(
        key_store,
        trust_store,
        verify_mode,
        min(versions),
        max(versions),
        suites,
        MappingRules(text(RULES_OPTION) or DEFAULT),
        _flag(text, "ssl.allow.dn.changes"),
        _flag(text, "ssl.allow.san.changes"),
    )


def _key_store(text: Lookup) -> StoreOptions:
    kind = _kind(text, "ssl.keystore.type")
    location, password = text("ssl.keystore.location"), text("ssl.keystore.password")
    key, chain = text("ssl.keystore.key"), text("ssl.keystore.certificate.chain")
    key_password = text("ssl.key.password")
    for is_wrong, problem in (
        (key and kind != PEM, f"ssl.keystore.key is for the type PEM, and ssl.keystore.type is {kind}"),
        (key and not chain, "ssl.keystore.key is given without ssl.keystore.certificate.chain"),
        (key and location, "ssl.keystore.location and ssl.keystore.key are both given"),
        (chain and not key, "ssl.keystore.certificate.chain is given without ssl.keystore.key"),
        (
            kind == PEM and password,
            "ssl.keystore.password is not for the type PEM, which has ssl.key.password",
        ),
        (password and not location, "ssl.keystore.password is given without ssl.keystore.location"),
        (
            location and not password and kind != PEM,
            "ssl.keystore.location is given without ssl.keystore.password",
        ),
        (not key and not location, "ssl.keystore.location, or key and certificate chain, are needed for TLS"),
    ):
        if is_wrong:
            raise TlsProblem(problem)
    return StoreOptions(kind, Path(location) if location else None, password, key_password, key, chain)


def _trust_store(text: Lookup) -> StoreOptions | None:
    kind = _kind(text, "ssl.truststore.type")
    location, password = text("ssl.truststore.location"), text("ssl.truststore.password")
    certificates = text("ssl.truststore.certificates")
    for is_wrong, problem in (
        (
            certificates and kind != PEM,
            f"ssl.truststore.certificates are for the type PEM, and ssl.truststore.type is {kind}",
        ),
        (certificates and location, "ssl.truststore.location and ssl.truststore.certificates are both given"),
        (kind == PEM and password, "ssl.truststore.password is not for the type PEM"),
        (password and not location, "ssl.truststore.password is given without ssl.truststore.location"),
    ):
        if is_wrong:
            raise TlsProblem(problem)
    if not location and not certificates:
        return None
    return StoreOptions(kind, Path(location) if location else None, password, certificates_text=certificates)


def _kind(text: Lookup, option: str) -> str:
    kind = text(option) or STORE_TYPES[0]
    if kind not in STORE_TYPES:
        raise TlsProblem(f"{option} must be one of {', '.join(STORE_TYPES)}")
    return kind


def _versions(enabled: str | None, protocol: str | None) -> list[ssl.TLSVersion]:
    """Return the enabled versions. `ssl.protocol` only has to be one of Java's names: it chooses nothing here."""
    if protocol is not None and protocol not in VERSIONS and protocol != "TLS":
        raise TlsProblem(f"ssl.protocol must be one of {', '.join(VERSIONS)}")
    if enabled is None:
        return list(VERSIONS.values())
    names = [each.strip() for each in enabled.split(",") if each.strip()]
    if unknown := [each for each in names if each not in VERSIONS]:
        raise TlsProblem(
            f"{_VERSIONS_OPTION} may have {' and '.join(VERSIONS)}, and {unknown[0]!r} is neither"
        )
    return [VERSIONS[each] for each in names]


def _suites(text: str | None) -> Suites:
    names = [each.strip() for each in (text or "").split(",") if each.strip()]
    if not names:
        return Suites(None, has_1_3=True, are_some_1_3=False)
    if unknown := [each for each in names if each not in TLS_1_2 and each not in TLS_1_3]:
        raise TlsProblem(f"{_SUITES_OPTION}: there is no suite {unknown[0]!r}")
    newer = TLS_1_3.intersection(names)
    return Suites(
        tuple(TLS_1_2[each] for each in names if each in TLS_1_2),
        has_1_3=bool(newer),
        are_some_1_3=bool(newer) and len(newer) < len(TLS_1_3),
    )


def _flag(text: Lookup, option: str) -> bool:
    value = (text(option) or "false").lower()
    if value not in ("true", "false"):
        raise TlsProblem(f"{option} must be true or false")
    return value == "true"
