"""DescribeLogDirs, ElectLeaders, reassignments, ACLs, resources with settings."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.messages.shared import TopicPartitions
from storage.files import StorageError
from tests.topics.requests import produce
from tests.topics.world import World, batch

MATCH_ALL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def sizes(
    world: World, topics: list[DescribableLogDirTopic] | None, version: int = 5
) -> dict[str, dict[int, int]]:
    (directory,) = world.ask(DescribeLogDirsRequest(topics=topics), version).results
    assert (directory.error_code, directory.log_dir) == (0, str(world.directory))
    return {
        topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
        for topic in directory.topics
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_partitions_have_the_sizes_of_their_files(world: World, version: int) -> None:
    world.topic("t", 2)
    world.topic("u")
    produce(world, batch(b"x" * 1000, at_ms=world.wall))
    on_disk = sum(path.stat().st_size for path in (world.directory / "t-0").glob("*.log"))
    assert on_disk > 1000
    assert sizes(world, None, version) == {"t": {0: on_disk, 1: 0}, "u": {0: 0}}
    asked = [
        DescribableLogDirTopic(topic="t", partitions=[0, 7]),
        DescribableLogDirTopic(topic="x", partitions=[0]),
    ]
    assert sizes(world, asked, version) == {"t": {0: on_disk}}
    assert sizes(world, [], version) == {}


def test_what_the_volume_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory,) = world.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert 0 < directory.usable_bytes <= directory.total_bytes

    def refuse(path: Any) -> tuple[int, int]:
        raise StorageError("statvfs", path, "no")

    monkeypatch.setattr(world.files, "space", refuse)
    (directory,) = world.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert (directory.error_code, directory.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_ever_needed(world: World, version: int) -> None:
    world.topic("t")
    asked = [TopicPartitions(topic="t", partitions=[0, 7]), TopicPartitions(topic="nope", partitions=[0])]
    answer = world.ask(ElectLeadersRequest(topic_partitions=asked), version)
    errors = [
        [each.error_code for each in topic.partition_result] for topic in answer.replica_election_results
    ]
    assert errors == [[84, 3], [3]]
    answer = world.ask(ElectLeadersRequest(topic_partitions=None), version)
    assert [(topic.topic, topic.partition_result) for topic in answer.replica_election_results] == [("t", [])]


def test_an_unknown_kind_of_election(world: World) -> None:
    answer = world.ask(ElectLeadersRequest(election_type=9, topic_partitions=None), 2)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_nothing_is_reassigned(world: World) -> None:
    answer = world.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


@pytest.mark.parametrize("version", range(1, 4))
def test_there_is_no_authorizer(world: World, version: int) -> None:
    answer = world.ask(DescribeAclsRequest(**MATCH_ALL), version)
    assert (answer.error_code, answer.error_message) == (54, "No Authorizer is configured on the broker")
    acl = AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=2, permission_type=3
    )
    results = world.ask(CreateAclsRequest(creations=[acl, acl]), version).results
    results += world.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**MATCH_ALL)]), version).filter_results
    assert [(each.error_code, each.error_message) for each in results] == [
        (54, "No Authorizer is configured.")
    ] * 3


def test_topics_and_the_broker_have_settings(world: World) -> None:
    world.topic("t")

    def listed(kinds: list[int], version: int = 1) -> tuple[int, set[tuple[str, int]]]:
        asked = ListConfigResourcesRequest(resource_types=kinds)
        answer = world.ask(asked, version)
        return answer.error_code, {
            (each.resource_name, each.resource_type) for each in answer.config_resources
        }

    assert listed([]) == (0, {("t", 2), ("1", 4)})
    assert listed([2]) == (0, {("t", 2)})
    assert listed([8, 16, 32]) == (0, set())
    assert listed([3]) == (ErrorCode.UNSUPPORTED_VERSION, set())
    assert listed([], version=0) == (0, set())
