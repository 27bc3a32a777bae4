"""Metadata, DescribeTopicPartitions, DescribeCluster: what clients learn of topics and of the one broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator.topics.names import GROUP_METADATA_TOPIC, MAX_NAME_LENGTH, name_problem
from coordinator.topics.settings import TopicSettings
from harness.doubles.faulty_files import FaultyFiles
from protocol.errors import ErrorCode
from protocol.messages.authorized_operations import OPERATIONS_NOT_ASKED_FOR
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.topics.world import World


def metadata(
    world: World, *names: str, version: int = 12, listener: str = "HOST", **fields: bool
) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return world.ask(MetadataRequest(topics=topics, **fields), version, listener=listener)  # type: ignore[no-any-return]


def found(answer: MetadataResponse) -> dict[str | None, tuple[int, int]]:
    return {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics}


@pytest.mark.parametrize("version", range(14))
def test_a_topic_is_described_in_every_version(world: World, version: int) -> None:
    world.topic("t", partitions=2)
    answer = metadata(world, "t", version=version)
    assert found(answer) == {"t": (0, 2)}
    assert [partition.partition_index for partition in answer.topics[0].partitions] == [0, 1]
    for partition in answer.topics[0].partitions:
        assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])
        assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert answer.cluster_id == ("tests" if version >= 2 else None)
    assert answer.controller_id == (1 if version >= 1 else -1)


def test_null_is_all_topics_and_an_empty_list_none(world: World) -> None:
    world.topic("t")
    world.registry.internal(GROUP_METADATA_TOPIC, 3, {})
    everything = world.ask(MetadataRequest(topics=None), 12)
    assert found(everything) == {"t": (0, 1), GROUP_METADATA_TOPIC: (0, 3)}
    assert {topic.name for topic in everything.topics if topic.is_internal} == {GROUP_METADATA_TOPIC}
    assert world.ask(MetadataRequest(topics=[]), 1).topics == []
    assert found(world.ask(MetadataRequest(topics=[]), 0)) == found(everything)


@pytest.mark.parametrize(
    ("listener", "address"), [("HOST", ("localhost", 9092)), ("DOCKER", ("broker", 19092))]
)
def test_the_broker_is_where_the_asked_listener_says(
    world: World, listener: str, address: tuple[str, int]
) -> None:
    (broker,) = metadata(world, listener=listener).brokers
    assert (broker.node_id, (broker.host, broker.port)) == (1, address)
    (node,) = world.ask(DescribeClusterRequest(), 2, listener=listener).brokers
    assert (node.broker_id, (node.host, node.port)) == (1, address)


def test_asking_makes_a_topic_behind_the_answer(world: World) -> None:
    """As Kafka does: the answer waits for nothing, and a client that asks again finds the topic."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    first, again = world.start(asked, 12), world.start(asked, 12)
    assert found(first.answer) == found(again.answer) == {"new": (3, 0)}
    world.settle()
    assert found(metadata(world, "new")) == {"new": (0, 1)}


def test_a_burst_for_one_name_makes_one_topic(world: World) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")] * 3)
    answers = [world.start(asked, 12).answer for _ in range(50)]
    assert {topic.error_code for answer in answers for topic in answer.topics} == {3}
    assert len(world.queue) == 1  # The one piece of work that makes it.
    world.settle()
    assert [(topic.name, len(topic.partitions)) for topic in world.registry.all()] == [("new", 1)]


def test_a_topic_that_cannot_be_written_stays_unknown_and_the_log_has_it(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    world = World(tmp_path, files=files)
    files.fail_always("write")
    with capture_logs() as lines:
        assert found(metadata(world, "new")) == {"new": (3, 0)}
    assert [(line["event"], line["topic"]) for line in lines] == [("topic cannot be changed", "new")]
    files.fault = None
    assert found(metadata(world, "new")) == {"new": (3, 0)}  # Asked for again: nothing holds its name.
    assert found(metadata(world, "new")) == {"new": (0, 1)}


@pytest.mark.parametrize(
    "settings", [TopicSettings(default_replication_factor=3), TopicSettings(max_partitions=0)]
)
def test_a_topic_that_may_not_be_made_stays_unknown(tmp_path: Path, settings: TopicSettings) -> None:
    world = World(tmp_path, settings)
    with capture_logs() as lines:
        assert [found(metadata(world, "new")) for _ in range(2)] == [{"new": (3, 0)}] * 2
    assert {(line["event"], line["topic"]) for line in lines} == {("topic is not auto-created", "new")}


def test_asking_makes_nothing_where_client_or_settings_forbid_it(world: World, tmp_path: Path) -> None:
    assert found(metadata(world, "new", allow_auto_topic_creation=False)) == {"new": (3, 0)}
    strict = World(tmp_path / "strict", TopicSettings(auto_create_topics_enable=False))
    assert found(metadata(strict, "new")) == {"new": (3, 0)}


def test_names_that_cannot_be_made_stay_unknown(world: World) -> None:
    world.topic("a.b")
    reserved = ("__transaction_state", "__share_group_state", "__cluster_metadata")
    for _ in range(2):
        answer = metadata(world, "no good", "a_b", *reserved)
        assert found(answer) == {"no good": (17, 0), "a_b": (3, 0), **dict.fromkeys(reserved, (3, 0))}
        internal = {topic.name for topic in answer.topics if topic.is_internal}
        assert internal == {"__transaction_state", "__share_group_state"}  # As Kafka says.


def test_new_topics_have_the_settings_number_of_partitions_within_the_bound(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(num_partitions=3, max_partitions=7))
    metadata(world, "a", "b", "c")
    assert found(metadata(world, "a", "b", "c")) == {"a": (0, 3), "b": (0, 3), "c": (3, 0)}


def test_topics_are_found_by_id_from_version_12(world: World) -> None:
    world.topic("t")
    topic_id = world.registry.topic_id("t")
    assert topic_id is not None
    by_id = [MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, b"\7" * 16)]
    answer = world.ask(MetadataRequest(topics=by_id), 12)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", 0), (None, 100)]
    refused = world.ask(MetadataRequest(topics=by_id[:1]), 11)
    assert [(topic.name, topic.error_code) for topic in refused.topics] == [("", ErrorCode.INVALID_REQUEST)]


def test_operations_are_answered_only_if_asked_for(world: World) -> None:
    world.topic("t")
    silent = metadata(world, "t", version=10)
    assert silent.topics[0].topic_authorized_operations == OPERATIONS_NOT_ASKED_FOR
    assert silent.cluster_authorized_operations == OPERATIONS_NOT_ASKED_FOR
    answer = metadata(
        world,
        "t",
        version=10,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    # What Apache Kafka 4.3.1 answers without an authorizer.
    assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (
        3576,
        8096,
    )


def test_a_cluster_is_described_to_who_asks_for_brokers(world: World) -> None:
    answer = world.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 2)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "tests", 1)
    assert answer.cluster_authorized_operations == 8096
    assert (
        world.ask(DescribeClusterRequest(endpoint_type=2), 1).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    )
    assert (
        world.ask(DescribeClusterRequest(endpoint_type=3), 1).error_code
        == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    )


# DescribeTopicPartitions.


def page(world: World, *names: str, limit: int = 2000, cursor: Cursor | None = None):  # type: ignore[no-untyped-def]
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequestTopic(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    answer = world.ask(request, 0)
    shown = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics]
    return shown, answer.next_cursor


def test_pages_follow_the_order_of_names_and_cover_all(world: World) -> None:
    world.topic("b", partitions=2)
    world.topic("a", partitions=2)
    first, cursor = page(world, "b", "nope", "a", limit=3)
    assert first == [("a", [0, 1]), ("b", [0])]
    second, end = page(world, "b", "nope", "a", limit=3, cursor=cursor)
    assert second == [("b", [1]), ("nope", [])]
    assert end is None
    assert page(world) == ([("a", [0, 1]), ("b", [0, 1])], None)


def test_a_full_page_ends_before_the_next_topic(world: World) -> None:
    world.topic("a", partitions=2)
    world.topic("b")
    assert page(world, limit=2) == ([("a", [0, 1])], Cursor(topic_name="b", partition_index=0))
    assert page(world, limit=0)[0] == [("a", [0])]


def test_a_cursor_that_leads_nowhere_is_refused(world: World) -> None:
    world.topic("a")
    for cursor in (Cursor(topic_name="zz", partition_index=0), Cursor(topic_name="a", partition_index=-1)):
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequestTopic(name="a")], cursor=cursor
        )
        (topic,) = world.ask(request, 0).topics
        assert topic.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["a", "A-1._z", "x" * MAX_NAME_LENGTH, "..."])
def test_names_that_are_fine(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * (MAX_NAME_LENGTH + 1), "a b", "ä", "a/b", "a\x00"])
def test_names_that_are_not(name: str) -> None:
    assert name_problem(name) is not None
