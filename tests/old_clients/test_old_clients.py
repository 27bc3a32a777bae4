"""Clients of long ago: what works for them with Apache Kafka 4.3.1 works here, and what it refuses is refused.

Each walks a broker of both kinds, step by step, and reports what came of each step: the two reports are equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.kafka_broker import KafkaBroker
from harness.observer import Observer
from harness.processes import ServerProcess
from harness.recording_daemon import RecordingDaemon
from tests.old_clients import artifacts

pytestmark = [pytest.mark.xdist_group("old clients"), pytest.mark.timeout(300)]

SETTINGS = {"group.initial.rebalance.delay.ms": "200", "auto.create.topics.enable": "false"}
WALK_TIMEOUT_S = 240
STEPS_MIN = 12
ERROR = re.compile(r"_?[A-Z]+(_[A-Z]+)+|\w+(Error|Exception)|OffsetMetadataTooLarge")
USUAL_REFUSALS = {"produce too much", "commit too long a note", "session out of range"}
TOO_OLD = {"positions", "commit", "subscribe and poll", "commit as a member", "share with a second member"}
"""What Kafka 4 has taken from clients of before 2.1 (KIP-896), whose ListOffsets and OffsetCommit have gone."""

CLIENTS = [
    *(f"kafka-clients {version}" for version in artifacts.KAFKA_CLIENTS),
    *(f"librdkafka {version}" for version in artifacts.LIBRDKAFKA),
    *(f"kafka-python {version}" for version in artifacts.KAFKA_PYTHON),
]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, java: None) -> Iterator[list[ServerProcess]]:
    """Apache Kafka, and Muster, with the same settings."""
    with (
        KafkaBroker(tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka,
        RecordingDaemon(tmp_path_factory.mktemp("muster"), SETTINGS) as muster,
    ):
        yield [kafka, muster]


@pytest.mark.parametrize("client", CLIENTS)
def test_an_old_client_finds_no_difference(client: str, brokers: list[ServerProcess]) -> None:
    command, environment = walk_of(client)
    topic = re.sub(r"\W", "-", client)
    running = []
    for broker in brokers:
        if client.startswith("librdkafka"):
            Observer(broker.bootstrap).create_named_topic(topic, 2)
        running.append(
            subprocess.Popen(
                [*command, broker.bootstrap, topic, f"{topic}-group"],
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    theirs, ours = (report_of(process) for process in running)
    assert ours == theirs
    refused = {step for step, outcome in theirs.items() if ERROR.fullmatch(outcome)}
    is_too_old = client == "librdkafka 0.11.6"
    assert refused == USUAL_REFUSALS | (TOO_OLD if is_too_old else set()), theirs
    assert len(theirs) >= STEPS_MIN


def walk_of(client: str) -> tuple[list[str], dict[str, str]]:
    """The command that walks this client, and what its environment needs."""
    family, version = client.split()
    if family == "kafka-clients":
        return artifacts.old_walk(version), {}
    walks = f"tests.old_clients.{family.replace('-', '_')}_walk"
    if family == "librdkafka":
        library = artifacts.librdkafka(version)
        # What it was built with lies beside it, and says so nowhere.
        return [sys.executable, "-m", walks, str(library)], {"LD_LIBRARY_PATH": str(library.parent)}
    return [sys.executable, "-m", walks, str(artifacts.kafka_python(version))], {}


def report_of(process: subprocess.Popen[str]) -> dict[str, str]:
    """What came of each step of a walk that has ended well."""
    try:
        printed, errors = process.communicate(timeout=WALK_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        printed, errors = process.communicate()
    assert process.returncode == 0, f"{printed}\n{errors}"
    return dict(line.split("\t", 1) for line in printed.splitlines())


def test_the_walks_are_of_the_versions_that_they_name() -> None:
    """A library that is installed here would do as well as the old one: the old one reports its version."""
    for client in CLIENTS:
        if client.startswith("kafka-clients"):
            continue
        command, environment = walk_of(client)
        ran = subprocess.run(
            [*command, "127.0.0.1:1", "topic", "group", "--version"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert ran.stdout == f"version\t{client.split()[1]}\n"
