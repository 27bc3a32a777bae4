"""Logins by SCRAM on a daemon, by real clients and raw frames: right, wrong, hidden, attacked (S17 to S26, F5)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaTimeoutError

from coordinator.security.scram_credentials import BY_NAME, MECHANISMS
from harness.daemon import MusterDaemon
from harness.processes import HOST, free_port
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.clients.fleet import Fleet
from tests.security.test_scram import Client

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PREFIX = "listener.name.sasl_plaintext"
PASSWORD = "canary, of a=password\u00e9"
NAMES = [each.name for each in MECHANISMS]
TIMEOUT_S = 30


class Secured(MusterDaemon):
    """A daemon with a plain listener for the test, and one where clients log in."""

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder)
        self.sasl_bootstrap = f"{HOST}:{free_port()}"
        self.overrides |= {
            "listeners": f"{self.overrides['listeners']},SASL_PLAINTEXT://{self.sasl_bootstrap}",
            "sasl.enabled.mechanisms": ",".join(NAMES),
            **{f"{PREFIX}.{name.lower()}.sasl.jaas.config": f"{MODULE} required;" for name in NAMES},
            "connection.failed.authentication.delay.ms": "20",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def add(self, name: str, password: str, mechanism: str, salt: bytes = b"a salt of some bytes") -> None:
        """Make a user by a request on the plain listener."""
        found = BY_NAME[mechanism]
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=found.number,
            iterations=4096,
            salt=salt,
            salted_password=found.salted_password(password.encode(), salt, 4096),
        )
        self._alter(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    def remove(self, name: str, mechanism: str) -> None:
        deletion = ScramCredentialDeletion(name=name, mechanism=BY_NAME[mechanism].number)
        self._alter(AlterUserScramCredentialsRequest(deletions=[deletion]))

    def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        client = WireClient(self.bootstrap)
        assert [each.error_code for each in client.ask(request, 0).results] == [0]
        client.socket.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Alice has a password for each mechanism; what the daemon logs has none of them."""
    running = Secured(tmp_path_factory.mktemp("secured"))
    with running:
        for name in NAMES:
            running.add("alice", f"{PASSWORD} {name}", name)
        yield running
        assert running.terminate() == 0
        assert "canary" not in running.log_path.read_text()


def librdkafka(daemon: Secured, mechanism: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": daemon.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


def of_python(daemon: Secured, mechanism: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": daemon.sasl_bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", NAMES)
def test_confluent_kafka_logs_in(daemon: Secured, mechanism: str) -> None:
    right = AdminClient(librdkafka(daemon, mechanism, f"{PASSWORD} {mechanism}"))
    assert right.list_topics(timeout=TIMEOUT_S).brokers
    errors: list[KafkaError] = []
    wrong = AdminClient(librdkafka(daemon, mechanism, PASSWORD) | {"error_cb": errors.append})
    for _ in range(TIMEOUT_S):
        wrong.poll(1)
        if errors:
            break
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert f"invalid credentials with SASL mechanism {mechanism}" in errors[0].str()


@pytest.mark.parametrize("mechanism", NAMES)
def test_kafka_python_logs_in(daemon: Secured, mechanism: str) -> None:
    """Its first handshake is v0, so Kafka too hangs up on a failed login by SCRAM, and it tries again (S5)."""
    right = KafkaAdminClient(**of_python(daemon, mechanism, f"{PASSWORD} {mechanism}"))
    assert right.describe_cluster()
    right.close()
    with pytest.raises(KafkaTimeoutError):
        KafkaAdminClient(**of_python(daemon, mechanism, PASSWORD), bootstrap_timeout_ms=2000)


@pytest.mark.parametrize("mechanism", NAMES)
def test_aiokafka_logs_in(daemon: Secured, mechanism: str) -> None:
    async def topics(password: str) -> list[str]:
        admin = AIOKafkaAdminClient(**of_python(daemon, mechanism, password))
        try:
            await admin.start()
            found: list[str] = await admin.list_topics()
            return found
        finally:
            await admin.close()

    assert isinstance(asyncio.run(topics(f"{PASSWORD} {mechanism}")), list)
    with pytest.raises(KafkaConnectionError):
        asyncio.run(topics(PASSWORD))


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("mechanism", NAMES)
def test_java_logs_in(daemon: Secured, mechanism: str, tmp_path: Path) -> None:
    """By the configuration of a client that a Kafka cluster has."""
    fleet = Fleet(daemon.sasl_bootstrap, tmp_path)
    said = {}
    for what, password in (("right", f"{PASSWORD} {mechanism}"), ("wrong", PASSWORD)):
        file = tmp_path / f"{what}.properties"
        lines = (
            "security.protocol=SASL_PLAINTEXT",
            f"sasl.mechanism={mechanism}",
            f'sasl.jaas.config={MODULE} required username="alice" password="{password}";',
        )
        file.write_text("\n".join(lines), encoding="latin-1")  # As Java reads properties.
        said[what] = fleet.ask_tool("TopicCommand", "--list", "--command-config", str(file))
    fleet.close()
    assert said["right"]["status"] == 0, said["right"]
    assert said["wrong"]["status"] == 1
    assert f"invalid credentials with SASL mechanism {mechanism}" in str(said["wrong"])


def stranger(daemon: Secured, mechanism: str = "SCRAM-SHA-256") -> WireClient:
    """A connection on which the mechanism was named."""
    client = WireClient(daemon.sasl_bootstrap)
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == ErrorCode.NONE
    return client


def sent(client: WireClient, token: bytes) -> SaslAuthenticateResponse:
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer


def log_in(client: WireClient, name: str, password: str, mechanism: str) -> SaslAuthenticateResponse:
    """The last answer of a login."""
    challenge = sent(client, f"n,,n={name},r=abc".encode())
    if challenge.error_code:
        return challenge
    by_hand = Client(BY_NAME[mechanism], password)
    return sent(client, by_hand.final(f"n={name},r=abc".encode(), bytes(challenge.auth_bytes)))


def test_a_user_who_was_made_just_now_logs_in_and_one_who_is_gone_does_not(daemon: Secured) -> None:
    """What was answered counts at once; a session outlives its user (S26)."""
    daemon.add("bob", "pencil", "SCRAM-SHA-512")
    client = stranger(daemon, "SCRAM-SHA-512")
    assert log_in(client, "bob", "pencil", "SCRAM-SHA-512").error_code == ErrorCode.NONE
    daemon.remove("bob", "SCRAM-SHA-512")
    refused = log_in(stranger(daemon, "SCRAM-SHA-512"), "bob", "pencil", "SCRAM-SHA-512")
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.ask(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize(
    "token",
    [
        b"n,,n=" + b"x" * 500_000 + b",r=abc",
        b"n,,n=" + b"=2C" * 166_000 + b",r=abc",
        b"n,,n=alice,r=abc" + b",x=y" * 125_000 + b",",
        b"," * 500_000,
        b"\0" * 100,
        b"c=biws,r=abc,p=" + b64encode(bytes(32)),
        b"n,,n=alice,r=abc,tokenauth=true",
    ],
    ids=["long name", "long escapes", "extensions", "commas", "NULs", "final first", "token"],
)
def test_what_is_no_login_is_refused_and_others_are_served(daemon: Secured, token: bytes) -> None:
    """Kafka never answers names of thousands of characters: its expressions overflow the stack (F5)."""
    client = stranger(daemon)
    answer = sent(client, token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(ConnectionError):
        client.receive_frame()
    mechanism = NAMES[0]
    last = log_in(stranger(daemon), "alice", f"{PASSWORD} {mechanism}", mechanism)
    assert last.error_code == ErrorCode.NONE


@pytest.mark.parametrize("hides", ["true", "false"])
def test_who_is_known_can_be_hidden(tmp_path: Path, hides: str) -> None:
    """Then one who is not known is challenged, always with the same salt, and fails at the end."""
    with Secured(tmp_path, muster_scram_hide_unknown_users=hides) as daemon:
        daemon.add("alice", "pencil", "SCRAM-SHA-256")
        answers = [sent(stranger(daemon), b"n,,n=mallory,r=abc") for _ in range(2)]
        if hides == "false":
            assert {each.error_code for each in answers} == {ErrorCode.SASL_AUTHENTICATION_FAILED}
            return
        salts = {bytes(each.auth_bytes).split(b",")[1] for each in answers}
        assert len(salts) == 1
        for name in ("mallory", "alice"):
            last = log_in(stranger(daemon), name, "wrong", "SCRAM-SHA-256")
            assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert log_in(stranger(daemon), "alice", "pencil", "SCRAM-SHA-256").error_code == ErrorCode.NONE
        daemon.restart()
        again = sent(stranger(daemon), b"n,,n=mallory,r=abc")
        assert bytes(again.auth_bytes).split(b",")[1] in salts, "also after a restart"
