"""kafka-consumer-groups, unchanged, says the same of a group of the new protocol on Muster and on Kafka."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from harness.gateway import BROKER_ID, GATEWAY_ID, Gateway
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer
from harness.processes import ServerProcess
from tests.clients.conftest import QUICK
from tests.clients.fleet import Fleet
from tests.clients.groups import Group

TOOL: Final = "consumer.group.ConsumerGroupCommand"
PARTITIONS: Final = 6
RECORDS: Final = 4
NEW: Final = {"protocol": "consumer", "assignor": "range"}
ID: Final = re.compile(r"[\w/+-]{22}|(?:[\w-]+-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Of a member: drawn by it, or by the broker behind its name."""
OF_ANOTHER: Final = re.compile(
    r"\b(Stable|Empty|Dead|Assigning|Reconciling|\w+ing\w*Rebalance|Classic|Consumer)\b"
)
"""In a list: the row of another test's group."""
EVERY: Final = ("--group", "GROUP")
OF_TOPIC: Final = (*EVERY, "--topic", "TOPIC")
EARLIEST: Final = ("--reset-offsets", *OF_TOPIC, "--to-earliest")

WITH_MEMBERS: Final = (
    ("--describe", *EVERY),
    ("--describe", *EVERY, "--verbose"),
    ("--describe", *EVERY, "--members"),
    ("--describe", *EVERY, "--members", "--verbose"),
    ("--describe", *EVERY, "--state"),
    ("--describe", *EVERY, "--state", "--verbose"),
    ("--list", "--state"),
    ("--list", "--state", "stable"),
    ("--list", "--state", "Empty,Dead"),
    ("--list", "--type"),
    ("--list", "--type", "consumer"),
    ("--list", "--type", "Classic"),
    ("--list", "--type", "--state"),
    ("--validate-regex", "order.*"),
    ("--validate-regex", "order("),
    (*EARLIEST, "--dry-run"),
    (*EARLIEST, "--execute"),
    ("--delete-offsets", *OF_TOPIC),
    ("--delete", *EVERY),
)
WITHOUT: Final = (
    ("--describe", *EVERY),
    ("--describe", *EVERY, "--members", "--verbose"),
    ("--describe", *EVERY, "--state", "--verbose"),
    ("--list", "--state", "Empty"),
    ("--list", "--type", "consumer"),
    (*EARLIEST, "--dry-run"),
    ("--describe", *EVERY),
    (*EARLIEST, "--execute"),
    ("--reset-offsets", *EVERY, "--topic", "TOPIC:3", "--shift-by", "2", "--execute"),
    ("--describe", *EVERY, "--offsets", "--verbose"),
    ("--delete-offsets", *EVERY, "--topic", "TOPIC:0,1"),
    ("--describe", *EVERY),
    ("--delete", *EVERY),
    ("--describe", *EVERY),
    ("--list", "--type"),
    ("--delete", *EVERY),
)

pytestmark = pytest.mark.usefixtures("java")


@pytest.fixture
def kafka(java: None, tmp_path: Path) -> Iterator[ServerProcess]:
    with KafkaBroker(tmp_path / "kafka", QUICK) as server:
        yield server


Said = dict[str, list[list[str]]]
"""By command what was printed, line by line, in words, without what each side draws for itself."""


class Story:
    """The life of one group on one server; nothing in it depends on whose server it is."""

    def __init__(self, server: ServerProcess, log_dir: Path) -> None:
        log_dir.mkdir()
        self._bootstrap = server.bootstrap
        self._coordinator = f"({GATEWAY_ID if isinstance(server, Gateway) else BROKER_ID})"
        self.fleet, self._observer = Fleet(server.bootstrap, log_dir), Observer(server.bootstrap)
        self._group = Group(self.fleet, self._observer, PARTITIONS)

    def told(self) -> Said:
        """Members of three kinds come one by one; `range` deals to static ones by name, then to the other."""
        group = self._group
        members = [group.start("confluent", **NEW, client_id="first", instance_id="one")]
        group.await_shared(*members)
        members.append(group.start("confluent", assignor="range", client_id="classic", instance_id="two"))
        group.await_shared(*members)
        members.append(group.start("confluent", **NEW, client_id="last"))
        group.await_shared(*members)
        for partition in range(PARTITIONS):
            self._observer.write(group.topic, map(str, range(RECORDS + partition)), partition)
        group.await_everything_committed(*members)
        said = self._say("with members", WITH_MEMBERS)
        one, classic, last = members
        classic.stop()
        group.await_shared(
            one, last
        )  # Its session has ended: were it the last, the group would be a classic one.
        for member in (one, last):
            member.stop()
        group.await_state("EMPTY")
        return said | self._say("without", WITHOUT)

    def _say(self, when: str, commands: tuple[tuple[str, ...], ...]) -> Said:
        names = {"GROUP": self._group.name, "TOPIC": self._group.topic}
        lines = json.dumps(commands)
        for word, name in names.items():
            lines = lines.replace(word, name)
        said = [self.fleet.ask_tool(TOOL, *arguments) for arguments in json.loads(lines)]
        return {
            f"{when}, {number}: {' '.join(command)}": self._lines(each["text"], each["error"], each["status"])
            for number, (command, each) in enumerate(zip(commands, said, strict=True))
        }

    def _lines(self, text: str, error: str, status: int) -> list[list[str]]:
        """The lines of one command, those of other groups left out, sorted: rows come out of hash maps."""
        rows = []
        for line in text.splitlines():
            named = self._without_names(line)
            words = ["ID" if ID.fullmatch(word) else word for word in named.split()]
            if words and ("GROUP" in named or not OF_ANOTHER.search(line)):
                rows.append(words)
        complaints = [
            self._without_names(line).split() for line in error.splitlines() if not line.startswith("SLF4J")
        ]
        return [*sorted(rows), *complaints[:1], [f"status {status}"]]

    def _without_names(self, text: str) -> str:
        own = {
            self._bootstrap: "SERVER",
            self._group.name: "GROUP",
            self._group.topic: "TOPIC",
            self._coordinator: "(COORDINATOR)",
        }
        for name, word in own.items():
            text = text.replace(name, word)
        return text


def test_the_tool_says_the_same_of_muster_as_of_kafka(
    quick_broker: ServerProcess, kafka: ServerProcess, tmp_path: Path
) -> None:
    stories = [Story(server, tmp_path / f"story-{n}") for n, server in enumerate((quick_broker, kafka))]
    try:
        with ThreadPoolExecutor(len(stories)) as threads:
            ours, theirs = threads.map(Story.told, stories)
    finally:
        for story in stories:
            story.fleet.close()
    assert ours == theirs
    for when, command, words in (
        ("with members", (*EARLIEST, "--execute"), "can only be reset if the group 'GROUP' is inactive"),
        ("with members", ("--delete-offsets", *OF_TOPIC), "GroupSubscribedToTopicException"),
        ("with members", ("--delete", *EVERY), "GroupNotEmptyException"),
        ("without", (*EARLIEST, "--execute"), "GROUP TOPIC 5 0"),
        ("without", ("--delete", *EVERY), "GroupIdNotFoundException"),
    ):
        said = [
            lines
            for each, lines in theirs.items()
            if each.startswith(when) and each.endswith(" ".join(command))
        ]
        assert words in " ".join(map(" ".join, said[-1])), command
