"""Logins by OAUTHBEARER on a daemon, by real clients and raw frames: right, wrong, expired (S33 to S39, L11)."""

from __future__ import annotations

import asyncio
import builtins
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import NodeNotReadyError
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from coordinator.security.sasl.jaas import parse_jaas
from coordinator.security.tokens import keys
from coordinator.security.tokens.key_url import parse_key_url
from coordinator.security.tokens.signed import Expectations, SignedTokens
from coordinator.server.entrances import EntranceError
from coordinator.server.oauthbearer_logins import FILE_EVERY_MS, SignedOauthbearer, make_oauthbearer, new_plan
from coordinator.settings.prefixed import ListenerSettings
from coordinator.settings.sources import SettingsError, load
from coordinator.settings.tokens import SIGNED_HANDLER, UNSECURED_HANDLER
from harness.daemon import MusterDaemon
from harness.processes import HOST, free_port, wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.clients.fleet import Fleet
from tests.security.tokens import KeyServer, key_set, member, rsa_key, signed

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PREFIX = "listener.name.sasl_plaintext.oauthbearer"
JAAS = f"{PREFIX}.sasl.jaas.config"
HANDLER = f"{PREFIX}.sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
TIMEOUT_S = 30


class Secured(MusterDaemon):
    """A daemon with a plain listener, and one where clients show tokens whose keys `url` has."""

    def __init__(self, folder: Path, url: str, **settings: str) -> None:
        super().__init__(folder)
        self.sasl_bootstrap = f"{HOST}:{free_port()}"
        self.overrides |= {
            "listeners": f"{self.overrides['listeners']},SASL_PLAINTEXT://{self.sasl_bootstrap}",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            JAAS: f"{MODULE} required;",
            HANDLER: SIGNED_HANDLER,
            URL: url,
            "sasl.oauthbearer.expected.audience": "brokers,others",
            "sasl.oauthbearer.expected.issuer": "https://issuer",
            "connection.failed.authentication.delay.ms": "20",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }


def token(lasts_s: float = 600, kid: str = "one", **others: Any) -> str:
    """A token of the issuer's that is good for so long from now on."""
    now_s = int(time.time())
    given = {"sub": "alice", "iat": now_s - 1000, "exp": int(now_s + lasts_s), "aud": "brokers"}
    return signed({**given, "iss": "https://issuer", **others}, rsa_key(kid), kid=kid)


TOKENS = {
    "right": lambda: token(),
    "wrong": lambda: signed({"sub": "alice", "iat": 1, "exp": 9_000_000_000}, rsa_key("thief")),
    "expired": lambda: token(-900),
}


@pytest.fixture(scope="module")
def server() -> Iterator[KeyServer]:
    with KeyServer(key_set(member(rsa_key(), kid="one"))) as running:
        yield running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, server: KeyServer) -> Iterator[Secured]:
    """What it logs has no token: each begins with the same letters."""
    running = Secured(tmp_path_factory.mktemp("secured"), server.url)
    with running:
        yield running
        assert running.terminate() == 0
        assert "eyJ" not in running.log_path.read_text()


def stranger(daemon: Secured) -> WireClient:
    """A connection on which the mechanism was named."""
    client = WireClient(daemon.sasl_bootstrap)
    assert client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == ErrorCode.NONE
    return client


def sent(client: WireClient, message: bytes) -> SaslAuthenticateResponse:
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer


def show(client: WireClient, shown: str) -> SaslAuthenticateResponse:
    return sent(client, f"n,,\x01auth=Bearer {shown}\x01\x01".encode())


def is_taken(daemon: Secured, shown: str) -> bool:
    client = stranger(daemon)
    answer = show(client, shown)
    client.socket.close()
    assert answer.error_code == ErrorCode.NONE
    return not answer.auth_bytes


def test_a_token_lets_its_client_in_for_as_long_as_it_lasts(daemon: Secured) -> None:
    """S39: although connections.max.reauth.ms is 0."""
    client = stranger(daemon)
    answer = show(client, token(100))
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
    assert 90_000 < answer.session_lifetime_ms <= 100_000
    assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_a_token_that_is_refused_fails_at_the_clients_farewell(daemon: Secured) -> None:
    for shown in (TOKENS["wrong"](), TOKENS["expired"](), token(aud="strangers"), token(iss="https://thief")):
        client = stranger(daemon)
        answer = show(client, shown)
        assert answer.error_code == ErrorCode.NONE
        assert bytes(answer.auth_bytes) == b'{"status":"invalid_token"}'
        last = sent(client, b"\x01")
        assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert last.error_message == '{"status":"invalid_token"}'
        with pytest.raises(ConnectionError):
            client.receive_frame()


def test_the_session_ends_with_the_token(daemon: Secured) -> None:
    client = stranger(daemon)
    assert show(client, token(6)).session_lifetime_ms > 0

    def is_closed() -> bool:
        try:
            client.ask(MetadataRequest(topics=[]), 12)
        except ConnectionError:
            return True
        return False

    wait_until(is_closed, "the end of the session", TIMEOUT_S)


def test_a_token_in_its_grace_logs_in_and_has_ended(daemon: Secured) -> None:
    client = stranger(daemon)
    answer = show(client, token(-5))
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (ErrorCode.NONE, b"", 0)
    with pytest.raises(ConnectionError):
        client.ask(MetadataRequest(topics=[]), 12)


def test_a_new_key_is_read_when_a_token_names_it(tmp_path: Path) -> None:
    """S38: the token that asks is refused, and no other waits for it; one that comes later is taken."""
    with KeyServer(key_set(member(rsa_key(), kid="one"))) as server, Secured(tmp_path, server.url) as daemon:
        assert server.asked == 1
        server.body = key_set(member(rsa_key(), kid="one"), member(rsa_key("two"), kid="two"))
        assert not is_taken(daemon, token(kid="two"))
        wait_until(lambda: is_taken(daemon, token(kid="two")), "the second key", TIMEOUT_S)
        for number in range(40):
            assert not is_taken(daemon, token(kid=f"none {number % 5}"))
        assert server.asked <= 2 + 5
        assert is_taken(daemon, token())


def test_a_server_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    with KeyServer(key_set(member(rsa_key(), kid="one"))) as server, Secured(tmp_path, server.url) as daemon:
        ending = time.monotonic() + TIMEOUT_S
        hangs = []

        def hang(request: Any) -> None:
            hangs.append(request)
            while time.monotonic() < ending and len(hangs) < 2:
                time.sleep(0.01)

        server.answer = hang
        assert not is_taken(daemon, token(kid="two"))
        wait_until(lambda: bool(hangs), "the question", TIMEOUT_S)
        assert all(is_taken(daemon, token()) for _ in range(20))
        hangs.append(None)


# Real clients.


def librdkafka(daemon: Secured, shown: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": daemon.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (shown, time.time() + 3600),
    }


def test_confluent_kafka_logs_in(daemon: Secured) -> None:
    right = AdminClient(librdkafka(daemon, TOKENS["right"]()))
    right.poll(0.1)
    assert right.list_topics(timeout=TIMEOUT_S).brokers
    for what in ("wrong", "expired"):
        errors: list[KafkaError] = []
        refused = AdminClient(librdkafka(daemon, TOKENS[what]()) | {"error_cb": errors.append})
        for _ in range(TIMEOUT_S):
            refused.poll(1)
            if errors:
                break
        assert errors[0].code() == KafkaError._AUTHENTICATION
        assert "invalid_token" in errors[0].str()


class Provider(AbstractTokenProvider):
    def __init__(self, shown: str) -> None:
        self._shown = shown

    async def token(self) -> str:
        return self._shown


def test_aiokafka_logs_in(daemon: Secured) -> None:
    """It takes the reason of a refusal for a success, and finds no broker in the refusal of what it asks then."""

    async def topics(shown: str) -> list[str]:
        admin = AIOKafkaAdminClient(
            bootstrap_servers=daemon.sasl_bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(shown),
        )
        try:
            await admin.start()
            found: list[str] = await admin.list_topics()
            return found
        finally:
            await admin.close()

    assert isinstance(asyncio.run(topics(TOKENS["right"]())), list)
    for what in ("wrong", "expired"):
        with pytest.raises(NodeNotReadyError):
            asyncio.run(topics(TOKENS[what]()))


class KafkaPythonProvider(KafkaPythonTokenProvider):
    def __init__(self, shown: str) -> None:
        self._shown = shown

    def token(self) -> str:
        return self._shown


def test_kafka_python_logs_in(daemon: Secured) -> None:
    def admin(shown: str, patience_s: int) -> KafkaAdminClient:
        return KafkaAdminClient(
            bootstrap_servers=daemon.sasl_bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=KafkaPythonProvider(shown),
            bootstrap_timeout_ms=patience_s * 1000,
        )

    right = admin(TOKENS["right"](), TIMEOUT_S)
    assert right.describe_cluster()
    right.close()
    for what in ("wrong", "expired"):
        with pytest.raises(KafkaPythonError):
            admin(TOKENS[what](), 2)


@pytest.mark.usefixtures("java")
def test_java_logs_in(daemon: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a token in a file, which Kafka's client reads as if an issuer had answered it."""
    files = {what: tmp_path / f"{what}.jwt" for what in TOKENS}
    for what, file in files.items():
        file.write_text(TOKENS[what]())
    allowed = ",".join(file.as_uri() for file in files.values())
    options = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{each}={allowed}" for each in ("urls", "files"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(options))
    fleet = Fleet(daemon.sasl_bootstrap, tmp_path)
    said = {}
    for what, file in files.items():
        properties = tmp_path / f"{what}.properties"
        properties.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.jaas.config={MODULE} required;\nsasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
            "sasl.login.callback.handler.class="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        )
        said[what] = fleet.ask_tool("TopicCommand", "--list", "--command-config", str(properties))
    fleet.close()
    assert said["right"]["status"] == 0, said["right"]
    for what in ("wrong", "expired"):
        assert said[what]["status"] == 1, said[what]
        assert "invalid_token" in str(said[what])


# What does not fit is no start.

LISTENER = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9093",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    JAAS: f"{MODULE} required;",
}


def problems(**given: str | None) -> list[str]:
    named = LISTENER | {name.replace("__", "."): value for name, value in given.items()}
    with pytest.raises(SettingsError) as error:
        load({name: value for name, value in named.items() if value is not None})
    return list(error.value.problems)


def test_the_settings_of_tokens_arrive(tmp_path: Path) -> None:
    """The general ones, the listener's and the mechanism's; a file is read more often than is asked for."""
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(member(rsa_key(), kid="one")))
    given = {
        HANDLER: SIGNED_HANDLER,
        URL: file.as_uri(),
        "sasl.oauthbearer.expected.issuer": "an issuer",
        f"{PREFIX}.sasl.oauthbearer.expected.audience": "a,b",
        "listener.name.sasl_plaintext.sasl.oauthbearer.sub.claim.name": "email",
        "sasl.oauthbearer.scope.claim.name": "scp",
        "sasl.oauthbearer.clock.skew.seconds": "7",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "777777",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "77",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "7777",
    }
    own = load(LISTENER | given).settings.of_listener("SASL_PLAINTEXT")
    made = make_oauthbearer(parse_jaas(f"{MODULE} required;"), own)
    assert isinstance(made, SignedOauthbearer)
    made.close()
    assert isinstance(made._validator, SignedTokens)
    assert made._validator._expected == Expectations("an issuer", frozenset("ab"), "email", "scp", 7)
    assert made._keys.find("one", "RS256") is not None
    plan = new_plan(parse_key_url("https://issuer.example/"), own)
    assert (plan._refresh_ms, plan._backoff_ms, plan._backoff_max_ms) == (777_777, 77, 7777)
    assert made._keys._plan._refresh_ms == FILE_EVERY_MS


def test_tokens_without_a_signature_are_taken_only_if_they_are_asked_for() -> None:
    (problem,) = problems()
    assert problem == (
        "the listener SASL_PLAINTEXT would take tokens of OAUTHBEARER without a signature, which anybody can "
        f"make: {HANDLER}={SIGNED_HANDLER} verifies them, muster.allow.unsecured.jws=true allows it"
    )
    assert problems(**{HANDLER: UNSECURED_HANDLER}) == [problem]
    allowed = load(LISTENER | {"muster.allow.unsecured.jws": "true"}).settings
    own = allowed.of_listener("SASL_PLAINTEXT")
    made = make_oauthbearer(parse_jaas(f"{MODULE} required;"), own)
    assert not isinstance(made, SignedOauthbearer)
    with pytest.raises(EntranceError, match="AllowableClockSkewMs must be a number"):
        make_oauthbearer(parse_jaas(f'{MODULE} required unsecuredValidatorAllowableClockSkewMs="x";'), own)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {JAAS: None, "muster.allow.unsecured.jws": "true"},
            f"{JAAS} is needed by the listener SASL_PLAINTEXT for OAUTHBEARER, such as: {MODULE} required;",
        ),
        (
            {HANDLER: SIGNED_HANDLER},
            f"{URL} is needed by the listener SASL_PLAINTEXT, for the keys that verify tokens",
        ),
        (
            {HANDLER: SIGNED_HANDLER, URL: "http://issuer.example/keys"},
            f"{URL} of the listener SASL_PLAINTEXT must be https: by http keys may be anybody's, but for this "
            "machine's own",
        ),
        (
            {"sasl.enabled.mechanisms": "GSSAPI,OAUTHBEARER", "muster.allow.unsecured.jws": "true"},
            "sasl.enabled.mechanisms: the listener SASL_PLAINTEXT asks for GSSAPI, and there are PLAIN, "
            "SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(given: dict[str, str | None], problem: str) -> None:
    assert problems(**given) == [problem]


COMMON = "org.apache.kafka.common.security"
CLASSES = {
    "principal.builder.class": f"{COMMON}.authenticator.DefaultKafkaPrincipalBuilder",
    "ssl.engine.factory.class": f"{COMMON}.ssl.DefaultSslEngineFactory",
    "security.providers": "",
    "sasl.server.callback.handler.class": f"{COMMON}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "sasl.oauthbearer.jwt.validator.class": f"{COMMON}.oauthbearer.BrokerJwtValidator",
    "sasl.oauthbearer.jwt.retriever.class": f"{COMMON}.oauthbearer.DefaultJwtRetriever",
    "sasl.login.class": "org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerRefreshingLogin",
    "sasl.login.callback.handler.class": f"{COMMON}.oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.client.callback.handler.class": f"{COMMON}.oauthbearer.OAuthBearerLoginCallbackHandler",
}


@pytest.mark.parametrize("option", CLASSES)
def test_only_kafkas_own_classes_are_taken(option: str) -> None:
    """L11: whatever else decides who gets in cannot be loaded here, and is not to be left out silently."""
    for name in (option, f"listener.name.plaintext.{option}"):
        load({name: CLASSES[option]})
        with pytest.raises(SettingsError) as error:
            load({name: "com.example.Own"})
        assert f"{name}=com.example.Own (flag) must be" in str(error.value)


def test_a_class_of_another_mechanism_is_refused() -> None:
    given = LISTENER | {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{COMMON}.plain.PlainLoginModule required;",
        "listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class": SIGNED_HANDLER,
    }
    with pytest.raises(
        SettingsError, match=r"must be org\.apache\.kafka\.common\.security\.plain\.internals"
    ):
        load(given)


def listener_settings(url: str) -> ListenerSettings:
    return load(LISTENER | {HANDLER: SIGNED_HANDLER, URL: url}).settings.of_listener("SASL_PLAINTEXT")


def test_keys_that_cannot_be_read_at_the_start_are_one_sentence(tmp_path: Path) -> None:
    daemon = Secured(tmp_path, f"file://{tmp_path}/absent.json")
    with pytest.raises(RuntimeError) as failed:
        daemon.start()
    named = f"{URL}=file://{tmp_path}/absent.json"
    sentence = f"the listener SASL_PLAINTEXT has no keys for tokens: {named}: it cannot be read: No such file"
    assert sentence in str(failed.value)
    assert "Traceback" not in daemon.log_path.read_text()


def test_without_the_library_there_is_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    keys._library.cache_clear()
    imported = builtins.__import__

    def without_jwt(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("jwt"):
            raise ImportError(name)
        return imported(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_jwt)
    with pytest.raises(EntranceError) as error:
        make_oauthbearer(parse_jaas(f"{MODULE} required;"), listener_settings("file:///absent"))
    assert str(error.value) == (
        "the listener SASL_PLAINTEXT has no keys for tokens: what verifies them needs "
        "`pip install muster[security]`"
    )
