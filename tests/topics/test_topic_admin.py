"""CreateTopics, CreatePartitions, DeleteTopics: what they do, and Kafka 4.3.1's words when they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.settings import TopicSettings
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.topics.requests import fetch, produce, produce_request
from tests.topics.world import World, batch


def topic(
    name: str = "t",
    partitions: int = 1,
    replicas: int = 1,
    assigned: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in (assigned or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(
    world: World, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    answer: CreateTopicsResponse = world.ask(request, version)
    return answer.topics


def outcomes(results: list[Any]) -> list[tuple[str | None, int]]:
    return [(result.name, result.error_code) for result in results]


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made_and_echoed(world: World, version: int) -> None:
    (result,) = create(world, topic(partitions=3, configs={"retention.ms": "77"}), version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert world.registry.partition_count("t") == 3
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        shown = {config.name: (config.value, config.config_source) for config in result.configs or ()}
        assert len(shown) == 33
        assert shown["retention.ms"] == ("77", 1)
        assert shown["segment.bytes"] == ("1073741824", 5)
    if version >= 7:
        assert result.topic_id == world.registry.topic_id("t")


def test_defaults_come_from_the_settings(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(num_partitions=4))
    (result,) = create(world, topic(partitions=-1, replicas=-1))
    assert (result.error_code, result.num_partitions) == (0, 4)


def test_what_is_only_checked_is_not_made(world: World) -> None:
    (result,) = create(world, topic(partitions=2), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 2)
    assert world.registry.get("t") is None


def test_each_topic_stands_for_itself(world: World) -> None:
    world.topic("there")
    results = create(world, topic("a"), topic("there"), topic("b", partitions=0), topic("c"))
    assert outcomes(results) == [("a", 0), ("there", 36), ("b", 37), ("c", 0)]


def test_the_bound_on_partitions_counts_those_that_are_there_or_being_made(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(max_partitions=5))
    world.topic("there", partitions=2)
    results = create(world, topic("a", partitions=2), topic("b", partitions=2), topic("c"))
    assert outcomes(results) == [("a", 0), ("b", ErrorCode.POLICY_VIOLATION), ("c", 0)]
    assert widen(world, "a", 3)[0] == ErrorCode.POLICY_VIOLATION
    assert widen(world, "c", 2)[0] == ErrorCode.POLICY_VIOLATION


def test_a_topic_named_twice_is_refused_once(world: World) -> None:
    (result,) = create(world, topic("a"), topic("a"))
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


REFUSED = {
    "no partitions": (
        topic(partitions=0),
        37,
        "Number of partitions was set to an invalid non-positive value.",
    ),
    "no replicas": (topic(replicas=0), 38, "Replication factor must be larger than 0"),
    "two replicas": (topic(replicas=2), 38, "Unable to replicate the partition 2 time(s)"),
    "empty name": (topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
    "bad name": (topic("a b"), 17, "contains one or more characters other than ASCII alphanumerics"),
    "collision": (topic("the_re"), 17, "Topic 'the_re' collides with existing topic: the.re"),
    "there": (topic("the.re"), 36, "Topic 'the.re' already exists."),
    "internal": (topic("__transaction_state"), 17, "is made by the daemon alone"),
    "unknown setting": (topic(configs={"foo": "1"}), 40, "Unknown topic config name: foo"),
    "bad setting": (
        topic(configs={"retention.ms": "-2"}),
        40,
        "Invalid value -2 for configuration retention.ms: Value must be at least -1",
    ),
    "null setting": (
        topic(configs={"retention.ms": None}),
        40,
        "Null value not supported for topic configs: retention.ms",
    ),
    "too many": (topic(partitions=2**31 - 1), 44, "no more than"),
    "assigned and counted": (topic(assigned={0: [1]}, partitions=1, replicas=-1), 42, "numPartitions"),
    "assigned and replicated": (
        topic(assigned={0: [1]}, partitions=-1, replicas=1),
        42,
        "replication factor",
    ),
    "assigned with a gap": (topic(assigned={0: [1], 2: [1]}, partitions=-1, replicas=-1), 39, "consecutive"),
    "assigned elsewhere": (topic(assigned={0: [7]}, partitions=-1, replicas=-1), 39, "includes broker 7"),
    "assigned nowhere": (topic(assigned={0: []}, partitions=-1, replicas=-1), 39, "empty replica list"),
    "assigned twice": (topic(assigned={0: [1, 1]}, partitions=-1, replicas=-1), 39, "more than once"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_made_is_refused_in_kafkas_words(world: World, what: str) -> None:
    world.topic("the.re")
    asked, error, words = REFUSED[what]
    (result,) = create(world, asked)
    assert result.error_code == error
    assert words in (result.error_message or "")
    assert result.topic_id == ZERO_UUID
    assert [each.name for each in world.registry.all()] == ["the.re"]


def test_an_assignment_to_the_one_node_is_fine(world: World) -> None:
    (result,) = create(world, topic(assigned={1: [1], 0: [1]}, partitions=-1, replicas=-1))
    assert (result.error_code, result.num_partitions) == (0, 2)


def test_a_name_is_taken_while_its_topic_is_being_made(world: World) -> None:
    first = world.start(CreateTopicsRequest(topics=[topic("a.b")]), 7)
    second = world.start(CreateTopicsRequest(topics=[topic("a.b"), topic("a_b")]), 7)
    world.settle()
    assert outcomes(first.answer.topics) == [("a.b", 0)]
    assert outcomes(second.answer.topics) == [("a.b", 36), ("a_b", 17)]


# CreatePartitions.


def widen(
    world: World, name: str, count: int, assigned: list[list[int]] | None = None, **fields: bool
) -> Any:
    assignments = (
        None if assigned is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    )
    asked = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    (result,) = world.ask(CreatePartitionsRequest(topics=[asked], timeout_ms=1, **fields), 3).results
    return result.error_code, result.error_message


def test_a_topic_gets_more_partitions_and_keeps_its_records(world: World) -> None:
    world.topic("t", partitions=2)
    produce(world, batch(b"a"), partition=1)
    assert widen(world, "t", 4) == (0, None)
    assert produce(world, batch(b"a"), partition=3).base_offset == 0
    after = world.restart()
    assert after.registry.partition_count("t") == 4
    assert [fetch(after, partition=index).high_watermark for index in range(4)] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "count", "assigned", "error"),
    [
        ("t", 2, None, (37, "Topic already has 2 partition(s).")),
        ("t", 1, None, (37, "The topic t currently has 2 partition(s); 1 would not be an increase.")),
        ("nope", 3, None, (3, None)),
        (
            "t",
            3,
            [[1], [1]],
            (39, "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified."),
        ),
        (
            "t",
            3,
            [[9]],
            (39, "The manual partition assignment includes broker 9, but no such broker is registered."),
        ),
    ],
)
def test_what_cannot_be_widened_is_refused_in_kafkas_words(
    world: World, name: str, count: int, assigned: list[list[int]] | None, error: tuple[int, str | None]
) -> None:
    world.topic("t", partitions=2)
    assert widen(world, name, count, assigned) == error
    assert world.registry.partition_count("t") == 2


def test_widening_can_be_checked_only_and_has_a_bound(world: World) -> None:
    world.topic("t")
    assert widen(world, "t", 3, validate_only=True) == (0, None)
    assert world.registry.partition_count("t") == 1
    assert widen(world, "t", 10**9)[0] == ErrorCode.POLICY_VIOLATION


def test_the_offsets_topic_keeps_its_partitions(world: World) -> None:
    world.registry.internal(GROUP_METADATA_TOPIC, 2, {})
    assert widen(world, GROUP_METADATA_TOPIC, 3)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION


# DeleteTopics.


def delete(world: World, *states: tuple[str | None, bytes]) -> list[DeletableTopicResult]:
    asked = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
    answer: DeleteTopicsResponse = world.ask(DeleteTopicsRequest(topics=asked, timeout_ms=1), 6)
    return answer.responses


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(world: World, version: int) -> None:
    world.topic("t")
    answer = world.ask(DeleteTopicsRequest(topic_names=["t", "nope"], timeout_ms=1), version)
    assert outcomes(answer.responses) == [("t", 0), ("nope", 3)]
    assert world.registry.get("t") is None


def test_topics_are_deleted_by_id(world: World) -> None:
    world.topic("t")
    topic_id = world.registry.topic_id("t")
    assert topic_id is not None
    results = delete(world, (None, topic_id), (None, b"\7" * 16))
    assert [(each.name, each.topic_id, each.error_code) for each in results] == [
        ("t", topic_id, 0),
        (None, b"\7" * 16, 100),
    ]


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([(None, ZERO_UUID)], "Neither topic name nor id were specified."),
        ([("t", b"\1" * 16)], "You may not specify both topic name and topic id."),
        ([("t", ZERO_UUID), ("t", ZERO_UUID)], "Duplicate topic name."),
    ],
)
def test_a_topic_that_is_named_badly_is_not_deleted(
    world: World, states: list[tuple[str | None, bytes]], words: str
) -> None:
    world.topic("t")
    (result,) = delete(world, *states)
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, words)
    assert world.registry.get("t") is not None


def test_a_deleted_topic_is_reported_with_its_id_and_a_new_one_is_another_and_empty(world: World) -> None:
    deleted: list[tuple[str, bytes]] = []
    world.registry.on_deleted.append(lambda name, topic_id: deleted.append((name, topic_id)))
    create(world, topic("t"))
    produce(world, batch(b"old"))
    old_id = world.registry.topic_id("t")
    delete(world, ("t", ZERO_UUID))
    assert deleted == [("t", old_id)]
    create(world, topic("t"))
    assert world.registry.topic_id("t") != old_id
    assert fetch(world).high_watermark == 0
    assert produce(world, batch(b"new")).base_offset == 0
    after = world.restart()
    assert fetch(after).high_watermark == 1


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(delete_topic_enable=False))
    world.topic("t")
    assert outcomes(delete(world, ("t", ZERO_UUID))) == [("t", ErrorCode.TOPIC_DELETION_DISABLED)]


def test_internal_topics_stay(world: World) -> None:
    world.registry.internal(GROUP_METADATA_TOPIC, 2, {})
    assert delete(world, (GROUP_METADATA_TOPIC, ZERO_UUID))[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_batch_that_waits_for_the_disk_when_its_topic_goes_is_answered(world: World) -> None:
    world.topic("t")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1)
    deleting = world.start(request, 6)
    waiting = world.start(produce_request(batch(b"a")), 9)
    world.settle()
    assert deleting.answer.responses[0].error_code == 0
    error = waiting.answer.responses[0].partition_responses[0].error_code
    assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
