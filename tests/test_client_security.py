"""What a file says of security is said to each client in its own names, and reads as the same again."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from harness import java_tools
from harness.secured import PASSWORD, USER, Certificates, jaas_text
from muster.client_security import ClientPropertiesError, ClientSecurity, client_security

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
JAAS = {"sasl.jaas.config": jaas_text({"username": USER, "password": PASSWORD})}
NAMED = {"sasl.username": USER, "sasl.password": PASSWORD}
TLS = {"security.protocol": "SSL"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_a_login_reads_the_same_in_either_clients_names() -> None:
    login = client_security(SASL | JAAS).login
    librdkafka = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN", **NAMED}
    assert client_security(librdkafka) == client_security(SASL | JAAS)
    assert login is not None
    assert (login.username, login.password) == (USER, PASSWORD)


MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        f"{MODULE} required username=admin password=adminpw;",
        f"{MODULE} required username='admin' password='adminpw';",
        f'{MODULE} REQUIRED username="admin" password="adminpw" serviceName="kafka";',
        f'{MODULE} required password="\\141dminpw" username = "admin" ;',
        f'{MODULE}\n required // of the tools\n username="admin"\n password="adminpw";',
    ],
)
def test_a_login_in_jaas_is_read_as_kafka_reads_it(text: str) -> None:
    """Words, either quotes, any case of the flag, further options, octal escapes, comments."""
    login = client_security(SASL | {"sasl.jaas.config": text}).login
    assert login is not None
    assert (login.username, login.password) == ("admin", "adminpw")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f'{MODULE} required username="al" password="hunter2"', 'password="..."; but does not end in a'),
        (f"{MODULE} username=al password=hunter2;", 'password="..."; but has no control flag'),
        (f"{MODULE} required username=al password=hunter2; x required;", "more than one login module"),
        (f"{SCRAM_MODULE} required username=al password=hunter2;", f"must be {MODULE}"),
        ("", "names no login module"),
    ],
)
def test_what_is_no_login_in_jaas_is_refused_without_its_text(text: str, sentence: str) -> None:
    with pytest.raises(ClientPropertiesError, match=r"^sasl\.jaas\.config must be ") as refused:
        client_security(SASL | {"sasl.jaas.config": text})
    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_delegation_token_is_not_taken_for_a_password() -> None:
    jaas = f'{SCRAM_MODULE} required username="id" password="hunter2" tokenauth="true";'
    with pytest.raises(ClientPropertiesError, match="a delegation token") as refused:
        client_security({**SASL, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas})
    assert "hunter2" not in str(refused.value)


def forms(certificates: Certificates) -> list[dict[str, str]]:
    own, trusted = certificates.client, certificates.authority
    key, separator, chain = own.read_text().partition("-----BEGIN CERTIFICATE-----")
    inline = {"ssl.key.pem": key, "ssl.certificate.pem": separator + chain}
    java = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted)}
    store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own)}
    return [
        SASL | JAAS,
        {**SASL, "security.protocol": "SASL_SSL", **JAAS, "ssl.endpoint.identification.algorithm": ""},
        TLS | java | store,
        TLS | {"ssl.ca.pem": trusted.read_text(), **inline},
        TLS | {"ssl.ca.location": str(trusted), "ssl.endpoint.identification.algorithm": "none"},
    ]


@pytest.mark.parametrize("number", range(5))
def test_what_a_client_is_given_reads_as_what_was_read(certificates: Certificates, number: int) -> None:
    given = client_security(forms(certificates)[number])
    for said in (given.for_java(), given.for_librdkafka()):
        again = client_security(said)
        assert (again.protocol, again.login, again.checks_host) == (
            given.protocol,
            given.login,
            given.checks_host,
        )
        assert _texts(again) == _texts(given)


def _texts(security: ClientSecurity) -> list[str]:
    """The certificates and the key, wherever they stand: Java has a key and its chain in one file, or as texts."""
    own = security.own
    pems = [security.trusted] + ([own.chain, own.key] if own else [])
    return [pem.read() for pem in pems if pem is not None]


def test_certificates_that_are_given_as_texts_are_shown_and_trusted(certificates: Certificates) -> None:
    """A handshake in memory, in which each side shows its certificate and asks for the other's."""
    client = client_security(forms(certificates)[3]).for_aiokafka()["ssl_context"]
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.authority))
    server.load_cert_chain(certificates.server)
    server.verify_mode = ssl.CERT_REQUIRED
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
                seen = end
            except ssl.SSLWantReadError:
                assert to_client.pending or to_server.pending
    assert seen.getpeercert()["subject"][-1][0][1] == "client"


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_stores_that_keytool_made_read_as_the_same_certificates_in_pem(
    java: None, certificates: Certificates, tmp_path: Path, kind: str
) -> None:
    """The trusted certificate, and a key with its chain, which OpenSSL takes after that."""
    trusted, own = tmp_path / "trusted", tmp_path / "own"
    given = ["-keystore", trusted, "-storetype", kind, "-storepass", "opens-it", "-noprompt", "-alias", "ca"]
    keytool("-importcert", "-file", certificates.authority, *given)
    made = ["-alias", "me", "-dname", "CN=me", "-keyalg", "EC", "-storetype", kind, "-storepass", "opens-it"]
    keytool("-genkeypair", "-keystore", own, *made, *(["-keypass", "opens-it"] if kind == "JKS" else []))
    stores = {"ssl.truststore.location": str(trusted), "ssl.truststore.password": "opens-it"}
    stores |= {"ssl.keystore.location": str(own), "ssl.keystore.password": "opens-it"}
    security = client_security(TLS | stores)
    assert security.trusted is not None
    der = [ssl.PEM_cert_to_DER_cert(text) for text in (security.trusted.read(), pem_of(certificates))]
    assert der[0] == der[1]
    assert security.for_aiokafka()["ssl_context"].get_ca_certs()
    assert set(security.for_librdkafka()) >= {"ssl.ca.pem", "ssl.key.pem", "ssl.certificate.pem"}
    assert "opens-it" not in repr(security)
    wrong = TLS | stores | {"ssl.truststore.password": "wrong-one"}
    with pytest.raises(
        ClientPropertiesError, match=f"ssl.truststore.location: {trusted} cannot be read"
    ) as said:
        client_security(wrong)
    assert "wrong-one" not in str(said.value)


def keytool(*arguments: object) -> None:
    program = Path(java_tools.java()).with_name("keytool")
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True)


def pem_of(certificates: Certificates) -> str:
    return certificates.authority.read_text()


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (SASL | JAAS | NAMED, "sasl.jaas.config and sasl.username say the same"),
        (SASL | JAAS | {"sasl.mechanisms": "PLAIN"}, "sasl.mechanism and sasl.mechanisms say the same"),
        (SASL | {"sasl.username": "a"}, "sasl.password is missing"),
        (SASL | {"sasl.password": PASSWORD}, "sasl.username is missing"),
        ({"sasl.password": PASSWORD}, "sasl.password: of no effect unless"),
        ({**SASL, **JAAS, "ssl.ca.location": "x"}, "ssl.ca.location: of no effect unless"),
        (TLS | {"ssl.ca.pem": ""}, "ssl.ca.pem has no certificate in PEM"),
        (TLS | {"ssl.ca.location": "/absent"}, "ssl.ca.location cannot be used: No such file"),
        (TLS | {"ssl.ca.location": "x", "ssl.ca.pem": "x"}, "ssl.ca.location and ssl.ca.pem say the same"),
        (TLS | {"ssl.key.location": "x"}, "ssl.key.location: a key needs its certificate"),
        (TLS | {"ssl.certificate.pem": "x"}, "ssl.certificate.pem: a key needs its certificate"),
        (TLS | {"ssl.key.pem": "x", "ssl.certificate.pem": "x"}, "ssl.key.pem cannot be used"),
        (TLS | {"ssl.keystore.location": "x"}, "ssl.keystore.location: x cannot be read"),
        (TLS | {"ssl.keystore.location": "x", "ssl.keystore.type": "BKS"}, "ssl.keystore.type must be PEM"),
        (TLS | {"ssl.truststore.password": PASSWORD}, "ssl.truststore.password: there is no store"),
        (TLS | {"ssl.key.password": "x"}, "ssl.key.password: there is no key"),
    ],
)
def test_what_says_two_things_or_half_of_one_is_refused(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(ClientPropertiesError) as refused:
        client_security(properties).for_aiokafka()
    assert str(refused.value).startswith(sentence)
    assert PASSWORD not in str(refused.value)


def test_what_a_client_cannot_be_told_is_refused_for_that_client() -> None:
    newest = client_security(TLS | {"ssl.enabled.protocols": "TLSv1.3"})
    assert newest.for_java()["ssl.enabled.protocols"] == "TLSv1.3"
    with pytest.raises(ClientPropertiesError, match="librdkafka cannot be told"):
        newest.for_librdkafka()
    broken = client_security(SASL | {"sasl.username": "al", "sasl.password": "a\nb"})
    with pytest.raises(ClientPropertiesError, match="no control characters"):
        broken.for_java()


def test_passwords_and_keys_are_not_shown(certificates: Certificates) -> None:
    shown = [repr(client_security(form)) for form in forms(certificates)]
    assert not [text for text in shown if PASSWORD in text or "PRIVATE KEY" in text or "secret" in text]
