"""What asks the cluster on and on outlives an answer that no cluster should give, and says what it was."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from coordinator.backing.kafka import cluster as cluster_module
from coordinator.backing.kafka import group_settings, node_group, tail, topic_watch
from coordinator.backing.kafka.cluster import BackingCluster, BackingError, BrokerAddress, UnavailableError
from coordinator.backing.kafka.cluster_topics import ClusterTopics
from coordinator.backing.kafka.group_settings import GroupSettingsWatch
from coordinator.backing.kafka.node_group import NodeGroup
from coordinator.backing.kafka.tail import Tail
from coordinator.backing.kafka.topic_watch import TopicWatch
from coordinator.daemon.node_backing import prepared
from coordinator.settings.sources import load
from protocol.messages.fetch import FetchResponse
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.backing.kafka_node import until
from tests.backing.test_fetch_session import TOPIC, Follower
from tests.backing.test_group_settings import BEAT, FakeCluster

pytestmark = pytest.mark.asyncio

BROKER = SimpleNamespace(nodeId=3, host="kafka", port=9_003)
KNOWN = {3: BrokerAddress("kafka", 9_003)}
METADATA = MetadataResponse(
    brokers=[MetadataResponseBroker(node_id=3, host="kafka", port=9_003)],
    topics=[
        MetadataResponseTopic(
            name="logs",
            topic_id=b"\x01" * 16,
            partitions=[
                MetadataResponsePartition(partition_index=0, leader_id=3, replica_nodes=[3], isr_nodes=[3])
            ],
        )
    ],
)


class Bootstrap:
    """aiokafka's client, whose metadata has these brokers."""

    brokers: tuple[Any, ...] = ()

    def __init__(self, **_: object) -> None:
        self.cluster = SimpleNamespace(brokers=lambda: Bootstrap.brokers)

    async def bootstrap(self) -> None:
        """It is answered."""

    async def close(self) -> None:
        """It leaves nothing."""


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "AIOKafkaClient", Bootstrap)
    monkeypatch.setattr(Bootstrap, "brokers", ())
    monkeypatch.setattr(cluster_module, "LEADERLESS_RETRY_S", 0)
    monkeypatch.setattr(topic_watch, "PAUSE_S", 0)
    monkeypatch.setattr(group_settings, "PAUSE_S", 0)
    monkeypatch.setattr(group_settings, "PAUSE_OF_A_GROUP_S", 0)
    monkeypatch.setattr(node_group, "AGAIN_S", 0)
    monkeypatch.setattr(tail, "RETRY_S", 0)
    monkeypatch.setattr(tail, "SLOW_RETRY_S", 0)


def reasons(logs: list[EventDict]) -> list[str]:
    """Why something did not work; each that is a bug has its trace."""
    found = [each["reason"] for each in logs if each["log_level"] == "warning"]
    assert all(isinstance(each["exc_info"], ValueError) for each in logs if "ValueError" in str(each))
    return found


async def test_a_start_at_a_cluster_without_brokers_is_one_sentence() -> None:
    settings = load({"muster.backing.bootstrap.servers": "kafka:9092"}).settings
    with pytest.raises(
        BackingError, match=r"^the Kafka at kafka:9092 names none of its brokers yet: try again once .*$"
    ):
        await prepared(BackingCluster("kafka:9092"), settings)


async def test_brokers_that_are_known_stay_where_none_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = BackingCluster("kafka:9092")
    with pytest.raises(UnavailableError, match="no broker of the cluster is known"):
        await cluster.ask_any(MetadataRequest(topics=None))
    monkeypatch.setattr(Bootstrap, "brokers", (BROKER,))
    await cluster.start()
    monkeypatch.setattr(Bootstrap, "brokers", ())
    asked: list[int] = []

    async def away(node_id: int, *_: object, **__: object) -> None:
        asked.append(node_id)
        raise UnavailableError("it is away")

    monkeypatch.setattr(cluster, "ask", away)
    cluster.refresh_soon()
    await until(lambda: len(asked) > 3, "it asks on")
    assert cluster.brokers == KNOWN
    await cluster.close()


async def test_who_leads_what_is_asked_on_after_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, refreshed, answers = BackingCluster("kafka:9092"), [], [METADATA]
    cluster.on_refreshed = lambda: refreshed.append(True)
    asked = 0

    async def ask_any(*_: object, **__: object) -> MetadataResponse:
        nonlocal asked
        asked += 1
        if asked <= 3:
            raise ValueError("of a later version") if asked != 2 else BackingError("it makes no sense")
        return answers[0]

    monkeypatch.setattr(cluster, "ask_any", ask_any)
    with capture_logs() as logs:
        await cluster.follow("logs")
    assert (cluster.leader_of(0), refreshed) == (3, [True])
    assert reasons(logs) == [
        "ValueError: of a later version",
        "it makes no sense",
        "ValueError: of a later version",
    ]
    await cluster.close()


async def test_topics_are_listed_on_after_a_bug() -> None:
    asked = 0

    class Odd:
        async def ask_any(self, request: object, min_version: int) -> MetadataResponse:
            nonlocal asked
            asked += 1
            if 1 < asked < 6:
                raise ValueError("of a later version")
            return METADATA if asked > 5 else MetadataResponse()

    topics = ClusterTopics(lambda *_: None, 1_000)
    watch = TopicWatch(cast(Any, Odd()), topics, 0)
    with capture_logs() as logs:
        await watch.start()
        await until(lambda: "logs" in set(topics.names()), "it is listed")
        await watch.close()
    assert reasons(logs) == ["ValueError: of a later version"]


async def test_settings_of_groups_are_followed_on_after_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of an answer, and then one of a group, which keeps no other from its settings."""
    cluster, said, refused = FakeCluster(), set[str](), {"b"}

    def on_set(group_id: str, _: object) -> None:
        if group_id in refused:
            raise ValueError(f"a bug of {group_id}")
        said.add(group_id)

    watch = GroupSettingsWatch(cast(Any, cluster), on_set)
    described = watch._described
    with capture_logs() as logs:
        await watch.start()
        monkeypatch.setattr(watch, "_described", lambda: _raise(ValueError("of a later version")))
        await until(lambda: len(reasons(logs)) == 1, "it is said")
        cluster.texts = {name: {BEAT: "6000"} for name in "abcd"}
        monkeypatch.setattr(watch, "_described", described)
        await until(lambda: said == {"a", "c", "d"}, "the others have theirs")
        looks = len(cluster.asked)
        await until(lambda: len(cluster.asked) > looks + 8, "it looks on")
        refused.clear()
        await until(lambda: said == {"a", "b", "c", "d"}, "it is tried again")
        await watch.close()
    assert reasons(logs) == ["ValueError: of a later version", "ValueError: a bug of b"]


async def _raise(error: Exception) -> Any:
    await asyncio.sleep(0)
    raise error


async def test_a_node_joins_the_others_after_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = 0
    group = NodeGroup("kafka:9092", {}, "logs", cast(Any, None), lambda _: None)

    async def join() -> None:
        nonlocal joined
        joined += 1
        await _raise(ValueError("of aiokafka's"))

    monkeypatch.setattr(group, "_join", join)
    with capture_logs() as logs:
        group.start()
        await until(lambda: joined > 3, "it tries on")
        await group.close()
    assert reasons(logs) == ["ValueError: of aiokafka's"]


async def test_a_broker_is_read_on_after_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an answer as a whole; those of one partition are contained by themselves."""
    reader = Tail(cast(Any, SimpleNamespace(refresh_soon=lambda: None)), TOPIC, {0: Follower()})
    reader._led = {3: [0]}
    fetches = 0

    async def fetch(*_: object) -> FetchResponse:
        nonlocal fetches
        fetches += 1
        return cast(FetchResponse, await _raise(ValueError("of a later version")))

    monkeypatch.setattr(reader, "_fetch", fetch)
    with capture_logs() as logs:
        reading = asyncio.ensure_future(reader._read(3))
        await until(lambda: fetches > 3, "it reads on")
        reading.cancel()
    assert reasons(logs) == ["ValueError: of a later version"]


async def test_a_partition_without_a_leader_is_asked_for_until_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not read meanwhile, so no reader would have it asked for again."""
    cluster, leaders = BackingCluster("kafka:9092"), [-1, -1, 3]

    async def ask_any(*_: object, **__: object) -> MetadataResponse:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=leaders.pop(0), replica_nodes=[3], isr_nodes=[3]
        )
        topic = MetadataResponseTopic(name="logs", topic_id=b"\x01" * 16, partitions=[partition])
        return MetadataResponse(brokers=[], topics=[topic])

    monkeypatch.setattr(cluster, "ask_any", ask_any)
    await cluster.follow("logs")
    assert (cluster.leader_of(0), leaders) == (3, [])
    await cluster.close()
