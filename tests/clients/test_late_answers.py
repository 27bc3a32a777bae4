"""An answer that a client awaited in a former assignment comes in a later one: exactly once holds all the same.

librdkafka 2.16 takes the late answer to "where does this partition begin" for a reason to ask again, and goes
back to the beginning of a partition that it reads from its committed offset by now: whatever the broker. In the
transaction loop a broker that was killed at that moment did this; here a relay does, each time.
"""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from harness.held_answers import HeldAnswers
from harness.observer import Observer
from tests.clients.committed import CommittedView
from tests.clients.conftest import SETTINGS, TARGETS
from tests.clients.fleet import DEADLINE_S, Fleet

LIST_OFFSETS = 2
ROWS = [f"row-{number}" for number in range(20)]
MORE = [f"row-{number}" for number in range(20, 25)]
COMMITTED = 15
SOURCE, TARGET, GROUP = "late-source", "late-target", "late"
QUICK = ("heartbeat.interval.ms=200", "fetch.wait.max.ms=50")


def test_exactly_once_holds_where_a_late_answer_takes_the_reader_back(target: str, tmp_path: Path) -> None:
    with HeldAnswers(LIST_OFFSETS, "late") as relay:
        settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://{relay.address}"}
        with TARGETS[target](tmp_path / "broker", settings) as broker:
            relay.relay_to(broker.bootstrap)
            fleet, observer = Fleet(relay.address, tmp_path), Observer(relay.address)
            for topic in (SOURCE, TARGET):
                observer.create_named_topic(topic, 1)
            observer.write(SOURCE, ROWS)
            view = CommittedView(relay.address, TARGET, 1)
            try:
                _take_back(relay, fleet, observer, view)
                assert view.values() == ROWS[COMMITTED:] + MORE
            finally:
                fleet.close()
                view.close()


def _take_back(relay: HeldAnswers, fleet: Fleet, observer: Observer, view: CommittedView) -> None:
    """A worker reads behind the committed offset when the answer comes that it awaited before."""
    example = ("exactly_once_transactions", SOURCE, GROUP, TARGET, "late-1", *QUICK, "client.id=late")
    worker = fleet.start_example(*example)
    relay.wait_for_one(DEADLINE_S)
    another = Consumer(
        {
            "bootstrap.servers": relay.address,
            "group.id": GROUP,
            "client.id": "another",
            "enable.auto.commit": False,
        }
    )
    another.subscribe([SOURCE])  # With one partition, the first by name of two members has it.
    worker.wait_for(lambda: another.poll(0.1) or another.assignment(), "a partition for another member")
    another.commit(offsets=[TopicPartition(SOURCE, 0, COMMITTED)], asynchronous=False)
    relay.hold_no_more()
    another.close()
    worker.wait_for(lambda: view.values() == ROWS[COMMITTED:], "rows behind the committed offset")
    relay.release()
    worker.wait_for(lambda: "rows came again" in worker.story(), "the reader taken back")
    observer.write(SOURCE, MORE)
    worker.wait_for(lambda: len(view.values()) >= len(ROWS[COMMITTED:] + MORE), "the rows that came since")
    assert worker.terminate() == 0, worker.story()
