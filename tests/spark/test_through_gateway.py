"""Spark through a gateway in front of a real Kafka: members of a group, and a stream that a group follows.

Written, read and committed through the gateway; looked at there and at the Kafka itself, which has the data and
none of the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupType
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from harness.gateway import Gateway
from harness.observer import Observer, unique
from muster.spark import members, progress
from tests.spark.conftest import SETTINGS
from tests.spark.members.member_threads import CONSUMER, group_type
from tests.spark.topics import PARTITIONS, Topic, groups_with, rows, run_to_end

pytestmark = pytest.mark.xdist_group("spark")

ROWS = 300
QUICK = {"fetch.wait.max.ms": "50", "heartbeat.interval.ms": "300"}


@pytest.fixture(scope="module")
def broker(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway, whatever the target is."""
    with Gateway(tmp_path_factory.mktemp("gateway"), SETTINGS) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def observer(broker: Gateway) -> Observer:
    return Observer(broker.bootstrap)


@pytest.fixture(scope="module")
def kafka(broker: Gateway) -> Observer:
    """Looks at the Kafka itself."""
    return Observer(broker.kafka.bootstrap)


def labels(prefix: str, count: int = ROWS) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (QUICK, ConsumerGroupType.CLASSIC),
        ({"fetch.wait.max.ms": "50", **CONSUMER}, ConsumerGroupType.CONSUMER),
    ],
    ids=["classic", "consumer"],
)
def test_members_read_every_row_once_and_commit_at_the_node(
    spark: SparkSession,
    broker: Gateway,
    observer: Observer,
    kafka: Observer,
    topic: Topic,
    tmp_path: Path,
    settings: Mapping[str, str],
    kind: ConsumerGroupType,
) -> None:
    topic.write(*labels("a"))
    group, folder = unique("members"), str(tmp_path)

    def process(batch: Any, context: Any) -> None:
        with open(f"{folder}/{context.task_attempt_id}", "a") as found:
            found.writelines(f"{value.decode()}\n" for value in batch.column("value").to_pylist())

    report = members.run(spark, broker.bootstrap, group, [topic.name], 2, process, settings=settings)
    found = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert sorted(found) == sorted(labels("a"))
    assert (report.rows, report.attempts, report.failures) == (ROWS, 1, ())
    assert observer.committed(group, topic.name) == kafka.log_ends(topic.name, PARTITIONS)
    assert observer.state(group) == "EMPTY", "no member has stayed behind"
    assert group_type(broker.bootstrap, group) is kind
    assert groups_with(broker.kafka.bootstrap, group) == [], "the Kafka has the data, and none of the groups"


def test_a_structured_stream_copies_a_topic_and_its_group_follows_it(
    spark: SparkSession,
    broker: Gateway,
    observer: Observer,
    kafka: Observer,
    topic: Topic,
    other_topic: Topic,
    tmp_path: Path,
) -> None:
    group, checkpoint = unique("stream"), str(tmp_path / "checkpoint")
    # The query's own consumers join a group: it must not be the one in which its progress is committed.
    of_query = unique("query")
    loud = topic.stream(maxOffsetsPerTrigger="120", **{"kafka.group.id": of_query}).select(
        "partition", "key", F.upper(F.col("value").cast("string")).alias("value")
    )

    def run() -> int:
        writer = loud.writeStream.format("kafka").options(**other_topic.sink())
        writer = writer.option("checkpointLocation", checkpoint)
        with progress.follow(spark, checkpoint=checkpoint, bootstrap=broker.bootstrap, group_id=group):
            return run_to_end(writer.trigger(availableNow=True).start())

    topic.write(*labels("a"))
    assert run() == ROWS
    topic.write(*labels("b"))
    assert run() == ROWS, "a stream that is started again reads what is new"
    ends = kafka.log_ends(topic.name, PARTITIONS)
    assert observer.committed(group, topic.name) == ends
    for each in (group, of_query):
        assert groups_with(broker.kafka.bootstrap, each) == [], (
            "the Kafka has the data, and none of the groups"
        )
    written = [each.value for each in rows(other_topic.batch())]
    assert sorted(value.decode() for value in written if value) == sorted(
        label.upper() for label in labels("a") + labels("b")
    )
    copied = {partition: len(kafka.read(other_topic.name, partition)) for partition in range(PARTITIONS)}
    assert copied == ends
