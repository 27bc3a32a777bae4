"""Appending to an ordinary topic of the cluster: in order, each batch once; on a cluster that is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from coordinator.backing.kafka import event_topic
from coordinator.backing.kafka.cluster import BackingCluster, Lane, UnavailableError
from coordinator.backing.kafka.event_topic import EventTopic
from harness.kafka_broker import KafkaBroker
from harness.messages import value_of
from harness.observer import Observer, unique
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.records.batch import parse_header
from protocol.records.records import Record, encode_batch, read_records
from tests.backing.kafka_node import until

pytestmark = [pytest.mark.xdist_group("backing"), pytest.mark.asyncio]

NAME = "__group_events"
LEADER = 7
Said = ErrorCode | UnavailableError


class PlayedCluster:
    """A cluster with this topic, of two partitions, whose leader gives the answers of a script."""

    def __init__(self, *script: Said) -> None:
        self.script = list(script)
        self.sent: list[tuple[int, bytes]] = []
        self.producer_ids = 0
        self.node_ids = [LEADER]
        self.is_closed = False
        self.refreshed = 0
        self.topic_ids = [b"\x01" * 16]
        """Of the topic as it is, and as it is made again after that."""

    async def start(self) -> None:
        """It is there."""

    async def follow(self, topic: str) -> None:
        assert topic == NAME

    def leader_of(self, partition: int) -> int:
        del partition
        return LEADER

    def refresh_soon(self) -> None:
        self.refreshed += 1

    async def close(self) -> None:
        self.is_closed = True

    async def ask_any(self, message: Any, **_: object) -> Any:
        if isinstance(message, InitProducerIdRequest):
            assert message.transactional_id is None
            self.producer_ids += 1
            return InitProducerIdResponse(error_code=0, producer_id=self.producer_ids, producer_epoch=0)
        assert isinstance(message, MetadataRequest)
        partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=LEADER, replica_nodes=[1], isr_nodes=[1]
            )
            for index in range(2)
        ]
        topic = MetadataResponseTopic(name=NAME, topic_id=self.topic_ids[0], partitions=partitions)
        return MetadataResponse(brokers=[], topics=[topic])

    async def ask(self, node_id: int, message: Any, lane: Lane, **_: object) -> Any:
        assert (node_id, lane) == (LEADER, Lane.APPEND)
        assert isinstance(message, ProduceRequest)
        (part,) = message.topic_data[0].partition_data
        assert part.records is not None
        self.sent.append((part.index, bytes(part.records)))
        said = self.script.pop(0) if self.script else ErrorCode.NONE
        if said is ErrorCode.UNKNOWN_TOPIC_ID:
            self.topic_ids.pop(0)
        else:
            assert message.topic_data[0].topic_id == self.topic_ids[0]
        if isinstance(said, UnavailableError):
            raise said
        answer = PartitionProduceResponse(index=part.index, error_code=said, base_offset=0)
        return ProduceResponse(responses=[TopicProduceResponse(partition_responses=[answer])])

    def written(self) -> list[tuple[int, int, int, list[str]]]:
        """What was sent: partition, producer id, first sequence, the values."""
        found = []
        for partition, content in self.sent:
            header = parse_header(content)
            values = [(record.value or b"").decode() for record in read_records(content, header)]
            found.append((partition, header.producer_id, header.base_sequence, values))
        return found


def batch(*values: str) -> bytearray:
    return encode_batch([Record(b"g", value.encode(), 1) for value in values])


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_topic, "AGAIN_S", 0.0)


async def opened(cluster: PlayedCluster, node_id: int = 4) -> EventTopic:
    topic = EventTopic(cast(BackingCluster, cluster), NAME, node_id)
    await topic.open({})
    return topic


async def appended(topic: EventTopic, *batches: bytearray) -> list[ErrorCode]:
    outcomes: list[ErrorCode] = []
    for each in batches:
        topic.append_local(each, outcomes.append)
    await until(lambda: len(outcomes) == len(batches), "all have an outcome")
    return outcomes


async def test_batches_are_appended_one_after_the_other_with_their_numbers() -> None:
    cluster = PlayedCluster()
    topic = await opened(cluster)
    assert await appended(topic, batch("a", "b"), batch("c"), batch("d")) == [ErrorCode.NONE] * 3
    assert cluster.written() == [(0, 1, 0, ["a", "b"]), (0, 1, 2, ["c"]), (0, 1, 3, ["d"])]
    assert await appended(await opened(cluster, node_id=5), batch("e")) == [ErrorCode.NONE]
    assert cluster.written()[-1] == (1, 2, 0, ["e"]), "another node, another partition"


async def test_what_may_be_there_already_is_sent_again_with_the_same_bytes() -> None:
    cluster = PlayedCluster(
        UnavailableError("no answer"), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NONE
    )
    topic = await opened(cluster)
    assert await appended(topic, batch("a"), batch("b")) == [ErrorCode.NONE] * 2
    first, second, third, fourth = cluster.sent
    assert first == second == third
    assert cluster.written()[-1] == (0, 1, 1, ["b"])
    assert fourth != first
    assert cluster.refreshed == 2


async def test_what_is_refused_for_good_is_reported_and_the_next_is_another_producers_first() -> None:
    cluster = PlayedCluster(ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE)
    topic = await opened(cluster)
    outcomes = await appended(topic, batch("a"), batch("long"), batch("b"))
    assert outcomes == [ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.NONE]
    assert cluster.written() == [(0, 1, 0, ["a"]), (0, 1, 1, ["long"]), (0, 2, 0, ["b"])]


async def test_a_topic_that_is_made_again_is_gone_on_with() -> None:
    cluster = PlayedCluster(ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID)
    cluster.topic_ids.append(b"\x02" * 16)
    topic = await opened(cluster)
    assert await appended(topic, batch("a"), batch("b"), batch("c")) == [ErrorCode.NONE] * 3
    assert cluster.written() == [(0, 1, 0, ["a"]), (0, 1, 1, ["b"]), (0, 2, 0, ["b"]), (0, 2, 1, ["c"])]


async def test_a_leader_that_is_just_elected_is_no_complaint() -> None:
    """As a first start makes the topic."""
    topic = await opened(PlayedCluster(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS))
    with capture_logs() as logs:
        assert await appended(topic, batch("a")) == [ErrorCode.NONE]
    assert [each["reason"] for each in logs if each["log_level"] == "warning"] == ["NOT_ENOUGH_REPLICAS"]


async def test_a_bug_ends_with_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = PlayedCluster()
    topic = await opened(cluster)
    leaders = iter([RuntimeError("a bug")])

    def leader_of(partition: int) -> int:
        if (bug := next(leaders, None)) is not None:
            raise bug
        return LEADER

    monkeypatch.setattr(cluster, "leader_of", leader_of)
    assert await appended(topic, batch("a"), batch("b")) == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]


async def test_a_stop_waits_for_the_last_events_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = PlayedCluster()
    topic = await opened(cluster)
    topic.append_local(batch("a"))
    topic.append_local(batch("b"))
    await topic.close()
    assert [values for *_, values in cluster.written()] == [["a"], ["b"]]
    assert cluster.is_closed
    monkeypatch.setattr(event_topic, "CLOSE_S", 0.05)
    monkeypatch.setattr(event_topic, "AGAIN_S", 0.01)
    away = PlayedCluster(*[UnavailableError("away")] * 1_000)
    late = await opened(away)
    late.append_local(batch("c"))
    await asyncio.wait_for(late.close(), 30)
    assert away.is_closed


# On a running Kafka.


@pytest_asyncio.fixture
async def real(kafka: KafkaBroker) -> AsyncIterator[Callable[[str], EventTopic]]:
    made: list[EventTopic] = []

    def make(name: str) -> EventTopic:
        made.append(EventTopic(BackingCluster(kafka.bootstrap), name, 1))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def test_kafka_has_it_all_in_order(real: Callable[[str], EventTopic], kafka: KafkaBroker) -> None:
    name = unique("events")
    topic = real(name)
    await topic.open({"retention.ms": "1000000"})
    sent = [[f"{number}-{part}" for part in range(3)] for number in range(20)]
    assert await appended(topic, *(batch(*values) for values in sent)) == [ErrorCode.NONE] * 20
    found = await asyncio.to_thread(lambda: Observer(kafka.bootstrap).read(name, 0))
    assert [value_of(record).decode() for record in found] == [value for values in sent for value in values]
