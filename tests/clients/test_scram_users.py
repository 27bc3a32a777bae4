"""SCRAM users by Kafka's own kafka-configs, the same calls on Kafka and here; and by Python's clients (S43)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import ScramMechanism as ConfluentMechanism
from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism
from kafka.admin import UserScramCredentialDeletion as Deletion
from kafka.admin import UserScramCredentialUpsertion as Upsertion

from harness.kafka_broker import KafkaBroker
from harness.observer import unique
from harness.processes import ServerProcess, wait_until
from harness.recording_daemon import RecordingDaemon
from tests.clients.fleet import Fleet

CONFIGS = "kafka.admin.ConfigCommand"
TIMEOUT_S = 30

ALICE = ("--entity-type", "users", "--entity-name", "alice")
BOB = ("--entity-type", "users", "--entity-name", "bob")
CALLS: tuple[tuple[str, ...], ...] = (
    ("--describe", "--entity-type", "users"),
    ("--describe", *ALICE),
    ("--alter", *ALICE, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=alice-secret]"),
    ("--describe", *ALICE),
    ("--alter", *ALICE, "--add-config", "SCRAM-SHA-512=[password=alice-secret]"),
    ("--describe", *ALICE),
    ("--alter", *BOB, "--add-config", "SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=x]"),
    ("--alter", *BOB, "--add-config", "SCRAM-SHA-256=[iterations=100,password=x]"),
    ("--alter", *BOB, "--add-config", "SCRAM-SHA-256=[iterations=20000,password=x]"),
    ("--alter", *BOB, "--add-config", "SCRAM-SHA-256=[password=]"),
    ("--alter", *BOB, "--add-config", "SCRAM-SHA-1=[password=x]"),
    ("--alter", *BOB, "--delete-config", "SCRAM-SHA-256"),
    ("--alter", "--entity-type", "users", "--entity-default", "--add-config", "SCRAM-SHA-256=[password=x]"),
    ("--alter", *ALICE, "--add-config", "SCRAM-SHA-256=[password=x],producer_byte_rate=100"),
    ("--describe", *BOB),
    ("--alter", *ALICE, "--delete-config", "SCRAM-SHA-256"),
    ("--describe", *ALICE),
    ("--alter", *ALICE, "--delete-config", "SCRAM-SHA-512"),
    ("--describe", *ALICE),
)


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with RecordingDaemon(tmp_path_factory.mktemp("muster")) as daemon:
        yield daemon


class Tool:
    """kafka-configs on one broker."""

    def __init__(self, broker: ServerProcess, folder: Path) -> None:
        self._broker = broker
        self._fleet = Fleet(broker.bootstrap, folder)

    def __enter__(self) -> Tool:
        return self

    def __exit__(self, *_: object) -> None:
        self._fleet.close()

    def said(self, call: tuple[str, ...]) -> tuple[int, str]:
        """The status and the output of a call, without the broker's address and without stacks.

        The mechanisms of a user come out of a hash map in Kafka, in another order each time.
        """
        found = self._fleet.ask_tool(CONFIGS, *call)
        text = (found["text"] + found["error"]).replace(self._broker.bootstrap, "BROKER")
        text = re.sub(r"SCRAM-SHA-\d+=iter.*", lambda infos: ", ".join(sorted(infos[0].split(", "))), text)
        lines = (line for line in text.splitlines() if not re.match(r"\s+(at |\.\.\. \d+ more)|SLF4J", line))
        return found["status"], "\n".join(lines)

    def says(self, call: tuple[str, ...], wanted: tuple[int, str]) -> None:
        """Wait until the tool says so: Kafka's brokers learn of a change after it was answered."""
        seen: list[tuple[int, str]] = []

        def is_said() -> bool:
            seen.append(self.said(call))
            return seen[-1] == wanted

        try:
            wait_until(is_said, " ".join(call), TIMEOUT_S if call[0] == "--describe" else 0)
        except TimeoutError:
            assert seen[-1] == wanted, call


@pytest.mark.usefixtures("java")
def test_kafka_configs_says_the_same(muster: ServerProcess, tmp_path: Path) -> None:
    """Users are made, shown, given another mechanism and removed; what is refused is refused in Kafka's words."""
    with Tool(muster, tmp_path) as tool:
        ours = [tool.said(call) for call in CALLS]
    assert "configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192" in ours[3][1]
    assert {status for status, _ in ours} == {0, 1}
    with KafkaBroker(tmp_path / "kafka") as kafka, Tool(kafka, tmp_path) as tool:
        for call, wanted in zip(CALLS, ours, strict=True):
            tool.says(call, wanted)


def test_users_by_confluent_kafka(muster: ServerProcess) -> None:
    admin, user = AdminClient({"bootstrap.servers": muster.bootstrap}), unique("user")
    info = ScramCredentialInfo(ConfluentMechanism.SCRAM_SHA_512, 10_000)
    (made,) = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(user, info, b"secret")]
    ).values()
    made.result(TIMEOUT_S)
    described = admin.describe_user_scram_credentials([user])
    assert isinstance(described, dict)
    (shown,) = described[user].result(TIMEOUT_S).scram_credential_infos
    assert (shown.mechanism, shown.iterations) == (ConfluentMechanism.SCRAM_SHA_512, 10_000)
    gone = UserScramCredentialDeletion(user, ConfluentMechanism.SCRAM_SHA_512)
    for is_there in (True, False):
        (removed,) = admin.alter_user_scram_credentials([gone]).values()
        if is_there:
            removed.result(TIMEOUT_S)
        else:
            with pytest.raises(KafkaException) as raised:
                removed.result(TIMEOUT_S)
            assert raised.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def test_users_by_kafka_python(muster: ServerProcess) -> None:
    admin, user = KafkaAdminClient(bootstrap_servers=muster.bootstrap), unique("user")
    try:
        admin.alter_user_scram_credentials([Upsertion(user, ScramMechanism.SCRAM_SHA_256, "secret")])
        assert user in str(admin.describe_user_scram_credentials([user]))
        admin.alter_user_scram_credentials([Deletion(user, ScramMechanism.SCRAM_SHA_256)])
    finally:
        admin.close()
