"""The names in a certificate: its subject as Java writes it, which is a client's principal, and its other names.

Java writes RFC 2253 with the most specific part first, a few keywords, and everything else as an object identifier
with `#` and the value's DER in hex (T31). `cryptography` and OpenSSL write other texts for the same subject.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coordinator.security.tls.der import (
    BOOLEAN,
    OBJECT_IDENTIFIER,
    SEQUENCE,
    DerError,
    Element,
    element_at,
    object_identifier,
)
from coordinator.security.tls.problems import TlsProblem

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The types that Java shows as text: UTF8, Printable, T61, IA5, General and BMP strings. It reads all as UTF-8."""

_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_SUBJECT_ALT_NAME: Final = "2.5.29.17"


class CertificateNames(NamedTuple):
    """Whom a certificate is for."""

    subject: str
    """As Java's `X500Principal.getName()`; blank for an empty subject."""
    alternatives: frozenset[bytes]
    """The subject's alternative names, each in DER."""


def names_of(certificate: bytes) -> CertificateNames:
    """Return the names in a certificate in DER. Raises TlsProblem if it is none."""
    try:
        fields = element_at(certificate).children()[0].children()
        if fields[0].tag == _VERSION:
            fields = fields[1:]
        # What follows: serial number, signature, issuer, validity, subject.
        subject = fields[4]
        extensions = [each for each in fields[5:] if each.tag == _EXTENSIONS]
        return CertificateNames(_distinguished_name(subject), _alternatives(extensions))
    except (DerError, IndexError, ValueError):
        raise TlsProblem("a certificate cannot be read") from None


def _distinguished_name(name: Element) -> str:
    parts = [
        "+".join(_attribute(attribute) for attribute in relative.children())
        for relative in reversed(name.children())
    ]
    return ",".join(parts)


def _attribute(attribute: Element) -> str:
    kind, value = attribute.children()
    if kind.tag != OBJECT_IDENTIFIER:
        raise DerError("no identifier of an attribute")
    identifier = object_identifier(kind.content)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or identifier}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(" \r")
    before = text[: len(text) - len(text.lstrip(" \r"))]
    behind = text[len(before) + len(inner) :]
    escaped = "".join(rf"\{each}" if each in _ESCAPED else r"\00" if each == "\0" else each for each in inner)
    return "".join(rf"\{each}" for each in before) + escaped + "".join(rf"\{each}" for each in behind)


def _alternatives(extensions: list[Element]) -> frozenset[bytes]:
    for tagged in extensions:
        for extension in element_at(tagged.content).children():
            kind, *rest = extension.children()
            if object_identifier(kind.content) == _SUBJECT_ALT_NAME:
                value = rest[1] if rest[0].tag == BOOLEAN else rest[0]
                names = element_at(value.content)
                if names.tag != SEQUENCE:
                    raise DerError("no alternative names")
                return frozenset(each.whole for each in names.children())
    return frozenset()
