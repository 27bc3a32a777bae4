"""TLS as attackers speak it, at a daemon's sockets (F8). Others are served meanwhile, and nothing grows."""

from __future__ import annotations

import datetime
import selectors
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from harness.daemon import MusterDaemon
from tests.security.tls.certificates import LATER, LONG_AGO, authority, authority_pem, client_context
from tests.security.tls.test_tls_daemon import ALERT, TlsWire, connected, is_closed, started

STORM: Final = 300
KEY_UPDATES: Final = 200
SERVED_WITHIN_S: Final = 10.0
"""Whoever waited for an attacker would wait until its time for a handshake is over, 30 seconds."""
GROWTH_MAX_BYTES: Final = 8_000_000
PLAINTEXTS: Final = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"\0\0\0\x0c\0\x12\0\x03\0\0\0\x07\xff\xff\0\0",  # ApiVersions.
    b"\xff" * 9000,
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with started(tmp_path_factory.mktemp("attacked")) as running:
        yield running


@pytest.fixture
def others(daemon: MusterDaemon) -> Iterator[Callable[[], None]]:
    """Asserts that one that was connected before is served, and one that comes now."""
    with TlsWire(daemon, "TLS") as before:
        assert before.is_served()

        def are_served() -> None:
            began_s = time.monotonic()
            assert before.is_served()
            with TlsWire(daemon, "TLS") as now:
                assert now.is_served()
            assert time.monotonic() - began_s < SERVED_WITHIN_S

        yield are_served
        are_served()


def resident_bytes(daemon: MusterDaemon) -> int:
    return int(Path(f"/proc/{daemon.pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1], ids=["1.0", "1.1"])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_an_old_version_is_met_by_an_alert(
    daemon: MusterDaemon, version: ssl.TLSVersion, others: Callable[[], None]
) -> None:
    context = client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        connected(daemon, "TLS", context)


def test_ssl_2_and_3_are_refused(daemon: MusterDaemon, others: Callable[[], None]) -> None:
    """Hellos that no library of today sends: of SSL 3, and in the form of SSL 2 with a version of SSL 2."""
    body = b"\x03\x00" + bytes(32) + b"\x00" + b"\x00\x04\x00\x2f\x00\x35" + b"\x01\x00"
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    ssl3 = b"\x16\x03\x00" + len(message).to_bytes(2, "big") + message
    ssl2 = b"\x80\x1f\x01\x00\x02\x00\x06\x00\x00\x00\x10" + bytes(22)
    for hello in (ssl3, ssl2):
        host, port = daemon.bootstrap_of("TLS").rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(hello)
            answer = client.recv(100)
            assert answer[0] == ALERT
            assert is_closed(client)


class OpensslClient:
    """`openssl s_client`, to which commands are given: R asks to renegotiate, K for an update of both keys."""

    def __init__(self, daemon: MusterDaemon, folder: Path, *options: str) -> None:
        trusted = folder / "trusted.pem"
        trusted.write_text(authority_pem())
        command = [
            "openssl",
            "s_client",
            "-connect",
            daemon.bootstrap_of("TLS"),
            "-CAfile",
            str(trusted),
            *options,
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
        )
        self.said = b""
        assert self.wait_for(b"Verify return code: 0 (ok)")

    def command(self, letter: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(letter.encode() + b"\n")

    def wait_for(self, text: bytes, count: int = 1) -> bool:
        """Whether it has said `text` so often, before it ended."""
        assert self._process.stdout is not None
        until_s = time.monotonic() + 30
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while self.said.count(text) < count:
                assert time.monotonic() < until_s, self.said[-2000:]
                if selector.select(1):
                    read = self._process.stdout.read(65536)
                    if not read:
                        return False
                    self.said += read
        return True

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait(10)


def test_renegotiation_is_refused(daemon: MusterDaemon, tmp_path: Path, others: Callable[[], None]) -> None:
    """T15: over and over in TLS 1.2; the client gives up at the first refusal."""
    for _ in range(5):
        client = OpensslClient(daemon, tmp_path, "-tls1_2")
        client.command("R")
        assert client.wait_for(b"RENEGOTIATING")
        assert client.wait_for(b"no renegotiation") or b"error" in client.said.lower()
        client.close()


def test_a_flood_of_key_updates_costs_nothing(
    daemon: MusterDaemon, tmp_path: Path, others: Callable[[], None]
) -> None:
    """Each is answered with one, and nothing else happens: the connection and the others go on."""
    client = OpensslClient(daemon, tmp_path, "-tls1_3")
    before = resident_bytes(daemon)
    for number in range(KEY_UPDATES):
        client.command("K")
        assert client.wait_for(b"KEYUPDATE", number + 1)
    others()
    client.close()
    assert resident_bytes(daemon) - before < GROWTH_MAX_BYTES


# Certificates of clients.


@cache
def chain(length: int) -> tuple[str, str]:
    """A key with its certificate and `length` authorities below each other, as PEM; and the first authority's."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {n}")]) for n in range(length + 1)
    ]
    names.append(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")]))
    made = []
    for number, name in enumerate(names):
        is_last = number == len(names) - 1
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[max(0, number - 1)])
            .public_key(keys[is_last].public_key())
            .serial_number(number + 1)
            .not_valid_before(LONG_AGO)
            .not_valid_after(LATER)
            .add_extension(x509.BasicConstraints(ca=not is_last, path_length=None), critical=True)
        )
        made.append(builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode())
    key = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key.decode() + "".join(reversed(made[1:])), made[0]


def showing(pem: str, folder: Path) -> ssl.SSLContext:
    context = client_context()
    (folder / "shown.pem").write_text(pem)
    context.load_cert_chain(folder / "shown.pem")
    return context


@pytest.mark.parametrize(("length", "is_taken"), [(20, True), (100, True), (400, False)])
def test_a_long_chain_is_taken_or_met_by_an_alert_and_holds_up_nobody(
    tmp_path: Path, length: int, is_taken: bool
) -> None:
    """100 authorities below each other are what OpenSSL follows; 400 are more than it takes of a client at all."""
    pem, first = chain(length)
    trusted = tmp_path / "first.pem"
    trusted.write_text(first)
    with started(tmp_path, ssl_truststore_location=str(trusted)) as daemon:
        began_s = time.monotonic()
        if is_taken:
            with TlsWire(daemon, "MUTUAL", showing(pem, tmp_path)) as client:
                assert client.is_served()
        else:
            context = showing(pem, tmp_path)
            with (
                pytest.raises((ssl.SSLError, ConnectionError)),
                connected(daemon, "MUTUAL", context) as client,
            ):
                client.recv(1)
        assert time.monotonic() - began_s < SERVED_WITHIN_S
        with TlsWire(daemon, "TLS") as other:
            assert other.is_served()


def for_servers_only() -> trustme.LeafCert:
    """A certificate of the authority that is not for clients, by its extended key usage."""
    return _extended(ExtendedKeyUsageOID.SERVER_AUTH)


def _extended(usage: x509.ObjectIdentifier) -> trustme.LeafCert:
    """trustme gives all uses; so it is signed here, by its authority's own key."""
    by = authority()
    signer: Any = serialization.load_pem_private_key(by.private_key_pem.bytes(), None)
    issuer = x509.load_pem_x509_certificate(by.cert_pem.bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(LONG_AGO)
        .not_valid_after(LATER)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return trustme.LeafCert(private, certificate.public_bytes(serialization.Encoding.PEM), [])


def expired() -> trustme.LeafCert:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    key = trustme.KeyType.ECDSA
    return authority().issue_cert("x", common_name="alice", key_type=key, not_before=past, not_after=past)


def not_valid_yet() -> trustme.LeafCert:
    key = trustme.KeyType.ECDSA
    return authority().issue_cert("x", common_name="alice", key_type=key, not_before=LATER, not_after=LATER)


@pytest.mark.parametrize("make", [expired, not_valid_yet, for_servers_only])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_certificate_that_is_not_good_is_met_by_an_alert(
    daemon: MusterDaemon,
    make: Callable[[], trustme.LeafCert],
    version: ssl.TLSVersion,
    others: Callable[[], None],
) -> None:
    """T7: by its time and its use. One made for clients in the same way is taken."""
    context = client_context()
    context.minimum_version = context.maximum_version = version
    make().configure_cert(context)
    with pytest.raises(ssl.SSLError, match="ALERT"), connected(daemon, "MUTUAL", context) as client:
        client.recv(1)
    good = client_context()
    _extended(ExtendedKeyUsageOID.CLIENT_AUTH).configure_cert(good)
    with TlsWire(daemon, "MUTUAL", good) as served:
        assert served.is_served()


# Storms.


def test_a_storm_of_plaintext_is_a_storm_of_alerts(daemon: MusterDaemon, others: Callable[[], None]) -> None:
    """T16: each is answered by seven bytes and closed. Later storms take the memory that the first have left."""
    host, port = daemon.bootstrap_of("TLS").rsplit(":", 1)
    resident = []
    for _ in range(4):
        clients = [socket.create_connection((host, int(port)), timeout=30) for _ in range(STORM)]
        for number, client in enumerate(clients):
            with suppress(ConnectionError):
                client.sendall(PLAINTEXTS[number % len(PLAINTEXTS)])
        others()
        for client in clients:
            answer = client.recv(100)
            assert (answer[0], len(answer)) == (ALERT, 7)
            assert is_closed(client)
            client.close()
        resident.append(resident_bytes(daemon))
    assert resident[3] - resident[1] < GROWTH_MAX_BYTES / 2, resident


def test_there_is_no_early_data_and_nothing_to_resume(daemon: MusterDaemon) -> None:
    """No ticket is given, so no request can be sent again with an old one, ahead of a handshake."""
    with TlsWire(daemon, "TLS") as client:
        assert client.is_served()
        tls = client.socket
        assert isinstance(tls, ssl.SSLSocket)
        assert tls.version() == "TLSv1.3"
        assert tls.session is None or not tls.session.has_ticket
        session = tls.session
    if session is not None:
        host, port = daemon.bootstrap_of("TLS").rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), timeout=30)
        with client_context().wrap_socket(plain, server_hostname="localhost") as again:
            assert not again.session_reused


def test_bytes_behind_a_close_notify_are_not_requests(daemon: MusterDaemon) -> None:
    """F9: what comes encrypted behind the client's goodbye is dropped, and the connection closed."""
    with connected(daemon, "TLS") as client:
        plain = client.unwrap()
        with suppress(OSError):
            plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        assert is_closed(plain)
        plain.close()
