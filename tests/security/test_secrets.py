"""A canary in every secret setting, in passwords and tokens: looked for in all that the daemon says (F11, F12).

Which settings are secret is read from the settings themselves, so one that is new joins by itself; `formed` has
values for those that need a certain form. There is no `--print-settings`: DescribeConfigs and HTTP show settings.
"""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from scramp import ScramClient

from coordinator.http import site
from coordinator.security.sasl.mechanisms import MECHANISMS
from coordinator.settings.secrets import HIDDEN
from coordinator.settings.sources import SettingsError, load
from coordinator.topics.broker_options import SECRET
from harness.daemon import ROOT, MusterDaemon
from harness.http_client import get
from harness.processes import HOST, free_port
from harness.wire import WireClient
from protocol.framing import encode_request
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.security.scram_requests import add_scram_user
from tests.security.tls.certificates import authority_pem, encrypted, issued
from tests.security.tokens import claims, unsecured
from tests.server.test_listeners_at_run_time import Running

LISTENERS: Final = {"STORE": "SSL", "TEXT": "SSL", "LOGIN": "SASL_PLAINTEXT"}


def canary(name: str) -> str:
    """What is looked for of the secret called so: no two are alike, and each may be a token of HTTP."""
    return "Canary-" + re.sub(r"[^a-z]", "-", name) + "-2026"


def forms(secret: str) -> list[str]:
    """The ways in which a secret might be shown."""
    data = secret.encode()
    encoded = [b64encode(data).decode().rstrip("="), urlsafe_b64encode(data).decode().rstrip("="), data.hex()]
    return [secret, quote(secret, safe=""), repr(secret)[1:-1], *encoded]


# Settings that are only read.


@pytest.mark.parametrize("prefix", ["", "listener.name.ext.", "listener.name.ext.plain."])
@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_in_no_text_of_the_settings(name: str, prefix: str) -> None:
    """Of those that are good, of a refusal for another reason, and of one for the secret's own."""
    secret = canary(name)
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,EXT://127.0.0.1:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.ext.plain.sasl.jaas.config": f'{MECHANISMS["PLAIN"]} required user_a="{secret}";',
    }
    for value in (secret, f"{secret}\x00\n", f"${{env:{secret}}}", f"${{file:/{secret}:x}}"):
        for others in ({}, {"group.max.size": "many"}, {"config.providers": "env,file"}):
            with suppress(SettingsError):
                assert secret not in repr(load(listeners | {prefix + name: value} | others))
            with pytest.raises(SettingsError) as refused:
                load(
                    listeners
                    | {prefix + name: value, "no.such.setting.at.all.of.muster": "x", "group.max.size": "x"}
                )
            assert secret not in str(refused.value)


def test_what_is_shown_for_a_secret_is_kafkas_word() -> None:
    assert HIDDEN == "[hidden]"


# A daemon with all of them.


def store(path: Path, password: str, *, has_key: bool) -> Path:
    """A PKCS12 store with a key, or with a certificate alone."""
    own = issued()
    certificate = x509.load_pem_x509_certificate(own.certificate.encode())
    key: Any = serialization.load_pem_private_key(own.key.encode(), None) if has_key else None
    authority = x509.load_pem_x509_certificate(authority_pem().encode())
    protection = BestAvailableEncryption(password.encode())
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"x", key, certificate if has_key else None, None if has_key else [authority], protection
        )
    )
    return path


def jaas(mechanism: str, **options: str) -> str:
    return f"{MECHANISMS[mechanism]} required " + " ".join(f'{n}="{v}"' for n, v in options.items()) + ";"


KEY_TEXT: Final = encrypted(issued().key, canary("ssl.key.password"))
PASSWORDS: Final = {
    "of alice": canary("of.alice"),
    "of the broker": canary("of.the.broker"),
    "guessed": canary("guessed"),
    "of scram": canary("of.scram"),
    "changed": canary("changed"),
    "shown over http": canary("shown.over.http"),
    "in a torn request": canary("in.a.torn.request"),
    "of a token": canary("of.a.token"),
}


def formed(folder: Path) -> dict[str, str]:
    """Settings whose values must be of a certain form, secret or not."""
    store_, text, login = (f"listener.name.{name.lower()}." for name in LISTENERS)
    passwords = {"user_alice": PASSWORDS["of alice"], "username": "b", "password": PASSWORDS["of the broker"]}
    return {
        f"{store_}ssl.keystore.type": "PKCS12",
        f"{store_}ssl.keystore.location": str(
            store(folder / "k.p12", canary("ssl.keystore.password"), has_key=True)
        ),
        f"{store_}ssl.keystore.password": canary("ssl.keystore.password"),
        f"{store_}ssl.truststore.type": "PKCS12",
        f"{store_}ssl.truststore.location": str(
            store(folder / "t.p12", canary("ssl.truststore.password"), has_key=False)
        ),
        f"{store_}ssl.truststore.password": canary("ssl.truststore.password"),
        f"{text}ssl.keystore.type": "PEM",
        f"{text}ssl.keystore.key": KEY_TEXT,
        f"{text}ssl.keystore.certificate.chain": issued().certificate,
        f"{text}ssl.key.password": canary("ssl.key.password"),
        f"{text}ssl.truststore.type": "PEM",
        f"{text}ssl.truststore.certificates": authority_pem(),
        f"{login}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{login}plain.sasl.jaas.config": jaas("PLAIN", **passwords),
        f"{login}scram-sha-256.sasl.jaas.config": jaas("SCRAM-SHA-256", password=PASSWORDS["of the broker"]),
        f"{login}oauthbearer.sasl.jaas.config": jaas("OAUTHBEARER", secret=PASSWORDS["of the broker"]),
        "muster.allow.unsecured.jws": "true",
        "muster.log.level": "debug",
        "connection.failed.authentication.delay.ms": "0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def all_settings(folder: Path) -> dict[str, str]:
    given = formed(folder)
    for name in SECRET:
        if not any(each.endswith(name) for each in given):
            given[name] = canary(name)
    return given


def secrets() -> dict[str, str]:
    """All that must not be shown, by what it is."""
    of_settings = {name: canary(name) for name in SECRET}
    of_settings["ssl.keystore.key"] = KEY_TEXT.splitlines()[2]
    of_settings["ssl.keystore.certificate.chain"] = issued().certificate.splitlines()[2]
    of_settings["ssl.truststore.certificates"] = authority_pem().splitlines()[2]
    return of_settings | PASSWORDS


class Canaries(Running):
    """The daemon, and what it has said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.http_port = free_port()
        MusterDaemon.__init__(
            self,
            folder / "data",
            all_settings(folder) | {"muster.http.listeners": f"http://{HOST}:{self.http_port}"},
            listeners=LISTENERS,
        )

    def log_in(self, mechanism: str, *tokens: bytes) -> bool:
        """Log in with these tokens; what is answered is kept."""
        with WireClient(self.bootstrap_of("LOGIN")) as client:
            answer = client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
            for token in tokens:
                answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
                self.said.append(repr(answer))
            return bool(answer.error_code == 0)

    def log_in_by_scram(self, password: str) -> bool:
        client = ScramClient(["SCRAM-SHA-256"], "alice", password)
        with WireClient(self.bootstrap_of("LOGIN")) as wire:
            wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            answer = wire.ask(SaslAuthenticateRequest(auth_bytes=client.get_client_first().encode()), 2)
            client.set_server_first(bytes(answer.auth_bytes).decode())
            answer = wire.ask(SaslAuthenticateRequest(auth_bytes=client.get_client_final().encode()), 2)
        self.said.append(repr(answer))
        return bool(answer.error_code == 0)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    with Canaries(tmp_path_factory.mktemp("canaries")) as running:
        yield running


def test_no_secret_is_shown_whatever_is_done_with_it(daemon: Canaries) -> None:
    """Logins, changes and requests, good and bad; what shows settings; the log; what is on the disk."""
    add_scram_user(daemon.bootstrap, "alice", PASSWORDS["of scram"])
    _log_in_well_and_badly(daemon)
    _change(daemon)
    _send_what_is_torn(daemon)
    daemon.said.append(_described(daemon))
    daemon.said += _pages(daemon)
    log_dir = daemon.log_dir
    assert daemon.terminate() == 0
    for command in (("inspect", str(log_dir)), ("export", str(log_dir)), ("verify", str(log_dir))):
        ran = subprocess.run(
            [sys.executable, "-m", "muster", "log", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        daemon.said += [ran.stdout, ran.stderr]
    text = daemon.log_path.read_text()
    assert '"level": "debug"' in text or "login failed" in text
    daemon.said.append(text)
    # On the disk are secrets that were set at run time, in a file of its owner alone, and no password of a user.
    said = "\n".join(daemon.said)
    shown = {what for what, secret in secrets().items() for form in forms(secret) if form in said}
    assert shown == set()
    kept = b"\n".join(
        each.read_bytes()
        for each in log_dir.rglob("*")
        if each.is_file() and each.name != "dynamic-settings.json"
    )
    stored = {what for what, secret in secrets().items() for form in forms(secret) if form.encode() in kept}
    assert stored == set()


def _log_in_well_and_badly(daemon: Canaries) -> None:
    token = unsecured(claims(iat=None, exp=4_000_000_000, note=PASSWORDS["of a token"])).encode()
    bad = unsecured(claims(exp=5, note=PASSWORDS["of a token"])).encode()
    assert daemon.log_in("PLAIN", b"\0alice\0" + PASSWORDS["of alice"].encode())
    assert not daemon.log_in("PLAIN", b"\0alice\0" + PASSWORDS["guessed"].encode())
    assert not daemon.log_in("PLAIN", b"\0" + PASSWORDS["guessed"].encode() + b"\0x")
    assert not daemon.log_in("PLAIN", PASSWORDS["guessed"].encode())
    assert daemon.log_in_by_scram(PASSWORDS["of scram"])
    assert not daemon.log_in_by_scram(PASSWORDS["guessed"])
    assert not daemon.log_in("SCRAM-SHA-256", b"n,,n=" + PASSWORDS["guessed"].encode() + b",r=x")
    assert daemon.log_in("OAUTHBEARER", b"n,,\x01auth=Bearer " + token + b"\x01\x01")
    assert not daemon.log_in("OAUTHBEARER", b"n,,\x01auth=Bearer " + bad + b"\x01\x01", b"\x01")
    assert not daemon.log_in("OAUTHBEARER", b"n,,\x01auth=Basic " + token + b"\x01\x01")


def _change(daemon: Canaries) -> None:
    """Changes of secrets at run time: Kafka logs the text of one that it refuses."""
    users = jaas("PLAIN", user_alice=PASSWORDS["changed"])
    for name, value in (
        ("listener.name.login.plain.sasl.jaas.config", users),
        ("listener.name.login.plain.sasl.jaas.config", users[:-1]),
        ("sasl.jaas.config", users),
        *((name, PASSWORDS["changed"]) for name in SECRET),
        *((f"listener.name.store.{name}", PASSWORDS["changed"]) for name in SECRET),
        *((f"listener.name.text.{name}", PASSWORDS["changed"]) for name in SECRET),
        *((f"listener.name.none.{name}", PASSWORDS["changed"]) for name in SECRET),
    ):
        for scope in ("1", ""):
            for is_trial in (True, False):
                daemon.said.append(repr(daemon.change((name, value), scope=scope, validate_only=is_trial)))
    upsertion = ScramCredentialUpsertion(
        name="x", mechanism=1, iterations=1, salt=b"salt", salted_password=PASSWORDS["changed"].encode()
    )
    with WireClient(daemon.bootstrap) as client:
        daemon.said.append(repr(client.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)))


def _send_what_is_torn(daemon: Canaries) -> None:
    """Requests with secrets in them that cannot be read to their end."""
    secret = PASSWORDS["in a torn request"].encode()
    upsertion = ScramCredentialUpsertion(
        name="x", mechanism=1, iterations=4096, salt=secret, salted_password=secret
    )
    alter = encode_request(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0, 7, "t")
    login = encode_request(SaslAuthenticateRequest(auth_bytes=b"\0a\0" + secret), 2, 7, "t")
    for listener, whole in (("PLAINTEXT", alter), ("PLAINTEXT", login), ("LOGIN", alter), ("LOGIN", login)):
        for cut in (1, 3):
            with WireClient(daemon.bootstrap_of(listener)) as client, suppress(ConnectionError):
                body = whole[4:-cut]
                client.socket.sendall(len(body).to_bytes(4, "big") + body)
                daemon.said.append(repr(client.receive_frame()))


def _described(daemon: Canaries) -> str:
    resources = [
        DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=None)
        for name in ("1", "")
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    with WireClient(daemon.bootstrap) as client:
        answer = client.ask(request, 4)
    shown = {each.name: each for result in answer.results for each in result.configs}
    for name in SECRET:
        assert shown[name].value is None, name
        assert shown[name].is_sensitive, name
    return repr(answer)


def _pages(daemon: Canaries) -> list[str]:
    """Every path that the site has, with the token, and with a wrong one."""
    paths = set(re.findall(r'"(/[^"]*)"', Path(site.__file__).read_text()))
    assert len(paths) > 8
    right, wrong = canary("muster.http.token"), PASSWORDS["shown over http"]
    said = []
    for token in (right, wrong):
        for path in sorted(paths - {"/api/v1/events"}):  # It does not end.
            answer = get(daemon.http_port, path, {"Authorization": f"Bearer {token}"}, id="g")
            assert answer.status != 401 or token == wrong, path
            said.append(f"{answer.headers} {answer.body.decode()}")
    return said
