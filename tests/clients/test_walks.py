"""Each client library's consumer, call by call: a script walks it and asserts every outcome."""

from __future__ import annotations

import time

import pytest

from harness.observer import Observer, unique
from tests.clients.fleet import Fleet

RECORDS = 50
CONSUMER_WALK = (
    "list_topics",
    "partitions_for_topic",
    "subscribe_by_list",
    "poll",
    "position",
    "commit_sync",
    "committed",
    "commit_async",
    "pause",
    "resume",
    "seek_to_offset",
    "seek_to_beginning",
    "seek_to_end",
    "seek_to_timestamp",
    "listener_commits_on_revocation",
    "unsubscribe",
    "subscribe_by_pattern",
    "assign",
    "close_in_the_middle_of_a_poll",
)


@pytest.mark.parametrize("family", ["aiokafka", "confluent", "kafka_python"])
def test_every_consumer_call_of_a_python_library_works(family: str, fleet: Fleet, observer: Observer) -> None:
    walk_consumer(family, fleet, observer)


@pytest.mark.usefixtures("java")
def test_every_consumer_call_of_the_java_client_works(fleet: Fleet, observer: Observer) -> None:
    walk_consumer("java", fleet, observer)


def walk_consumer(family: str, fleet: Fleet, observer: Observer) -> None:
    topic, group = unique("walk"), unique("walk-group")
    base_ms = int(time.time() * 1000) - 3_600_000
    observer.create_named_topic(topic, 2)
    observer.create_named_topic(f"{topic}-other", 1)
    for partition in (0, 1):
        observer.write(topic, (f"{partition}-{n}" for n in range(RECORDS)), partition, base_ms)
    worker = fleet.start(
        family,
        "walk",
        topic=topic,
        other_topic=f"{topic}-other",
        group=group,
        records=RECORDS,
        base_ms=base_ms,
    )
    worker.finish(deadline_s=150)
    assert sorted(event["step"] for event in worker.of("step")) == sorted(CONSUMER_WALK)
    # Closed, not crashed: the last member left, so its session need not expire.
    assert observer.state(group) == "EMPTY"
