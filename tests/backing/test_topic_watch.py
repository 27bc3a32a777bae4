"""The topics of a running Apache Kafka, as they are made, grow, go and come again while shards ask about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
import pytest_asyncio
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from coordinator.backing.kafka.cluster import UnavailableError
from coordinator.backing.kafka.cluster_topics import ClusterTopics, NamedTopic
from coordinator.backing.kafka.topic_watch import TopicWatch, refresh_ms_of
from harness.kafka_broker import KafkaBroker
from harness.observer import unique
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.codec.primitives import ZERO_UUID
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.backing.kafka_node import running_cluster, until

pytestmark = [pytest.mark.xdist_group("backing"), pytest.mark.asyncio]

QUICK_MS = 300
NEVER_MS = 3_600_000


class Watched:
    """The topics of a cluster, watched; and those that were found to be gone."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, bytes]] = []
        self.topics = ClusterTopics(lambda name, topic_id: self.deleted.append((name, topic_id)), QUICK_MS)


def made(kafka: KafkaBroker, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wait(admin.create_topics([NewTopic(name, partitions, 1)]))


def wait(asked: dict[str, Any]) -> None:
    for outcome in asked.values():
        outcome.result(30)


@pytest_asyncio.fixture(params=[QUICK_MS], ids=["all of them often"])
async def watched(kafka: KafkaBroker, request: pytest.FixtureRequest) -> AsyncIterator[Watched]:
    found = Watched()
    async with running_cluster(kafka.bootstrap) as cluster:
        watch = TopicWatch(cluster, found.topics, request.param)
        await watch.start()
        yield found
        await watch.close()


async def test_a_topic_grows_goes_and_comes_again(kafka: KafkaBroker, watched: Watched) -> None:
    topics, name = watched.topics, unique("watched")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    made(kafka, name)
    await until(lambda: name in set(topics.names()), "it is listed")
    first = topics.topic_id(name)
    wait(admin.create_partitions([NewPartitions(name, 3)]))
    await until(lambda: topics.partition_count(name) == 3, "it has grown")
    wait(admin.delete_topics([name]))
    await until(lambda: watched.deleted == [(name, first)], "it is gone")
    made(kafka, name, 2)
    await until(lambda: topics.partition_count(name) == 2, "it came again")
    assert topics.topic_id(name) != first


async def test_a_broker_that_is_away_deletes_nothing(kafka: KafkaBroker, watched: Watched) -> None:
    name = unique("kept")
    made(kafka, name)
    await until(lambda: name in set(watched.topics.names()), "it is listed")
    kafka.restart()
    made(kafka, later := unique("later"))
    await until(lambda: later in set(watched.topics.names()), "the list is read again")
    assert watched.deleted == []
    assert name in set(watched.topics.names())


@pytest.mark.parametrize("watched", [NEVER_MS], indirect=True, ids=["one list only"])
async def test_what_a_shard_names_is_known_soon(kafka: KafkaBroker, watched: Watched) -> None:
    name = unique("named")
    made(kafka, name, 2)
    assert watched.topics.partition_count(name) is None
    await until(lambda: watched.topics.partition_count(name) == 2, "it was asked about")


@pytest.mark.parametrize("watched", [NEVER_MS], indirect=True, ids=["one list only"])
async def test_what_a_request_names_is_known_when_the_request_goes_on(
    kafka: KafkaBroker, watched: Watched
) -> None:
    topics, name, other = watched.topics, unique("named"), unique("other")
    for each in (name, other):
        made(kafka, each)
        shown(kafka, each, 1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    other_id = await asked_for(topics, NamedTopic(other, ZERO_UUID, 1))
    wait(admin.create_partitions([NewPartitions(other, 3)]))
    shown(kafka, other, 3)
    await asked_for(topics, NamedTopic("", other_id, 3))
    assert topics.partition_count(other) == 3
    topic_id = shown(kafka, name, 1)
    assert await asked_for(topics, NamedTopic("", topic_id, 1)) == topic_id
    assert topics.topic_name(topic_id) == name


def shown(kafka: KafkaBroker, name: str, partitions: int) -> bytes:
    """Wait until the broker shows the topic with so many partitions; return its id."""

    def found() -> bytes | None:
        with WireClient(kafka.bootstrap) as client:
            (topic,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
        return topic.topic_id if len(topic.partitions) == partitions else None

    topic_id = wait_until(found, f"{name} has {partitions} partitions", 30)
    assert topic_id is not None
    return topic_id


async def asked_for(topics: ClusterTopics, named: NamedTopic) -> bytes:
    """Have the topic asked about; return its id as it is known then."""
    asked = asyncio.Event()
    assert topics.ask_first([named], asked.set)
    async with asyncio.timeout(30):
        await asked.wait()
    found = topics.topic_id(named.name) if named.name else named.topic_id
    assert found is not None
    assert not topics.ask_first([named], asked.set), "all is known"
    return found


@pytest.mark.parametrize("watched", [None], indirect=True, ids=["as often as its size allows"])
async def test_what_nobody_names_is_known_in_a_while(kafka: KafkaBroker, watched: Watched) -> None:
    topics, name = watched.topics, unique("unnamed")
    made(kafka, name)
    await until(lambda: name in set(topics.names()), "it is listed")


@pytest.mark.parametrize(
    ("partitions", "refresh_ms"), [(0, 5_000), (500, 5_000), (501, 5_010), (100_000, 300_000)]
)
async def test_the_more_there_is_to_be_listed_the_more_seldom(partitions: int, refresh_ms: int) -> None:
    assert refresh_ms_of(partitions) == refresh_ms


class Silent:
    """A cluster that says at the start which topics there are, and then nothing any more."""

    def __init__(self) -> None:
        self.answers = [MetadataResponse()]

    async def ask_any(self, request: object, min_version: int) -> MetadataResponse:
        if not self.answers:
            raise UnavailableError("no broker answers")
        return self.answers.pop()


async def test_what_waits_goes_on_though_no_broker_has_answered() -> None:
    topics, asked = Watched().topics, asyncio.Event()
    watch = TopicWatch(cast(Any, Silent()), topics, NEVER_MS)
    await watch.start()
    assert topics.ask_first([NamedTopic("orders", ZERO_UUID, 1)], asked.set)
    async with asyncio.timeout(30):
        await asked.wait()
    assert topics.image("orders") is None
    await watch.close()
