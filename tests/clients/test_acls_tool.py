"""kafka-acls, unchanged, against Kafka and against a daemon, both with an authorizer: it prints the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from coordinator.settings.permissions import STANDARD_AUTHORIZER
from harness.kafka_broker import KafkaBroker
from harness.processes import ServerProcess
from harness.recording_daemon import RecordingDaemon
from tests.clients.conftest import SETTINGS
from tests.clients.fleet import Fleet

TOOL = "AclCommand"
SECURED = {
    **SETTINGS,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
IN_FORCE_S = 60.0

ADD, LIST, REMOVE = "--add", "--list", "--remove"
ALICE, BOB = ("--allow-principal", "User:alice"), ("--deny-principal", "User:bob")
FORCED = "--force"

COMMANDS: tuple[tuple[str, ...], ...] = (
    (LIST,),
    (ADD, *ALICE, "--operation", "Read", "--operation", "Write", "--topic", "orders"),
    (ADD, *ALICE, *BOB, "--allow-host", "10.0.0.7", "--deny-host", "10.0.0.8", "--topic", "orders"),
    (ADD, *ALICE, "--producer", "--topic", "made"),
    (ADD, *ALICE, "--producer", "--idempotent", "--topic", "made", "--transactional-id", "writer"),
    (ADD, *ALICE, "--consumer", "--topic", "read", "--group", "readers"),
    (ADD, *ALICE, "--consumer", "--producer", "--topic", "*", "--group", "*"),
    (ADD, *ALICE, "--topic", "orders-", "--resource-pattern-type", "prefixed", "--operation", "All"),
    (ADD, *ALICE, "--cluster", "--operation", "Alter", "--operation", "DescribeConfigs"),
    (ADD, *ALICE, "--user-principal", "User:bob", "--operation", "CreateTokens"),
    (ADD, *ALICE, "--delegation-token", "token", "--operation", "Describe"),
    (ADD, *ALICE, "--group", "readers", "--operation", "Write"),  # Not valid for groups: the tool says so.
    (LIST,),
    (LIST, "--topic", "orders"),
    (LIST, "--topic", "orders-1", "--resource-pattern-type", "match"),
    (LIST, "--topic", "orders-", "--resource-pattern-type", "prefixed"),
    (LIST, "--topic", "orders", "--resource-pattern-type", "any"),
    (LIST, "--principal", "User:bob"),
    (LIST, "--principal", "User:alice", "--principal", "User:bob", "--group", "readers"),
    (LIST, "--cluster"),
    (REMOVE, FORCED, *ALICE, "--operation", "Read", "--topic", "orders"),
    (REMOVE, FORCED, "--topic", "orders-1", "--resource-pattern-type", "match"),
    (LIST, "--topic", "orders"),
    (REMOVE, FORCED, *ALICE, "--consumer", "--topic", "read", "--group", "readers"),
    (REMOVE, FORCED, "--topic", "nothing"),
    (REMOVE, FORCED, "--group", "*", "--transactional-id", "writer", "--cluster"),
    (LIST,),
)
"""Command lines, each after what those before it have changed."""


@pytest.fixture
def servers(java: None, tmp_path: Path) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with (
        KafkaBroker(tmp_path / "kafka", SECURED) as kafka,
        RecordingDaemon(tmp_path / "muster", SECURED) as muster,
    ):
        yield kafka, muster


Printed = tuple[int, list[str], list[str]]


def printed(fleet: Fleet, command: tuple[str, ...]) -> Printed:
    """Status, and the lines of both streams, which come in no order: ACLs are in hash maps, on either side.

    A change prints what there is then, too, which on Kafka may not show the change yet: that is left out.
    """
    said = fleet.ask_tool(TOOL, *command)
    text = said["text"].splitlines()
    if LIST not in command:
        text = list(takewhile(lambda line: not line.startswith("Current ACLs"), text))
    lines = sorted(line.strip() for line in text)  # All but the first of a list have a blank before them.
    return said["status"], lines, sorted(said["error"].splitlines())


def listed_by_kafka(fleet: Fleet, command: tuple[str, ...], wanted: Printed) -> Printed:
    """As `printed`, again if need be: Kafka answers before a change has reached its broker."""
    deadline = time.monotonic() + IN_FORCE_S
    while (found := printed(fleet, command)) != wanted and time.monotonic() < deadline:
        pass
    return found


def test_the_tool_prints_the_same(servers: tuple[ServerProcess, ServerProcess], tmp_path: Path) -> None:
    kafka, muster = (Fleet(server.bootstrap, tmp_path) for server in servers)
    lines: list[str] = []
    try:
        for command in COMMANDS:
            listing = command if LIST in command else (LIST,)
            if listing != command:
                assert printed(muster, command) == printed(kafka, command), command
            ours = printed(muster, listing)
            assert ours == listed_by_kafka(kafka, listing, ours), command
            status, text, _ = ours
            assert status == 0
            lines += text
    finally:
        for fleet in (kafka, muster):
            fleet.close()
    assert sum("(principal=User:alice" in line for line in lines) > 40, "something is compared"
