"""Key stores and trust stores as keytool and openssl make them, and as nothing should (T1 to T13, F6)."""

from __future__ import annotations

import ssl
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.security.tls.ciphers import TLS_1_2, TLS_1_3
from coordinator.security.tls.contexts import make_context
from coordinator.security.tls.jks import MAGIC, read_jks
from coordinator.security.tls.names import names_of
from coordinator.security.tls.options import tls_options
from coordinator.security.tls.pem import certificates_in, key_in
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.stores import KeyStore, read_key_store, read_trust_store
from tests.security.tls import java_stores
from tests.security.tls.certificates import PASSWORD, authority_pem, der, encrypted, issued

OTHER_PASSWORD: Final = "anderes-2"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def context_of(settings: dict[str, str], client_auth: str | None = None) -> ssl.SSLContext:
    return make_context(tls_options(settings.get, client_auth)).context


def pem_settings(folder: Path, **more: str) -> dict[str, str]:
    """A PEM key store, and other settings with underscores for dots."""
    location = str(written(folder / "key.pem", issued().pem))
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": location,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def shakes_hands(server: ssl.SSLContext, trusted: bytes, client: ssl.SSLContext | None = None) -> str | None:
    """The version that a client which trusts `trusted` alone agrees on with the server."""
    client = client or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=trusted)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    done = set()
    for _ in range(8):
        for end in ends:
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                continue
    assert done == set(ends)
    return ends[0].version()


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("said", ["JKS", "PKCS12"])
@pytest.mark.parametrize("algorithm", ["EC", "RSA"])
def test_a_key_store_of_keytool_is_read_whatever_its_type_is_said_to_be(
    java: None, tmp_path: Path, kind: str, said: str, algorithm: str
) -> None:
    """T10: the first bytes decide."""
    path = java_stores.key_store(tmp_path / "store", kind, algorithm=algorithm)
    options = {
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": said,
    }
    store = read_key_store(path, said, PASSWORD, None)
    assert names_of(store.chain[0]).subject == "CN=localhost,O=Muster"
    assert shakes_hands(context_of(options), store.chain[0]) == "TLSv1.3"


def test_a_key_may_have_a_password_of_its_own_in_jks(java: None, tmp_path: Path) -> None:
    """T12."""
    path = java_stores.key_store(tmp_path / "store.jks", "JKS", key_password=OTHER_PASSWORD)
    assert "PRIVATE KEY" in read_key_store(path, "JKS", PASSWORD, OTHER_PASSWORD).key_pem
    with pytest.raises(TlsProblem, match="the password of its key is wrong"):
        read_key_store(path, "JKS", PASSWORD, None)


def test_the_first_key_by_alias_is_taken(java: None, tmp_path: Path) -> None:
    """T13."""
    path = tmp_path / "store.jks"
    java_stores.key_store(path, "JKS", alias="second", algorithm="RSA")
    java_stores.key_store(path, "JKS", alias="first")
    store = read_key_store(path, "JKS", PASSWORD, None)
    assert len(store.entries) == 2
    assert store.chain[0] == store.entries[0]
    assert len(store.chain[0]) < len(store.entries[1]), "the certificate of an EC key is shorter"


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_trust_store_of_keytool_is_read(java: None, tmp_path: Path, kind: str) -> None:
    other = issued(signed_by_another=True).certificate
    path = java_stores.trust_store(tmp_path / "trust", kind, authority_pem(), other)
    found = read_trust_store(path, kind, PASSWORD).certificates
    assert set(found) == {der(authority_pem()), der(other)}


def test_a_jks_trust_store_without_a_password_is_read_unverified(java: None, tmp_path: Path) -> None:
    path = java_stores.trust_store(tmp_path / "trust", "JKS", authority_pem())
    assert read_trust_store(path, "JKS", None).certificates == (der(authority_pem()),)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_wrong_password_and_a_damaged_store_are_one_sentence(java: None, tmp_path: Path, kind: str) -> None:
    path = java_stores.key_store(tmp_path / "store", kind)
    with pytest.raises(TlsProblem, match="password is wrong, or it is damaged"):
        read_key_store(path, kind, OTHER_PASSWORD, None)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TlsProblem, match="password is wrong, or it is damaged") as found:
        read_key_store(path, kind, PASSWORD, None)
    assert PASSWORD not in str(found.value)


def test_a_store_of_openssl_is_full_for_us(tmp_path: Path) -> None:
    """T9: Java finds no anchor in it, for want of an attribute of its own."""
    certificate = written(tmp_path / "ca.pem", authority_pem())
    path = tmp_path / "trust.p12"
    command = ["openssl", "pkcs12", "-export", "-nokeys", "-in", str(certificate), "-out", str(path)]
    subprocess.run([*command, "-passout", f"pass:{PASSWORD}"], check=True, timeout=60)
    assert read_trust_store(path, "PKCS12", PASSWORD).certificates == (der(authority_pem()),)


def test_jceks_is_refused_with_the_line_to_type(java: None, tmp_path: Path) -> None:
    path = java_stores.key_store(tmp_path / "store.jceks", "JCEKS")
    with pytest.raises(TlsProblem, match=r"keytool -importkeystore .* -deststoretype PKCS12"):
        read_key_store(path, "JKS", PASSWORD, None)


@pytest.mark.parametrize(
    "text",
    [
        lambda: issued().pem,
        lambda: issued().certificate + "a comment\n" + issued().key,
        lambda: issued().pem.replace("\n", " "),
        lambda: encrypted(issued().key) + issued().certificate,
    ],
    ids=["as openssl has it", "the other way round", "on one line", "encrypted"],
)
def test_pem_is_taken_as_kafka_takes_it(tmp_path: Path, text: object) -> None:
    """T1; a setting has no lines."""
    assert callable(text)
    path = written(tmp_path / "key.pem", text())
    options = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path),
        "ssl.key.password": PASSWORD,
    }
    assert shakes_hands(context_of(options), der(authority_pem())) == "TLSv1.3"


def test_a_key_and_its_chain_may_stand_in_the_settings(tmp_path: Path) -> None:
    options = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": encrypted(issued().key).replace("\n", " "),
        "ssl.keystore.certificate.chain": issued().certificate.replace("\n", " "),
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority_pem().replace("\n", " "),
    }
    assert shakes_hands(context_of(options), der(authority_pem())) == "TLSv1.3"


@pytest.mark.parametrize("password", ["", OTHER_PASSWORD])
def test_an_encrypted_key_with_a_wrong_password_is_refused_and_asks_for_none(
    tmp_path: Path, password: str
) -> None:
    """OpenSSL would ask on the terminal."""
    path = written(tmp_path / "key.pem", encrypted(issued().key) + issued().certificate)
    options = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path), "ssl.key.password": password}
    with pytest.raises(TlsProblem, match="its password is wrong, or it is damaged"):
        context_of(options)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "key.pem", issued().key + issued("other.example").certificate)
    with pytest.raises(TlsProblem, match="does not belong to its certificate"):
        context_of({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "are needed for TLS"),
        ({"ssl.keystore.password": "x"}, "is given without ssl.keystore.location"),
        ({"ssl.keystore.location": "/x"}, "is given without ssl.keystore.password"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.key is for the type PEM"),
        ({"ssl.keystore.key": "x", "ssl.keystore.type": "PEM"}, "without ssl.keystore.certificate.chain"),
        ({"ssl.keystore.certificate.chain": "x"}, "is given without ssl.keystore.key"),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": "x",
                "ssl.keystore.certificate.chain": "x",
                "ssl.keystore.location": "/x",
            },
            "are both given",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/x", "ssl.keystore.password": "x"},
            "ssl.keystore.password is not for the type PEM",
        ),
        ({"ssl.keystore.type": "BCFKS"}, "ssl.keystore.type must be one of JKS, PKCS12, PEM"),
        ({"ssl.truststore.certificates": "x"}, "ssl.truststore.certificates are for the type PEM"),
        ({"ssl.truststore.password": "x"}, "is given without ssl.truststore.location"),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/x", "ssl.truststore.password": "x"},
            "ssl.truststore.password is not for the type PEM",
        ),
        (
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/x",
                "ssl.truststore.certificates": "x",
            },
            "are both given",
        ),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "'TLSv1.1' is neither"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol must be one of"),
        ({"ssl.cipher.suites": "TLS_NULL"}, "there is no suite 'TLS_NULL'"),
        (
            {
                "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
                "ssl.enabled.protocols": "TLSv1.2",
            },
            "has no suite for what ssl.enabled.protocols enables",
        ),
        ({"ssl.principal.mapping.rules": "RULE:("}, "is no rule"),
        ({"ssl.allow.dn.changes": "maybe"}, "must be true or false"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_its_sentence(
    tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    """T2, T8, T14."""
    about_the_key = any(name.startswith("ssl.keystore") for name in options) or not options
    complete = options if about_the_key else {**pem_settings(tmp_path), **options}
    with pytest.raises(TlsProblem) as found:
        tls_options(complete.get, None)
    assert problem in str(found.value)


@pytest.mark.parametrize("has_memory", [True, False])
def test_a_key_is_handed_over_in_memory_or_in_a_file_for_the_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_memory: bool
) -> None:
    """T11: nothing is left of it."""
    if not has_memory:
        monkeypatch.delattr("os.memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def load_and_look(context: ssl.SSLContext, name: str, password: str | None = None) -> None:
        if not name.startswith("/proc/"):
            modes.extend(stat.S_IMODE(each.stat().st_mode) for each in (Path(name), Path(name).parent))
        load(context, name, password=password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load_and_look)
    context_of(pem_settings(tmp_path))
    assert modes == ([] if has_memory else [0o600, 0o700])
    assert list((tmp_path / "temporary").iterdir()) == []


def test_client_certificates_need_a_trust_store(tmp_path: Path) -> None:
    """T3: the JVM has a list of its own, and that would let in whom any authority names."""
    with pytest.raises(TlsProblem, match=r"ssl.truststore.\* names none"):
        tls_options(pem_settings(tmp_path).get, "required")
    with pytest.raises(TlsProblem, match=r"ssl\.client\.auth must be one of"):
        tls_options(pem_settings(tmp_path).get, "maybe")


@pytest.mark.parametrize(
    ("content", "kind", "problem"),
    [
        (b"", "JKS", "neither a PKCS12 nor a JKS store"),
        (b"-----BEGIN CERTIFICATE-----", "JKS", "its type is given as JKS, and it is PEM"),
        (MAGIC + bytes(40), "PEM", "its type is given as PEM, and it is none"),
        (b"nothing", "PEM", "at least one certificate"),
        (b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----", "PEM", "is no base 64"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            "PEM",
            "a certificate cannot be read",
        ),
        (b"\x30\x03\x02\x01\x01", "PKCS12", "its password is wrong, or it is damaged"),
    ],
)
def test_a_file_that_is_no_store_is_one_sentence_that_names_it(
    tmp_path: Path, content: bytes, kind: str, problem: str
) -> None:
    path = tmp_path / "store"
    path.write_bytes(content)
    for read in (lambda: read_key_store(path, kind, "x", None), lambda: read_trust_store(path, kind, "x")):
        with pytest.raises(TlsProblem) as found:
            read()
        assert problem in str(found.value)
        assert str(path) in str(found.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TlsProblem, match="No such file"):
        read_key_store(tmp_path / "none", "JKS", "x", None)
    with pytest.raises(TlsProblem, match="it is no file"):
        read_trust_store(tmp_path, "JKS", "x")


def test_two_keys_are_refused() -> None:
    with pytest.raises(TlsProblem, match="one private key is needed, and 2 found"):
        key_in(issued().key * 2)


def test_nothing_secret_is_in_the_text_of_a_store() -> None:
    shown = repr(KeyStore("CANARY", (), (), "CANARY"))
    assert "CANARY" not in shown


def test_without_the_extra_pem_and_jks_are_read_and_pkcs12_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert context_of(pem_settings(tmp_path))
    path = tmp_path / "store.p12"
    path.write_bytes(b"\x30\x00")
    with pytest.raises(TlsProblem, match=r"pip install muster\[security\]"):
        read_key_store(path, "PKCS12", "x", None)


# Versions and suites.


@pytest.mark.parametrize(
    ("enabled", "suites", "expected"),
    [
        ("TLSv1.2", "", "TLSv1.2"),
        ("TLSv1.3", "", "TLSv1.3"),
        ("TLSv1.3,TLSv1.2", "", "TLSv1.3"),
        ("", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLSv1.2"),
        ("", "TLS_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLSv1.3"),
        ("", "TLS_AES_256_GCM_SHA384", "TLSv1.3"),
    ],
)
def test_versions_and_suites_are_kept(tmp_path: Path, enabled: str, suites: str, expected: str) -> None:
    """T14: no suite of a version, no such version."""
    options = pem_settings(tmp_path, ssl_enabled_protocols=enabled, ssl_cipher_suites=suites)
    assert shakes_hands(context_of(options), der(authority_pem())) == expected


def test_only_the_suites_that_are_listed_are_offered(tmp_path: Path) -> None:
    chosen = "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"
    context = context_of(pem_settings(tmp_path, ssl_cipher_suites=chosen))
    older = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert older == [TLS_1_2[chosen]]
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2


def test_every_suite_is_one_of_openssls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    known = {each["name"] for each in context.get_ciphers()}
    assert set(TLS_1_2.values()) <= known
    assert len(TLS_1_2) + len(TLS_1_3) >= 40


def test_renegotiation_and_session_tickets_are_off(tmp_path: Path) -> None:
    """T15; a ticket would pause each new connection (T23)."""
    context = context_of(pem_settings(tmp_path))
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.num_tickets == 0


# Whatever the bytes.

MADE_BY_HAND: Final = MAGIC + bytes.fromhex("00000002 00000001 00000002 0001 61 0000000000000000 0005")


@given(st.binary(max_size=300))
@example(b"")
@example(MADE_BY_HAND + b"X.509" + bytes.fromhex("ffffffff") + bytes(20))
@example(MADE_BY_HAND + b"X.509" + bytes.fromhex("7fffffff") + bytes(20))
@example(MAGIC + bytes.fromhex("00000002 7fffffff") + bytes(20))
@settings(max_examples=1000, deadline=None)
def test_any_bytes_are_a_jks_store_or_one_problem(data: bytes) -> None:
    for each in (data, MAGIC + data, MADE_BY_HAND + data):
        try:
            read_jks(each, None, "x")
        except TlsProblem:
            continue


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_store_with_another_byte_is_no_other_store(data: st.DataObject) -> None:
    """The digest over all of it and the password sees it, wherever it is."""
    store = bytearray(a_jks_store())
    position = data.draw(st.integers(0, len(store) - 1))
    store[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(TlsProblem, match="password is wrong, or it is damaged"):
        read_jks(bytes(store), PASSWORD, None)


def a_jks_store() -> bytes:
    """A store with one certificate, without keytool."""
    import hashlib

    certificate = der(authority_pem())
    body = MADE_BY_HAND + b"X.509" + len(certificate).to_bytes(4, "big") + certificate
    secret = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    return body + hashlib.sha1(secret + body).digest()


def test_a_store_by_hand_is_a_store() -> None:
    assert read_jks(a_jks_store(), PASSWORD, None).certificates == (("a", der(authority_pem())),)


@given(st.text(alphabet="-BEGINCRTFAKYP \n:=abc+/\xe9", max_size=200))
@example("\xe9")
@settings(max_examples=500, deadline=None)
def test_any_text_is_pem_or_one_problem(text: str) -> None:
    for each in (text, f"-----BEGIN CERTIFICATE-----{text}-----END CERTIFICATE-----"):
        try:
            certificates_in(each)
            key_in(each)
        except TlsProblem:
            continue
