"""`muster groups why` on a daemon whose clients behave in a certain way: what it says, compared whole.

Each script is one row of the rules, or a few (why_scripts.py). `tests/observe/test_why_beside_kafka.py` plays the
same ones on Apache Kafka.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from harness import java_tools
from harness.daemon import ANY_HTTP
from harness.observer import Observer
from harness.processes import ServerProcess, wait_until
from harness.recording_daemon import RecordingDaemon
from muster.groups.history import NO_HISTORY
from muster.groups.why.client_texts import Said
from tests.clients.conftest import QUICK
from tests.clients.fleet import DEADLINE_S, Fleet
from tests.clients.groups import Group
from tests.clients.why_scripts import RANGE, SCRIPTS, Rule, Stage, Why, chosen, members, normal, texts

pytestmark = pytest.mark.xdist_group("why")

CLIENT_CLASSES = re.compile(r"org/apache/kafka/clients/(consumer/internals|admin)/.*\.class")
EXPECTED: Final = texts(Path(__file__).with_name("why_texts.txt"))
RULES: Final = {
    "a_slow_poll_loop": Rule("left_poll_timeout"),
    "a_slow_poll_loop_of_a_client_that_gives_no_reason": Rule("left_without_a_reason"),
    "a_member_that_is_closed": Rule("left_closed"),
    "a_member_that_never_syncs": Rule("never_synced"),
    "a_crash": Rule("expired"),
    "a_crash_of_a_member_of_the_consumer_protocol": Rule("expired"),
    "a_rolling_restart": Rule("joined_rolling_restart"),
    "a_flapping_member": Rule("joined_flapping"),
    "new_partitions": Rule("partitions_and_said"),
    "new_partitions_of_a_consumer_group": Rule("topics_changed"),
    "a_closed_member_of_the_consumer_protocol": Rule("left_without_a_reason"),
    "a_first_member_of_the_consumer_protocol": Rule("joined_first"),
    "a_deployment_that_is_scaled_out": Rule("joined_scaled_out"),
    "a_static_restart": Rule("joined", "static_restart"),
}
JOINED: Final = Rule("joined")


@pytest.fixture
def group(quick_fleet: Fleet, watcher: Observer) -> Group:
    return Group(quick_fleet, watcher)


@pytest.fixture
def anywhere(quick_broker: ServerProcess) -> Why:
    """For what a cluster without a history answers, too."""
    return Why("--bootstrap", quick_broker.bootstrap)


@pytest.fixture(scope="module")
def stage(
    request: pytest.FixtureRequest,
    target: str,
    java: None,
    quick_broker: ServerProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    """Plays the scripts of the tests that were chosen."""
    if target == "kafka":
        pytest.skip("Kafka keeps no history of its groups")
    folder, why = tmp_path_factory.mktemp("scripts"), Why("--bootstrap", quick_broker.bootstrap)
    playing = Stage(quick_broker.bootstrap, folder, why, RULES)
    playing.play(chosen(request.session.items))
    yield playing
    playing.close()


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_is_explained_by_what_its_clients_did(stage: Stage, script: str) -> None:
    assert stage.lines(script) == EXPECTED[script]


def test_a_coordinator_that_restarted(target: str, own_quick_broker: ServerProcess, tmp_path: Path) -> None:
    if target == "kafka":
        pytest.skip("Kafka keeps no history of its groups")
    fleet = Fleet(own_quick_broker.bootstrap, tmp_path)
    try:
        group = Group(fleet, Observer(own_quick_broker.bootstrap))
        first, second = members(group, "confluent", 2, session_timeout_ms=60_000)
        own_quick_broker.restart()
        group.reconnect()
        group.await_shared(first, second)
        why = Why("--bootstrap", own_quick_broker.bootstrap)
        lines = why.says(group, Rule("joined", "coordinator_restarted_stable"))
        assert lines == EXPECTED["a_coordinator_that_restarted"]
    finally:
        fleet.close()


def test_a_rebalance_that_waits_for_a_member(target: str, group: Group, anywhere: Why) -> None:
    sleeper, _ = members(group, "confluent", 2, session_timeout_ms=60_000)
    sleeper.pause()
    group.start("confluent", client_id="app-3", **RANGE, session_timeout_ms=60_000)
    group.await_state("PREPARING_REBALANCING")
    if target != "kafka":
        lines = anywhere.says(group, JOINED, is_over=False)
        assert lines == EXPECTED["a_rebalance_that_waits_for_a_member"]
    else:
        assert without_history(anywhere, group) == EXPECTED["a_rebalance_that_waits_on_kafka"]
    sleeper.resume()


def test_a_rebalance_that_waits_as_the_coordinator_itself_sees_it(target: str, tmp_path: Path) -> None:
    """With HTTP: one member is stopped, and one heartbeats while its poll loop is busy."""
    if target == "kafka":
        pytest.skip("Kafka has no HTTP that says it")
    with RecordingDaemon(tmp_path / "broker", {**QUICK, **ANY_HTTP}) as broker:
        fleet, why = Fleet(broker.bootstrap, tmp_path), Why("--bootstrap", broker.bootstrap)
        try:
            group = Group(fleet, Observer(broker.bootstrap))
            config: dict[str, Any] = {"session_timeout_ms": 60_000, "assignor": "range"}
            stopped = group.start("confluent", client_id="app-1", **config)
            busy = group.start("confluent", client_id="app-2", holds=True, **config)
            group.await_shared(stopped, busy)
            group.write()
            busy.wait_for_event("holding")
            stopped.pause()
            group.start("confluent", client_id="app-3", **config)
            wait_until(
                lambda: "but does not poll" in why.run(group.name, "--json").stdout,
                "it heartbeats",
                DEADLINE_S,
            )
            lines = why.says(group, JOINED, is_over=False)
            assert lines == EXPECTED["a_rebalance_that_waits_as_the_coordinator_sees_it"]
            stopped.resume()
        finally:
            fleet.close()


def test_a_consumer_group_that_waits_for_a_member(target: str, group: Group, anywhere: Why) -> None:
    """A member that hangs in its poll loop heartbeats, and gives nothing up."""
    (stuck,) = members(group, "confluent", 1, protocol="consumer", holds=True)
    group.write()
    stuck.wait_for_event("holding")
    group.start("confluent", client_id="app-2", protocol="consumer")
    wait_until(lambda: '"Reconciling"' in anywhere.run(group.name, "--json").stdout, "it waits", DEADLINE_S)
    if target != "kafka":
        assert anywhere.says(group, JOINED, is_over=False) == EXPECTED["a_consumer_group_that_waits"]
    else:
        assert without_history(anywhere, group) == EXPECTED["a_consumer_group_that_waits_on_kafka"]


def test_each_reason_is_one_that_javas_client_has(java: Path) -> None:
    """Its classes have their texts as constants, cut where a value is put in."""
    jar = java_tools.kafka_jars() / f"kafka-clients-{java_tools.KAFKA_VERSION}.jar"
    with zipfile.ZipFile(jar) as classes:
        texts = b"".join(classes.read(name) for name in classes.namelist() if CLIENT_CLASSES.match(name))
    assert [said.name for said in Said if said.value.encode() not in texts] == []


def without_history(why: Why, group: Group) -> list[str]:
    """The lines about a group that rebalances on a cluster that keeps no history."""
    ran = why.run(group.name)
    assert (ran.returncode, ran.stderr) == (0, f"{NO_HISTORY}\n")
    return [normal(line, group) for line in ran.stdout.splitlines()]


def test_a_group_that_is_not_there(target: str, anywhere: Why) -> None:
    ran = anywhere.run("no-such-group")
    no_group = "there is no group no-such-group"
    why = no_group if target != "kafka" else f"{NO_HISTORY}, and {no_group}"
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", f"muster: {why}\n")


def test_a_time_that_is_none(anywhere: Why) -> None:
    ran = anywhere.run("billing", "--at", "yesterday")
    assert (ran.returncode, ran.stdout) == (2, "")
