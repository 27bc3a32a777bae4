"""Groups that follow a query, on a real broker and without Spark, and the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from harness.observer import Observer, unique
from harness.processes import ServerProcess
from muster.spark.progress.group_offsets import GroupOffsets
from muster.spark.progress.group_progress import GroupProgress
from muster.spark.progress.positions import LiveMembersError, ProgressError, Standing
from protocol.topic_partition import TopicPartition

pytestmark = pytest.mark.xdist_group("spark")
CONSUMER = {"group.protocol": "consumer"}


class Query:
    """A query that stands at the end of its first batch."""

    def __init__(self, topic: str, offset: int) -> None:
        self.offsets = {TopicPartition(topic, 0): offset}

    def standing(self) -> Standing:
        return Standing(0, self.offsets)


@pytest.fixture
def topic(observer: Observer) -> str:
    """Here without Spark."""
    topic = observer.create_topic("followed", 1)
    observer.write(topic, ["a", "b", "c"], 0)
    return topic


@pytest.fixture
def group() -> str:
    return unique("followed")


@contextmanager
def followed(broker: ServerProcess, group: str) -> Iterator[GroupOffsets]:
    offsets = GroupOffsets(broker.bootstrap, group, CONSUMER)
    try:
        yield offsets
    finally:
        offsets.close()


@contextmanager
def member(broker: ServerProcess, group: str, topic: str) -> Iterator[None]:
    """A member by the consumer protocol that has its partition."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": "a-member"}
    consumer = Consumer({**settings, **CONSUMER, "enable.auto.commit": False})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    try:
        yield
    finally:
        consumer.close()


def test_a_client_of_the_consumer_protocol_follows_as_any_other(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    """It joins nothing, so it is the same."""
    with followed(broker, group) as offsets:
        offsets.require_no_members()
        GroupProgress(Query(topic, 2), offsets).step(0.0)
        assert offsets.committed([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 2}
    assert observer.committed(group, topic) == {0: 2}


def test_a_group_with_members_of_the_consumer_protocol_is_refused_until_they_have_left(
    broker: ServerProcess, observer: Observer, topic: str, group: str
) -> None:
    with followed(broker, group) as offsets:
        progress = GroupProgress(Query(topic, 3), offsets)
        with member(broker, group, topic):
            with pytest.raises(LiveMembersError, match=r"STABLE, with 1 live member: a-member at"):
                offsets.require_no_members()
            with pytest.raises(LiveMembersError, match="a-member at"):
                progress.step(0.0)
        assert observer.committed(group, topic) == {}
        offsets.require_no_members()
        progress.step(1.0)
    assert observer.committed(group, topic) == {0: 3}


def test_settings_that_do_not_go_together_are_refused_in_a_sentence(broker: ServerProcess) -> None:
    with pytest.raises(
        ProgressError, match=r"of these settings: Failed to create consumer: `session.timeout.ms`"
    ):
        GroupOffsets(broker.bootstrap, "g", {**CONSUMER, "session.timeout.ms": "9000"})
