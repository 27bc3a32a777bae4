"""PEM: keys and certificates as text, in a file or in a setting (T1).

As Kafka reads it, white space within a block may be anything, a single line too, since the value of a setting has
no lines; what stands between blocks is skipped. PKCS#1 and EC keys are taken as well, which Kafka refuses.
"""

from __future__ import annotations

import base64
import re
from typing import Final, NamedTuple

from coordinator.security.tls.problems import TlsProblem

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----([^-]*)-----END \1-----")
_HEADER: Final = re.compile(r"[^\r\n:]*:[^\r\n]*[\r\n]+")
_CERTIFICATES: Final = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_LINE_CHARS: Final = 64


class PemBlock(NamedTuple):
    """One block: what it is said to be, its bytes, and its text with the lines that OpenSSL wants."""

    label: str
    content: bytes
    text: str


def pem(label: str, content: bytes) -> str:
    """Return a block of PEM."""
    encoded = base64.b64encode(content).decode()
    lines = [encoded[at : at + _LINE_CHARS] for at in range(0, len(encoded), _LINE_CHARS)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def certificates_in(text: str) -> list[bytes]:
    """Return the certificates in `text`, in DER, in their order. Raises TlsProblem if one is no base 64."""
    return [block.content for block in _blocks(text) if block.label in _CERTIFICATES]


def key_in(text: str) -> str:
    """Return the one private key in `text` as PEM. Raises TlsProblem if there are none or several."""
    keys = [block for block in _blocks(text) if block.label.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise TlsProblem(f"one private key is needed, and {len(keys) or 'none'} found")
    return keys[0].text


def _blocks(text: str) -> list[PemBlock]:
    found = []
    for match in _BLOCK.finditer(text):
        label, body = match[1], match[2]
        headers = "".join(_HEADER.findall(body))
        encoded = "".join(_HEADER.sub("", body).split())
        try:
            content = base64.b64decode(encoded, validate=True)
        except ValueError:  # binascii's error is one; so is what b64decode says to text that is not ASCII.
            raise TlsProblem(f"the {label} in it is no base 64") from None
        # An old encrypted key has its algorithm in headers, which mean nothing without their lines.
        found.append(PemBlock(label, content, match[0] + "\n" if headers else pem(label, content)))
    return found
