"""Spark's older way to find offsets: its driver is an ordinary member of a group of the broker's.

`spark.sql.streaming.kafka.useDeprecatedOffsetFetching` makes the driver subscribe instead of asking as an
admin would; `groupIdPrefix` names its groups, so that they can be found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupState
from pyspark.sql import SparkSession

from coordinator.effects import GroupEvent
from harness.observer import Observer, unique
from harness.processes import ServerProcess, wait_until
from muster.cluster import connected
from muster.groups.history import read_history
from tests.spark.topics import PARTITIONS, Topic, groups_with, rows

pytestmark = pytest.mark.xdist_group("spark")

DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def deprecated_offset_fetching(spark: SparkSession) -> Iterator[None]:
    setting = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.conf.set(setting, "true")
    yield
    spark.conf.unset(setting)


def test_a_batch_read_through_a_group_gives_every_record(topic: Topic, broker: ServerProcess) -> None:
    written = topic.write(*(f"a-{number}" for number in range(90)))
    prefix = unique("batch-driver")
    assert rows(topic.batch(groupIdPrefix=prefix)) == written
    assert groups_with(broker.bootstrap, prefix)


def test_the_driver_of_a_stream_is_a_member_that_owns_the_topic_until_the_query_stops(
    topic: Topic, broker: ServerProcess, observer: Observer, target: str
) -> None:
    prefix = unique("stream-driver")
    query = (
        topic.stream(groupIdPrefix=prefix)
        .writeStream.format("noop")
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        (group,) = wait_until(lambda: groups_with(broker.bootstrap, prefix), "the driver's group", DEADLINE_S)
        owned = wait_until(lambda: observer.owned(group), "the driver owns partitions", DEADLINE_S)
        assert owned == sorted(f"{topic.name}-{partition}" for partition in range(PARTITIONS))
        assert len(observer.describe(group).members) == 1
        topic.write(*(f"a-{number}" for number in range(90)))
        wait_until(
            lambda: sum(batch["numInputRows"] for batch in query.recentProgress) == 90,
            "the stream reads what comes",
            DEADLINE_S,
            give_up=lambda: None if query.isActive else str(query.exception()),
        )
    finally:
        query.stop()
    left = wait_until(lambda: observer.describe(group), "the group still known", DEADLINE_S)
    assert (left.state, left.members) == (ConsumerGroupState.EMPTY, [])
    if target == "muster":
        steps = wait_until(lambda: steps_of(broker.bootstrap, group), "the group's history", DEADLINE_S)
        assert steps[0].startswith("Empty -> PreparingRebalance: member joined")
        assert steps[-2].startswith("Stable -> PreparingRebalance: member left")
        assert steps[-1].startswith("PreparingRebalance -> Empty")


def steps_of(bootstrap: str, group: str) -> list[str]:
    """What the daemon wrote down of the group's changes, once it says that the group is Empty again."""

    async def read() -> tuple[GroupEvent, ...]:
        async with connected(bootstrap) as cluster:
            return (await read_history(cluster, group)).events

    events = asyncio.run(read())
    steps = [f"{event.from_state} -> {event.to_state}: {event.reason}" for event in events]
    return steps if events and events[-1].to_state == "Empty" else []
