"""The properties of a Java client, as far as they are honoured; what is not is refused by its name."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from coordinator.settings.providers import CLASSES
from muster.client_properties import (
    DEFAULT_TIMEOUT_MS,
    ClientPropertiesError,
    client_settings,
    read_client_settings,
)
from muster.client_property_names import OF_NO_MEANING
from muster.connection import Connection
from muster.usage import UsageError

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password="s\\"e=c;";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="al" password="p";'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}


def test_without_properties_all_is_as_by_default() -> None:
    settings = client_settings({})
    assert (settings.bootstrap, settings.timeout_ms) == (None, DEFAULT_TIMEOUT_MS)
    assert settings.client_arguments() == {
        "client_id": "muster",
        "request_timeout_ms": DEFAULT_TIMEOUT_MS,
        "security_protocol": "PLAINTEXT",
    }


def test_what_is_honoured_becomes_an_argument_of_the_client() -> None:
    given = {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "ops",
        "request.timeout.ms": "4000",
        "default.api.timeout.ms": "9000",
        "retry.backoff.ms": "50",
    }
    settings = client_settings(given | SASL)
    assert (settings.bootstrap, settings.timeout_ms) == ("a:1,b:2", 9_000)
    assert settings.client_arguments() == {
        "client_id": "ops",
        "request_timeout_ms": 4_000,
        "retry_backoff_ms": 50,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "al",
        "sasl_plain_password": 's"e=c;',
    }


ENV = {"config.providers": "env", "config.providers.env.class": next(iter(CLASSES))}


def test_a_password_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIN_PASSWORD", "hidden")
    jaas = PLAIN.replace('s\\"e=c;', "${env:ADMIN_PASSWORD}")
    settings = client_settings(SASL | ENV | {"sasl.jaas.config": jaas})
    assert settings.client_arguments()["sasl_plain_password"] == "hidden"
    assert settings.passed_over == ()


def test_a_password_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("password=hidden\n")
    jaas = PLAIN.replace('s\\"e=c;', f"${{file:{tmp_path}/secrets:password}}")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    arguments = client_settings(SASL | providers | {"sasl.jaas.config": jaas}).client_arguments()
    assert arguments["sasl_plain_password"] == "hidden"


def test_a_variable_that_cannot_be_replaced_is_named_in_one_sentence_without_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No user is to have "${env:ADMIN_PASSWORD}" for a password."""
    monkeypatch.delenv("ADMIN_PASSWORD", raising=False)
    jaas = PLAIN.replace("e=c", "${env:ADMIN_PASSWORD}")
    with pytest.raises(ClientPropertiesError) as refused:
        client_settings(SASL | ENV | {"sasl.jaas.config": jaas})
    words = "sasl.jaas.config: the environment has no variable ADMIN_PASSWORD that may be used"
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (
            {"sasl.login.class": "x", "zz": "1"},
            "cannot be honoured here: sasl.login.class, what is no setting",
        ),
        (
            {"config.providers": "file"},
            f"config.providers.file.class must be one of {', '.join(CLASSES)}",
        ),
        ({"config.providers.env.class": next(iter(CLASSES))}, "cannot be honoured here: "),
        ({"ssl.provider": "x", "acks": "all"}, "cannot be honoured here: ssl.provider"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms must be a whole number"),
        ({"request.timeout.ms": "0"}, "request.timeout.ms must be a whole number"),
        ({"security.protocol": "TLS"}, "security.protocol must be one of PLAINTEXT, SSL"),
        ({"ssl.truststore.location": "x"}, "ssl.truststore.location: of no effect unless"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism: of no effect unless security.protocol is SASL_SSL"),
        (SASL | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism must be one of PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism must be one of PLAIN"),
        (SASL | {"sasl.jaas.config": SCRAM}, "sasl.jaas.config must be org.apache"),
        (SASL | {"sasl.jaas.config": PLAIN.replace("username", "user")}, "sasl.jaas.config must be"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "trust.jks"},
            "ssl.truststore.location: trust.jks cannot be read: No such file",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/absent"},
            "ssl.truststore.location cannot be used: No such file",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.certificates": "no PEM"},
            "ssl.truststore.certificates",
        ),
        ({"security.protocol": "SSL", "ssl.key.password": "p"}, "ssl.key.password: there is no"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols may have"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"}, "ssl.endpoint"),
    ],
)
def test_what_is_not_honoured_is_refused_by_name_and_without_its_value(
    properties: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ClientPropertiesError) as refused:
        client_settings(properties)
    assert str(refused.value).startswith(sentence)
    assert 's\\"e=c' not in str(refused.value)


def test_the_file_of_an_application_serves_and_what_it_has_more_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=x\nenable.auto.commit=false\nbootstrap.servers=a:1\n")
    for _ in range(2):
        assert Connection(command_config=file).settings().bootstrap == "a:1"
    said = f"{file}: of no meaning here: enable.auto.commit, group.id\n"
    assert capsys.readouterr().err == said, "once, though `wait` connects again and again"


def test_nothing_that_is_about_security_is_passed_over() -> None:
    assert not [name for name in OF_NO_MEANING if name.startswith(("ssl.", "sasl.", "security."))]
    assert {"acks", "group.id", "key.deserializer", "enable.auto.commit"} <= OF_NO_MEANING


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and its certificate, self-signed, in one PEM file as a keystore of Kafka's has them."""
    folder = tmp_path_factory.mktemp("certificate")
    key, made = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "2"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True)
    both = folder / "keystore.pem"
    both.write_text(key.read_text() + made.read_text())
    return both


def test_stores_in_pem_make_the_context_and_names_are_checked_unless_switched_off(certificate: Path) -> None:
    stores = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
        "ssl.enabled.protocols": "TLSv1.3",
    }
    context = client_settings(stores).arguments["ssl_context"]
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "test"),),)]
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3
    unnamed = client_settings(stores | {"ssl.endpoint.identification.algorithm": ""}).arguments["ssl_context"]
    assert (unnamed.check_hostname, unnamed.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_the_file_is_named_where_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\nssl.provider = all\n")
    with pytest.raises(ClientPropertiesError, match=f"{file}: cannot be honoured here: ssl.provider"):
        read_client_settings(file)
    with pytest.raises(ClientPropertiesError, match="cannot read"):
        read_client_settings(tmp_path / "absent")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"sasl.username=al\nsasl.password=\\\n\nCANARY-hunter2\n", "line 4, which is no setting"),
        (b"\xff\xfe\x00CANARY\n", "line 1, which is no setting"),
        (b"sasl.password=x\nCANARY.hunter2 = x\nsasl.pasword=CANARY\n", "sasl.pasword, line 2, which is no"),
    ],
)
def test_a_password_that_reads_as_a_name_is_not_repeated(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    """One that stands behind a line that goes on, and then on a line of its own."""
    file = tmp_path / "client.properties"
    file.write_bytes(content)
    with pytest.raises(ClientPropertiesError) as refused:
        read_client_settings(file)
    assert str(refused.value).startswith(f"{file}: cannot be honoured here: {sentence}")
    assert "CANARY" not in str(refused.value)


def test_a_timeout_that_is_given_outdoes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=4000\ndefault.api.timeout.ms=9000\n")
    settings = Connection(command_config=file, timeout="2s").settings()
    assert (settings.timeout_ms, settings.client_arguments()["request_timeout_ms"]) == (2_000, 2_000)
    assert Connection(command_config=file).settings().timeout_ms == 9_000
    with pytest.raises(UsageError, match="--timeout soon must be"):
        Connection(timeout="soon").settings()
