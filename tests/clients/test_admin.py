"""Admin clients of every library against the daemon: topics, configs, partitions, groups and offsets."""

from __future__ import annotations

import time

import pytest

from harness.observer import Observer, unique
from tests.clients.fleet import Fleet

RECORDS = 10
ADMIN_WALK = (
    "create_topics",
    "create_existing_topic",
    "list_topics",
    "describe_topics",
    "describe_cluster",
    "describe_configs",
    "alter_configs",
    "create_partitions",
    "list_groups",
    "describe_groups",
    "delete_live_group",
    "list_group_offsets",
    "alter_group_offsets",
    "delete_groups",
    "list_offsets",
    "delete_records",
    "delete_topics",
    "delete_absent_topic",
)
ABSENT = {"aiokafka": {"delete_live_group", "alter_group_offsets", "delete_groups"}}


@pytest.mark.parametrize("family", ["aiokafka", "confluent", "kafka_python"])
def test_every_admin_call_of_a_python_library_works(
    family: str, fleet: Fleet, observer: Observer, shown_nodes: int
) -> None:
    walk_admin(family, fleet, observer, shown_nodes)


@pytest.mark.usefixtures("java")
def test_every_admin_call_of_the_java_client_works(
    fleet: Fleet, observer: Observer, shown_nodes: int
) -> None:
    walk_admin("java", fleet, observer, shown_nodes)


def walk_admin(family: str, fleet: Fleet, observer: Observer, nodes: int) -> None:
    """One group has a live member, one has a committed offset and no members."""
    topic, live, empty = observer.create_topic("admin", 2), unique("live"), unique("empty")
    base_ms = int(time.time() * 1000) - 3_600_000
    observer.write(topic, map(str, range(RECORDS)), 0, base_ms)
    observer.commit(empty, topic, {0: 3})
    member = fleet.start("confluent", "member", group=live, topics=[topic])
    member.wait_for_event("owns")
    worker = fleet.start(
        family,
        "admin",
        new_topic=unique("made"),
        topic=topic,
        records=RECORDS,
        base_ms=base_ms,
        live_group=live,
        empty_group=empty,
        nodes=nodes,
    )
    worker.finish()
    expected = set(ADMIN_WALK) - ABSENT.get(family, set())
    assert sorted(event["step"] for event in worker.of("step")) == sorted(expected)
    member.stop()
