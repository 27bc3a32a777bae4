"""Kafka's own command line tools, unchanged: topics, console producer and consumer, groups, offsets."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.observer import Observer, unique
from harness.processes import wait_until
from tests.clients.fleet import DEADLINE_S, Fleet, Worker

TOPICS = "TopicCommand"
PRODUCER = "ConsoleProducer"
CONSUMER = "consumer.ConsoleConsumer"
GROUPS = "consumer.group.ConsumerGroupCommand"
RECORDS = 10

pytestmark = pytest.mark.usefixtures("java")


def test_topics_are_made_shown_grown_and_deleted(fleet: Fleet) -> None:
    topic = unique("made-by-tool")
    created = fleet.run_tool(
        TOPICS, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=9876"
    )
    assert f"Created topic {topic}." in created
    fleet.run_tool(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    described = fleet.run_tool(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 3\tReplicationFactor: 1" in described
    assert "retention.ms=9876" in described
    assert described.count("Leader: ") == 3
    fleet.run_tool(TOPICS, "--delete", "--topic", topic)
    assert topic not in fleet.run_tool(TOPICS, "--list").splitlines()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_console_consumer_reads_what_the_console_producer_wrote(
    codec: str, fleet: Fleet, observer: Observer
) -> None:
    topic, group = observer.create_topic("console", 2), unique("console-group")
    producer = fleet.start_tool(
        PRODUCER,
        *("--topic", topic, "--compression-codec", codec),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
    )
    producer.write(*(f"key-{n}:value-{n}" for n in range(RECORDS)))
    producer.finish()
    consumer = fleet.start_tool(
        CONSUMER,
        *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(RECORDS)),
        *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"),
    )
    consumer.finish()
    assert sorted(consumer.text.splitlines()) == sorted(f"key-{n}:value-{n}" for n in range(RECORDS))
    # It commits what it read and leaves as it closes.
    assert observer.state(group) == "EMPTY"
    assert observer.committed(group, topic) == observer.log_ends(topic, 2)


def test_the_verifiable_consumer_reads_what_the_verifiable_producer_wrote(
    fleet: Fleet, observer: Observer
) -> None:
    topic, group = observer.create_topic("verified", 2), unique("verified-group")
    producer = fleet.start_tool("VerifiableProducer", "--topic", topic, "--max-messages", str(RECORDS))
    consumer = fleet.start_tool(
        "VerifiableConsumer",
        *(
            "--topic",
            topic,
            "--group-id",
            group,
            "--max-messages",
            str(RECORDS),
            "--reset-policy",
            "earliest",
        ),
    )
    producer.finish()
    (summary,) = named(producer, "tool_data")
    assert (summary["sent"], summary["acked"]) == (RECORDS, RECORDS)
    consumer.finish()
    assert sum(event["count"] for event in named(consumer, "records_consumed")) == RECORDS
    assert all(event["success"] for event in named(consumer, "offsets_committed"))
    assert observer.committed(group, topic) == {
        partition: end for partition, end in observer.log_ends(topic, 2).items() if end
    }


def test_a_live_group_is_listed_and_described(fleet: Fleet, observer: Observer) -> None:
    topic, group, consumer = start_group(fleet, observer)
    assert group in fleet.run_tool(GROUPS, "--list").splitlines()
    assert [group, "Stable"] in rows(fleet.run_tool(GROUPS, "--list", "--state", "Stable"))
    (offsets,) = rows_of(group, fleet.run_tool(GROUPS, "--describe", "--group", group))
    assert offsets[1:6] == [topic, "0", str(RECORDS), str(RECORDS), "0"]
    assert offsets[-2].startswith("/127.0.0.1")
    (member,) = rows_of(
        group, fleet.run_tool(GROUPS, "--describe", "--group", group, "--members", "--verbose")
    )
    assert member[1] == offsets[-3]
    assert member[2:5] == ["/127.0.0.1", "console-consumer", "1"]
    assert f"{topic}:0" in "".join(member[5:])
    (state,) = rows_of(group, fleet.run_tool(GROUPS, "--describe", "--group", group, "--state"))
    assert state[-3:] == ["range", "Stable", "1"]
    refused = fleet.run_tool(GROUPS, "--delete", "--group", group)
    assert "GroupNotEmptyException" in refused
    consumer.terminate()
    assert observer.state(group) == "EMPTY"


def test_offsets_are_reset_and_groups_deleted(fleet: Fleet, observer: Observer) -> None:
    topic, group = observer.create_topic("reset", 1), unique("reset-group")
    base_ms = int(time.time() * 1000) - 3_600_000
    observer.write(topic, map(str, range(RECORDS)), 0, base_ms)
    observer.commit(group, topic, {0: RECORDS})

    def reset(*how: str) -> int:
        fleet.run_tool(GROUPS, "--reset-offsets", "--group", group, "--topic", topic, *how, "--execute")
        return observer.committed(group, topic)[0]

    moment = datetime.fromtimestamp((base_ms + 6_500) / 1000, UTC).isoformat(timespec="milliseconds")
    assert reset("--to-earliest") == 0
    assert reset("--shift-by", "4") == 4
    assert reset("--to-datetime", moment) == 7
    fleet.run_tool(GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    assert observer.committed(group, topic) == {}
    observer.commit(group, topic, {0: 1})
    assert "successful" in fleet.run_tool(GROUPS, "--delete", "--group", group)
    assert group not in fleet.run_tool(GROUPS, "--list").splitlines()


def start_group(fleet: Fleet, observer: Observer) -> tuple[str, str, Worker]:
    """A console consumer alone in a group, with all records of a topic read and committed."""
    topic, group = observer.create_topic("described", 1), unique("described-group")
    observer.write(topic, map(str, range(RECORDS)), 0)
    consumer = fleet.start_tool(
        CONSUMER,
        *("--topic", topic, "--group", group, "--from-beginning"),
        *("--command-property", "auto.commit.interval.ms=200"),
    )
    consumer.wait_for(lambda: len(consumer.text.splitlines()) == RECORDS, "the console consumer reads")
    wait_until(lambda: observer.committed(group, topic) == {0: RECORDS}, "its commit", DEADLINE_S)
    return topic, group, consumer


def named(worker: Worker, name: str) -> list[dict[str, Any]]:
    """The events of this name that a verifiable client printed."""
    found = [json.loads(event["text"]) for event in worker.of("printed") if event["text"].startswith("{")]
    return [event for event in found if event["name"] == name]


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def rows_of(group: str, table: str) -> list[list[str]]:
    """The rows of a printed table that are about this group."""
    return [row for row in rows(table) if row[:1] == [group]]
