"""Quotas by Kafka's kafka-configs, unchanged, on this daemon and on a Kafka: it prints the same (Q17)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kafka_broker import KafkaBroker
from harness.recording_daemon import RecordingDaemon
from tests.clients.fleet import Event, Fleet

CONFIGS = "kafka.admin.ConfigCommand"

pytestmark = pytest.mark.usefixtures("java")

USER, CLIENT = ("--entity-type", "users", "--entity-name"), ("--entity-type", "clients", "--entity-name")
ANY_USER, ANY_CLIENT = (*USER[:2], "--entity-default"), (*CLIENT[:2], "--entity-default")
IP = ("--entity-type", "ips", "--entity-name")
ANY_IP = (*IP[:2], "--entity-default")
RATES = "producer_byte_rate=1048576,consumer_byte_rate=2097152,request_percentage=150.5"
ADD, DELETE = ("--alter", "--add-config"), ("--alter", "--delete-config")

CALLS: tuple[tuple[str, ...], ...] = (
    ("--describe", *USER[:2]),
    (*ADD, RATES, *USER, "alice"),
    (*ADD, "producer_byte_rate=1000", *USER, "alice", *CLIENT, "app"),
    (*ADD, "producer_byte_rate=1001", *USER, "alice", *ANY_CLIENT),
    (*ADD, "controller_mutation_rate=2.5", *ANY_USER),
    (*ADD, "consumer_byte_rate=1002", *ANY_USER, *ANY_CLIENT),
    (*ADD, "consumer_byte_rate=1003", *CLIENT, "app"),
    (*ADD, "request_percentage=77", *ANY_CLIENT),
    (*ADD, "connection_creation_rate=12", *IP, "10.1.2.3"),
    (*ADD, "connection_creation_rate=100", *ANY_IP),
    ("--describe", *USER, "alice"),
    ("--describe", *USER, "alice", *CLIENT, "app"),
    ("--describe", *USER, "alice", *CLIENT[:2]),
    ("--describe", *USER[:2], *CLIENT[:2]),
    ("--describe", *ANY_USER),
    ("--describe", *ANY_USER, *ANY_CLIENT),
    ("--describe", *USER[:2]),
    ("--describe", *CLIENT, "app"),
    ("--describe", *CLIENT[:2]),
    ("--describe", *IP, "10.1.2.3"),
    ("--describe", *IP[:2]),
    ("--describe", *USER, "nobody"),
    (*ADD, "producer_byte_rate=0", *USER, "alice"),
    (*ADD, "producer_byte_rate=-5", *USER, "alice"),
    (*ADD, "producer_byte_rate=1.5", *USER, "alice"),
    (*ADD, "nonsense=1", *USER, "alice"),
    (*ADD, "producer_byte_rate=1", *IP, "10.1.2.3"),
    (*ADD, "connection_creation_rate=1", *IP, "no.such.host.invalid"),
    (*DELETE, "controller_mutation_rate", *USER, "alice"),
    (*DELETE, "request_percentage,producer_byte_rate", *USER, "alice"),
    ("--describe", *USER, "alice"),
    (*DELETE, "producer_byte_rate", *USER, "alice", *CLIENT, "app"),
    (*DELETE, "connection_creation_rate", *IP, "10.1.2.3"),
    (*DELETE, "connection_creation_rate", *ANY_IP),
    ("--describe", *IP[:2]),
)
"""Everything that the tool does with quotas, in this order."""
REFUSED = 7
"""How many of them it refuses, or is refused."""


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Fleet, Fleet]]:
    """The tool on a Kafka and on the daemon."""
    with KafkaBroker(tmp_path / "kafka") as kafka, RecordingDaemon(tmp_path / "muster") as muster:
        fleets = []
        for server, name in ((kafka, "on-kafka"), (muster, "on-muster")):
            (tmp_path / name).mkdir()
            fleets.append(Fleet(server.bootstrap, tmp_path / name))
        try:
            yield fleets[0], fleets[1]
        finally:
            for fleet in fleets:
                fleet.close()


def test_kafka_configs_prints_of_quotas_what_it_prints_on_kafka(both: tuple[Fleet, Fleet]) -> None:
    kafka, muster = both
    theirs = [_said(kafka, call) for call in CALLS]
    assert [_said(muster, call) for call in CALLS] == theirs
    lines = [line for _, answer, _ in theirs for line in answer]
    assert "Quota configs for user-principal 'alice', client-id 'app' are producer_byte_rate=1000.0" in lines
    assert sum(status for status, _, _ in theirs) == REFUSED


def _said(fleet: Fleet, call: tuple[str, ...]) -> tuple[int, list[str], str]:
    """The status, the lines of the answer and the settings in each, which have no order, and the error."""
    said: Event = fleet.ask_tool(CONFIGS, *call)
    lines = sorted(_sorted_settings(line) for line in str(said["text"]).splitlines() if line)
    return int(said["status"]), lines, _first_line(str(said["error"]))


def _sorted_settings(line: str) -> str:
    head, are, settings = line.partition(" are ")
    return head + are + ", ".join(sorted(settings.split(", ")))


def _first_line(error: str) -> str:
    """What went wrong; what follows are the places in the tool's code."""
    causes = re.findall(r"(?:Caused by: |^)(\S*Exception: .*)", error, re.MULTILINE)
    return causes[-1] if causes else error.strip()
