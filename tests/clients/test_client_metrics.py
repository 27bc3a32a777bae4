"""Real clients push metrics of their own (KIP-714): they are served, and `why` quotes what they said.

The subscription is made by Kafka's own tool.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.observer import Observer
from harness.processes import wait_until
from harness.recording_daemon import RecordingDaemon
from tests.clients.conftest import QUICK
from tests.clients.fleet import DEADLINE_S, ROOT, Fleet
from tests.clients.groups import Group
from tests.clients.why_scripts import Rule, Why, members, slow_poll_loop, texts

TOOL, CONFIGS = "ClientMetricsCommand", "kafka.admin.ConfigCommand"
INTERVAL_MS = 500
LAST_POLL, BETWEEN_POLLS = "last_poll_ago_ms", "time_between_poll_max_ms"
EXPECTED = texts(Path(__file__).with_name("why_texts.txt"))


@pytest.fixture
def broker(target: str, tmp_path: Path) -> Iterator[RecordingDaemon]:
    if target == "kafka":
        pytest.skip("Kafka keeps no history of its groups")
    with RecordingDaemon(tmp_path / "broker", QUICK | {"muster.client.metrics": "true"}) as server:
        yield server


@pytest.fixture
def fleet(broker: RecordingDaemon, tmp_path: Path) -> Iterator[Fleet]:
    clients = Fleet(broker.bootstrap, tmp_path)
    yield clients
    clients.close()


@pytest.fixture
def group(broker: RecordingDaemon, fleet: Fleet) -> Group:
    return Group(fleet, Observer(broker.bootstrap))


@pytest.fixture
def why(broker: RecordingDaemon) -> Why:
    return Why("--bootstrap", broker.bootstrap)


def subscribe(fleet: Fleet, *options: str) -> None:
    interval = ("--interval", str(INTERVAL_MS))
    said = fleet.run_tool(
        TOOL, "--alter", "--name", "polls", "--metrics", "org.apache.kafka.", *interval, *options
    )
    assert "Altered client metrics config for polls." in said


def departure(broker: RecordingDaemon, group: Group, client_id: str) -> dict[str, Any]:
    """The event by which the client left, as `history --json` shows it."""

    def found() -> dict[str, Any] | None:
        events = history(broker, group)
        left = [each for each in events if each["cause"] == "member_left" and each["client_id"] == client_id]
        return left[0] if left else None

    event = wait_until(found, f"{client_id} leaves", DEADLINE_S)
    assert event is not None
    return event


def history(broker: RecordingDaemon, group: Group) -> list[dict[str, Any]]:
    command = [
        sys.executable,
        "-m",
        "muster",
        "groups",
        "history",
        group.name,
        "--bootstrap",
        broker.bootstrap,
    ]
    ran = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    events: list[dict[str, Any]] = json.loads(ran.stdout)
    return events


def test_a_subscription_is_made_shown_and_deleted_by_kafkas_tool(java: Path, fleet: Fleet) -> None:
    subscribe(fleet, "--match", "client_id=app-.*,client_software_name=apache-kafka-java")
    described = fleet.run_tool(TOOL, "--describe", "--name", "polls")
    assert f"interval.ms={INTERVAL_MS}" in described
    assert "match=client_id=app-.*,client_software_name=apache-kafka-java" in described
    assert "metrics=org.apache.kafka." in described
    assert fleet.run_tool(TOOL, "--list").split() == ["polls"]
    entity = ("--entity-type", "client-metrics", "--entity-name", "polls")
    fleet.run_tool(CONFIGS, "--alter", *entity, "--add-config", "interval.ms=700")
    assert "interval.ms=700" in fleet.run_tool(CONFIGS, "--describe", *entity)
    fleet.run_tool(TOOL, "--delete", "--name", "polls")
    assert fleet.run_tool(TOOL, "--list").split() == []


def test_why_quotes_what_a_client_said_of_its_polls(
    java: Path, broker: RecordingDaemon, fleet: Fleet, group: Group, why: Why
) -> None:
    subscribe(fleet)
    slow_poll_loop(group)
    said = departure(broker, group, "app-3")["client_metrics"]
    # With room for a client that stands still for seconds, and has pushed nothing meanwhile.
    assert said["age_ms"] < 10 * INTERVAL_MS, "of its last push, and not of its first"
    assert 3_000 <= said[LAST_POLL] <= 12_000, "it polls no more from 6.5 s before it leaves"
    assert why.says(group, Rule("left_poll_timeout")) == EXPECTED["a_slow_poll_loop_that_the_client_reported"]


def test_a_client_of_the_consumer_protocol_gives_no_reason_but_reports_its_polls(
    java: Path, fleet: Fleet, group: Group, why: Why
) -> None:
    subscribe(fleet, "--match", "client_software_name=apache-kafka-java,client_id=app-.*")
    (first,) = members(group, "java", 1, protocol="consumer", assignor="uniform", max_poll_interval_ms=6_500)
    slow = group.start("java", client_id="app-2", protocol="consumer", holds=True, max_poll_interval_ms=6_500)
    group.await_shared(first, slow)
    group.write()
    slow.wait_for_event("holding")
    lines = why.says(group, Rule("left_reported_slow_polls"))
    assert lines == EXPECTED["a_slow_poll_loop_of_the_consumer_protocol_that_was_reported"]


def test_librdkafka_is_served(java: Path, broker: RecordingDaemon, fleet: Fleet, group: Group) -> None:
    """It reports its rebalances, and nothing of its polls."""
    subscribe(fleet, "--match", "client_software_name=(librdkafka|confluent-kafka-python).*")
    first, second = members(group, "confluent", 2)
    wait_until(lambda: "72 0 app-2\n" in broker.spoken.read_text(), "app-2 pushes", DEADLINE_S)
    second.stop()
    group.await_shared(first)
    said = departure(broker, group, "app-2")["client_metrics"]
    assert said.keys() == {"age_ms", "rebalance_latency_avg_ms", "rebalance_latency_max_ms"}
