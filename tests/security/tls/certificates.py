"""Keys and certificates for tests, made once for each process: an authority, and what it signed."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PASSWORD = "geheim-1"
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
LATER = datetime.datetime(2199, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Issued:
    """A key with its certificate, as PEM."""

    key: str
    certificate: str

    @property
    def pem(self) -> str:
        return self.key + self.certificate


@cache
def authority() -> trustme.CA:
    return trustme.CA(organization_name="Muster", key_type=trustme.KeyType.ECDSA)


@cache
def issued(*names: str, common_name: str = "", signed_by_another: bool = False) -> Issued:
    """A certificate for `names`, localhost if there are none."""
    by = trustme.CA(key_type=trustme.KeyType.ECDSA) if signed_by_another else authority()
    made = by.issue_cert(
        *(names or ("localhost", "127.0.0.1")),
        common_name=common_name or None,
        key_type=trustme.KeyType.ECDSA,
    )
    certificates = "".join(each.bytes().decode() for each in made.cert_chain_pems)
    pkcs8 = serialization.load_pem_private_key(made.private_key_pem.bytes(), None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Issued(pkcs8.decode(), certificates)


def authority_pem() -> str:
    return authority().cert_pem.bytes().decode()


def encrypted(key: str, password: str = PASSWORD) -> str:
    """`key` as an encrypted PKCS#8 key."""
    loaded = serialization.load_pem_private_key(key.encode(), None)
    return loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    ).decode()


def der(pem: str) -> bytes:
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(serialization.Encoding.DER)


def self_signed(subject: x509.Name, *alternatives: x509.GeneralName) -> bytes:
    """A certificate in DER for `subject`."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]))
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(LONG_AGO)
        .not_valid_after(LATER)
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@cache
def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert("localhost", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    context.num_tickets = 0
    return context


def client_context(shown: Issued | None = None, folder: Path | None = None) -> ssl.SSLContext:
    """A client that trusts the authority; it shows `shown`, which is written into `folder` for that."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    if shown is not None:
        assert folder is not None
        (folder / "shown.pem").write_text(shown.pem)
        context.load_cert_chain(folder / "shown.pem")
    return context
