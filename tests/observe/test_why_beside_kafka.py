"""`muster groups why` on what `muster observe` infers beside a running Apache Kafka: what it says, compared whole.

The scripts are those of tests/clients/test_why.py, played by the same clients. What is inferred is marked so, and
what no record shows is said to be not known.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from harness.kafka_broker import KafkaBroker
from harness.observer import Observer
from tests.clients.conftest import QUICK
from tests.clients.fleet import ROOT, Fleet
from tests.clients.groups import Group
from tests.clients.why_scripts import SCRIPTS, Rule, Stage, Why, chosen, members, texts

pytestmark = [pytest.mark.xdist_group("why-beside-kafka"), pytest.mark.timeout(300, func_only=True)]

EXPECTED: Final = texts(Path(__file__).with_name("why_texts.txt"))
GONE: Final = Rule("gone_somehow")
RULES: Final = {
    "a_slow_poll_loop": GONE,
    "a_slow_poll_loop_of_a_client_that_gives_no_reason": GONE,
    "a_member_that_is_closed": GONE,
    "a_member_that_never_syncs": GONE,
    "a_crash": GONE,
    "a_crash_of_a_member_of_the_consumer_protocol": GONE,
    "a_rolling_restart": Rule("joined_rolling_restart"),
    "a_flapping_member": Rule("joined_flapping"),
    "new_partitions": Rule("partitions_assigned"),
    "new_partitions_of_a_consumer_group": Rule("topics_changed"),
    "a_closed_member_of_the_consumer_protocol": GONE,
    "a_first_member_of_the_consumer_protocol": Rule("joined_first"),
    "a_deployment_that_is_scaled_out": Rule("joined_scaled_out"),
    "a_static_restart": Rule("joined", "static_restart"),
}


@pytest.fixture(scope="module")
def kafka(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), QUICK) as broker:
        yield broker


@pytest.fixture(scope="module")
def store(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What `muster observe` keeps of all scripts; it runs all the time, and must not end by itself."""
    folder = tmp_path_factory.mktemp("observed")
    command = [sys.executable, "-m", "muster", "observe", "--bootstrap", kafka.bootstrap, "--to-topic"]
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen([*command, "--store", str(folder / "store")], cwd=ROOT, stderr=errors)
        yield folder / "store"
        status = process.poll()
        process.kill()
        process.wait()
    assert status is None, (folder / "stderr").read_text()


@pytest.fixture(scope="module")
def stage(
    request: pytest.FixtureRequest, kafka: KafkaBroker, store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Plays the scripts of the tests that were chosen."""
    folder = tmp_path_factory.mktemp("scripts")
    playing = Stage(kafka.bootstrap, folder, Why("--store", str(store)), RULES)
    playing.play(chosen(request.session.items))
    yield playing
    playing.close()


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_is_explained_as_far_as_records_show_it(stage: Stage, script: str) -> None:
    assert stage.lines(script) == EXPECTED[script]


def test_a_coordinator_that_restarted(stage: Stage, kafka: KafkaBroker, store: Path, tmp_path: Path) -> None:
    """No record shows it, for no generation is new; what comes after it is seen. The store needs no cluster."""
    stage.close()  # The others have ended by then.
    fleet = Fleet(kafka.bootstrap, tmp_path)
    try:
        group = Group(fleet, Observer(kafka.bootstrap))
        first, second = members(group, "confluent", 2, session_timeout_ms=60_000)
        kafka.restart()
        group.reconnect()
        group.await_shared(first, second)
        of_store = Why("--store", str(store))
        assert of_store.says(group, Rule("joined")) == EXPECTED["a_coordinator_that_restarted"]
        first.stop()
        group.await_shared(second)
        lines = of_store.says(group, GONE)
        of_topic = Why("--bootstrap", kafka.bootstrap).says(group, GONE)
        assert [line.split(":")[0] for line in of_topic if line not in lines] == [
            "  Its assignor, range, is eager"
        ]
        assert [line for line in lines if line not in of_topic] == []
        kafka.kill()
        assert of_store.says(group, GONE) == lines
    finally:
        fleet.close()
