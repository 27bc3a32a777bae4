"""Each option of kafka-consumer-groups runs with both tools on one running Kafka, and the figures are compared."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.kafka_broker import KafkaBroker
from harness.observer import Observer
from muster.cli import run
from tests.clients.conftest import QUICK
from tests.clients.fleet import Fleet
from tests.clients.tool_parity import (
    BEYOND,
    ELSEWHERE,
    GROUP,
    LIVE,
    NEWER,
    ODD,
    ROWS,
    TOPIC,
    Said,
    parity_table,
)

TOOL: Final = "consumer.group.ConsumerGroupCommand"
PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md"
PARTITIONS: Final = 2
RECORDS: Final = 10
SECONDS_AGO: Final = 7_200
COMMITTED: Final = (3, 5)
EXPORT: Final = ("--reset-offsets", "--all-topics", "--to-earliest", "--export", "--dry-run", "--group")


@contextmanager
def member(bootstrap: str, group: str, **settings: object) -> Iterator[None]:
    """A consumer that has every partition, and has committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"{group}-1",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([TOPIC])
    while len(consumer.assignment()) < PARTITIONS:
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition(TOPIC, n, offset) for n, offset in enumerate(COMMITTED)])
    consumer.committed([TopicPartition(TOPIC, 0)], timeout=20)
    try:
        yield
    finally:
        consumer.close()


class Tools:
    """Both tools on one broker; each has a group of its own, so that what one does the other can do again."""

    def __init__(self, bootstrap: str, fleet: Fleet, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._fleet = fleet
        self._folder = folder
        (folder / "client.properties").write_text(
            "client.id=parity\nrequest.timeout.ms=20000\ngroup.id=x\nenable.auto.commit=false\n"
        )
        began = datetime.now(UTC).timestamp() - SECONDS_AGO + RECORDS / 2
        self._words = {
            "CONFIG": str(folder / "client.properties"),
            "DATETIME": datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%dT%H:%M:%S.000"),
            "DURATION": f"PT{SECONDS_AGO - RECORDS // 2}S",
            "THEIR-CSV": str(folder / "their.csv"),
            "OUR-CSV": str(folder / "our.csv"),
        }

    def export_plans(self) -> None:
        """Two files of the same plan, one by each tool."""
        theirs, ours = self.theirs((*EXPORT, "idle")), self.ours(("reset-offsets", "idle", *EXPORT[1:-1]))
        (self._folder / "their.csv").write_text(theirs.text.strip())
        (self._folder / "our.csv").write_text(ours.text)

    def theirs(self, arguments: tuple[str, ...]) -> Said:
        said = self._fleet.ask_tool(TOOL, *self._filled(arguments, "theirs"))
        return Said(said["text"], said["status"])

    def ours(self, arguments: tuple[str, ...]) -> Said:
        needs_none = arguments[0] == "validate-regex"
        place = () if needs_none else ("--bootstrap-server", self._bootstrap)
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            status = run(["groups", *self._filled(arguments, "ours"), *place])
        assert out.getvalue(), errors.getvalue()
        return Said(out.getvalue(), status)

    def _filled(self, arguments: tuple[str, ...], own: str) -> list[str]:
        words = self._words | {GROUP: own}
        return [words.get(argument, argument) for argument in arguments]

    def options(self) -> set[str]:
        """All options of Kafka's tool, by its own help."""
        said = self._fleet.ask_tool(TOOL, "--help")
        return set(re.findall(r"^(--[a-z][\w-]*)", said["text"] + said["error"], re.MULTILINE))


pytestmark = pytest.mark.xdist_group("tool parity")


@pytest.fixture(scope="module")
def tools(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    folder = tmp_path_factory.mktemp("parity")
    with KafkaBroker(folder / "kafka", QUICK) as kafka:
        observer, fleet = Observer(kafka.bootstrap), Fleet(kafka.bootstrap, folder)
        observer.create_named_topic(TOPIC, PARTITIONS)
        base_ms = round((datetime.now(UTC).timestamp() - SECONDS_AGO) * 1000)
        for partition in range(PARTITIONS):
            observer.write(TOPIC, map(str, range(RECORDS)), partition, base_ms=base_ms)
        for group in ("idle", "theirs", "ours", ODD):
            observer.commit(group, TOPIC, dict(enumerate(COMMITTED)))
        observer.commit(BEYOND, TOPIC, {0: 10 * RECORDS, 1: RECORDS})
        consumer = {"group.protocol": "consumer"}
        with member(kafka.bootstrap, LIVE), member(kafka.bootstrap, NEWER, **consumer):
            found = Tools(kafka.bootstrap, fleet, folder)
            found.export_plans()
            yield found
        fleet.close()


def test_both_tools_have_the_same_figures(tools: Tools) -> None:
    """Row after row: some change what the next ones show."""
    theirs, ours = {}, {}
    for row in ROWS:
        what = " ".join(row.theirs)
        theirs[what] = row.their_figures(tools.theirs(row.theirs))
        ours[what] = row.our_figures(tools.ours(row.ours))
    assert ours == theirs
    nothing = [what for what, figures in theirs.items() if not figures]
    assert nothing == [], "nothing is compared"


def test_every_option_of_their_tool_is_in_a_row(tools: Tools) -> None:
    options = tools.options()
    assert "--validate-regex" in options, "the help is read"
    typed = {argument for row in ROWS for argument in row.theirs if argument.startswith("--")}
    assert options - typed - ELSEWHERE == {"--bootstrap-server"}  # Which every row has.


def test_the_table_of_the_page_is_the_one_that_is_tested() -> None:
    assert parity_table() in PAGE.read_text(), "python -m tests.clients.tool_parity prints it"
