"""Logins by PLAIN with real clients: the right password, and how each library takes the refusal of a wrong one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaTimeoutError, SaslAuthenticationFailedError

from coordinator.security.sasl.mechanisms import MECHANISMS
from harness.daemon import MusterDaemon
from tests.clients.fleet import Fleet

LISTENER = "EXT"
RIGHT, WRONG = "canary, with a=comma", "canary-guess"
MODULE = MECHANISMS["PLAIN"]
SETTINGS = {
    "listener.name.ext.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.ext.plain.sasl.jaas.config": f'{MODULE} required user_alice="${{env:ALICE}}";',
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
TEXT = "Authentication failed: Invalid username or password"
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a daemon whose log has neither the password nor a wrong one at the end."""
    daemon = MusterDaemon(
        tmp_path_factory.mktemp("plain"),
        SETTINGS,
        environment={"ALICE": RIGHT},
        listeners={LISTENER: "SASL_PLAINTEXT"},
    )
    with daemon:
        yield daemon.bootstrap_of(LISTENER)
        assert daemon.terminate() == 0
        assert "canary" not in daemon.log_path.read_text()


def test_confluent_kafka_logs_in(bootstrap: str) -> None:
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
    }
    right = AdminClient(config | {"sasl.password": RIGHT})
    assert right.list_topics(timeout=TIMEOUT_S).brokers
    errors: list[KafkaError] = []
    wrong = AdminClient(config | {"sasl.password": WRONG, "error_cb": errors.append})
    for _ in range(TIMEOUT_S):
        wrong.poll(1)
        if errors:
            break
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert TEXT in errors[0].str()


def of_python(bootstrap: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


def test_kafka_python_logs_in(bootstrap: str) -> None:
    right = KafkaAdminClient(**of_python(bootstrap, RIGHT))
    assert right.describe_cluster()
    right.close()
    with pytest.raises((KafkaTimeoutError, SaslAuthenticationFailedError)):
        KafkaAdminClient(**of_python(bootstrap, WRONG), bootstrap_timeout_ms=2000)


def test_aiokafka_logs_in(bootstrap: str) -> None:
    async def topics(password: str) -> list[str]:
        admin = AIOKafkaAdminClient(**of_python(bootstrap, password))
        try:
            await admin.start()
            found: list[str] = await admin.list_topics()
            return found
        finally:
            await admin.close()

    assert isinstance(asyncio.run(topics(RIGHT)), list)
    with pytest.raises(KafkaConnectionError):
        asyncio.run(topics(WRONG))


@pytest.mark.usefixtures("java")
def test_java_logs_in(bootstrap: str, tmp_path: Path) -> None:
    fleet = Fleet(bootstrap, tmp_path)
    said = {}
    for what, password in (("right", RIGHT), ("wrong", WRONG)):
        file = tmp_path / f"{what}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={MODULE} required username="alice" password="{password}";\n'
        )
        said[what] = fleet.ask_tool("TopicCommand", "--list", "--command-config", str(file))
    fleet.close()
    assert said["right"]["status"] == 0, said["right"]
    assert said["wrong"]["status"] == 1
    assert TEXT in str(said["wrong"])
