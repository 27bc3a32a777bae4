"""Real clients over several of their sessions: those that log in again stay, the others are cut off.

Each has a user of its own, by whom the daemon's log names those whose session had ended (S27 to S32).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Producer
from kafka import KafkaProducer

from harness.daemon import MusterDaemon
from tests.clients.fleet import Fleet

LISTENER: Final = "EXT"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS: Final = ("java", "librdkafka", "kafka-python", "aiokafka")
PASSWORD: Final = "canary"
LASTS_MS: Final = 3_000
SESSIONS: Final = 5
DURING_S: Final = SESSIONS * LASTS_MS / 1000
PACE_S: Final = 0.05
"""Between two records: a client that does not log in again is sure to send one after the end."""
TIMEOUT_S: Final = 30
LATE: Final = 2
"""How often a client that logs in again may come too late for it, where a busy machine keeps it waiting: it has
a few tenths of a second. One that does not log in again is cut off at the end of every session."""

SETTINGS: Final = {
    "listener.name.ext.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.ext.plain.sasl.jaas.config": f"{MODULE} required "
    + " ".join(f'"user_{user}"="{PASSWORD}"' for user in USERS)
    + ";",
    "listener.name.ext.plain.connections.max.reauth.ms": str(LASTS_MS),
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    folder = tmp_path_factory.mktemp("sessions")
    with MusterDaemon(folder, SETTINGS, listeners={LISTENER: "SASL_PLAINTEXT"}) as daemon:
        yield daemon


def times_cut(daemon: MusterDaemon, user: str) -> int:
    """How often a connection of the user was closed since its session had ended."""
    lines = [line for line in daemon.log_path.read_text().splitlines() if '"session ended"' in line]
    return sum(json.loads(line)["principal"] == f"User:{user}" for line in lines)


def of_python(daemon: MusterDaemon, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": daemon.bootstrap_of(LISTENER),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORD,
    }


@pytest.mark.usefixtures("java")
def test_java_logs_in_again(daemon: MusterDaemon, tmp_path: Path) -> None:
    """While it sends, and while it waits in a Fetch."""
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="java" password="{PASSWORD}";\n'
    )
    fleet, topic = Fleet(daemon.bootstrap_of(LISTENER), tmp_path), "of-java"
    config, count = ("--command-config", str(file)), int(DURING_S / PACE_S)
    consumer = fleet.start_tool(
        "consumer.ConsoleConsumer",
        *("--topic", topic, "--group", "java", "--from-beginning", "--max-messages", str(count)),
        *config,
    )
    producer = fleet.start_tool(
        "VerifiableProducer",
        *("--topic", topic, "--throughput", str(int(1 / PACE_S)), "--max-messages", str(count)),
        *config,
    )
    producer.finish()
    said = [json.loads(line) for line in producer.text.splitlines() if line.startswith("{")]
    (summary,) = [each for each in said if each["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (count, count)
    consumer.finish()
    assert len(consumer.text.splitlines()) == count
    fleet.close()
    assert times_cut(daemon, "java") <= LATE


def test_confluent_kafka_logs_in_again(daemon: MusterDaemon) -> None:
    delivered: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": daemon.bootstrap_of(LISTENER),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "librdkafka",
            "sasl.password": PASSWORD,
        }
    )
    sent, end_s = 0, time.monotonic() + DURING_S
    while time.monotonic() < end_s:
        producer.produce("of-librdkafka", b"x", on_delivery=lambda error, _: delivered.append(error))
        sent += 1
        producer.poll(PACE_S)
    assert producer.flush(TIMEOUT_S) == 0
    assert delivered == [None] * sent
    assert times_cut(daemon, "librdkafka") <= LATE


def test_kafka_python_logs_in_again(daemon: MusterDaemon) -> None:
    """The producer, whose thread sees to it in time."""
    producer = KafkaProducer(**of_python(daemon, "kafka-python"))
    end_s = time.monotonic() + DURING_S
    while time.monotonic() < end_s:
        producer.send("of-kafka-python", b"x").get(TIMEOUT_S)
        time.sleep(PACE_S)
    producer.close()
    assert times_cut(daemon, "kafka-python") <= LATE


def test_aiokafka_is_cut_off_and_comes_again(daemon: MusterDaemon) -> None:
    async def send() -> int:
        failed, sent, end_s = 0, 0, time.monotonic() + DURING_S
        async with AIOKafkaProducer(**of_python(daemon, "aiokafka")) as producer:
            while time.monotonic() < end_s:
                try:
                    await producer.send_and_wait("of-aiokafka", b"x")
                    sent += 1
                except AioKafkaError:
                    failed += 1
                await asyncio.sleep(PACE_S)
            await producer.send_and_wait("of-aiokafka", b"the last one")
        assert failed < sent
        return sent

    assert asyncio.run(send()) >= SESSIONS
    assert times_cut(daemon, "aiokafka") > LATE
