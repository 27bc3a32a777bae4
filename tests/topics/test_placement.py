"""Which node leads a partition, and what clients are told of it, on a cluster of two nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.partitioning import partition_for
from coordinator.server.find_coordinator import NOT_AVAILABLE_TEXT, FindCoordinator
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.placement import NO_LEADER, Node, Placement
from harness.doubles.fake_pending import FakePending
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.find_coordinator import Coordinator, CoordinatorType, FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.topics.world import World

OFFSETS = GROUP_METADATA_TOPIC
OWN, OTHER = 1, 2
PARTITIONS = {GROUP_METADATA_TOPIC: 4, TRANSACTION_STATE_TOPIC: 2}
OTHERS = {"HOST": ("localhost", 9093), "DOCKER": ("other", 19093)}


def node(node_id: int) -> Node:
    return Node(node_id, lambda listener: (f"{listener}-{node_id}", 9_000 + node_id))


@pytest.fixture
def placement() -> Placement:
    return Placement(node(OWN), [node(OTHER)])


# The table.


@pytest.mark.parametrize("partition", [0, 49, 50, 100_000])
def test_whatever_was_never_placed_is_the_controllers(partition: int) -> None:
    """Also partitions beyond those that anyone has placed."""
    own = Placement(node(OWN), [node(OTHER)], controller_id=OTHER)
    own.place(OFFSETS, 3, OWN)
    assert (own.leader_of(OFFSETS, partition), own.leads(OFFSETS, partition)) == (OTHER, False)
    assert (own.leader_of(OFFSETS, 3), own.leads(OFFSETS, 3)) == (OWN, True)
    assert own.leader_of(TRANSACTION_STATE_TOPIC, 3) == OTHER


def test_a_node_by_itself_leads_everything() -> None:
    own = Placement(node(OWN))
    assert own.leads(OFFSETS, 0)
    assert own.leads("orders", 7)
    assert [each.node_id for each in own.nodes] == [OWN]


def test_a_node_that_is_down_leads_nothing_until_it_is_back(placement: Placement) -> None:
    placement.place(OFFSETS, 0, OTHER)
    placement.node_down(OTHER)
    assert (placement.home_of(OFFSETS, 0), placement.leader_of(OFFSETS, 0)) == (OTHER, NO_LEADER)
    placement.node_up(node(OTHER))
    assert placement.leader_of(OFFSETS, 0) == OTHER


def test_listeners_find_the_table_changed(placement: Placement) -> None:
    heard: list[Any] = []
    placement.on_moved.append(
        lambda topic, index: heard.append((topic, index, placement.leads(topic, index)))
    )
    placement.place(OFFSETS, 2, OTHER)
    placement.place(OFFSETS, 2, OWN)
    assert heard == [(OFFSETS, 2, False), (OFFSETS, 2, True)]


# FindCoordinator.


def found(
    placement: Placement,
    key: str,
    kind: int = CoordinatorType.GROUP,
    version: int = 4,
    listener: str = "HOST",
) -> Any:
    asked = FakePending(version, listener=listener)
    request = FindCoordinatorRequest(key_type=kind, key=key, coordinator_keys=[key])
    FindCoordinator(placement, PARTITIONS)(request, asked)  # type: ignore[arg-type]
    return asked.answer.coordinators[0] if version >= 4 else asked.answer


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_a_group_is_found_at_the_node_that_leads_its_shard(placement: Placement, version: int) -> None:
    placement.place(OFFSETS, partition_for("g", 4), OTHER)
    for listener in ("HOST", "DOCKER"):
        answer = found(placement, "g", version=version, listener=listener)
        assert (answer.error_code, answer.node_id) == (0, OTHER)
        assert (answer.host, answer.port) == (f"{listener}-{OTHER}", 9_000 + OTHER)


def test_groups_and_transactions_are_placed_apart(placement: Placement) -> None:
    placement.place(TRANSACTION_STATE_TOPIC, partition_for("g", 2), OTHER)
    assert found(placement, "g").node_id == OWN
    assert found(placement, "g", CoordinatorType.TRANSACTION).node_id == OTHER


@pytest.mark.parametrize("is_placed", [True, False])
def test_without_a_leader_the_coordinator_is_not_available(placement: Placement, is_placed: bool) -> None:
    placement.place(OFFSETS, partition_for("g", 4), OTHER if is_placed else NO_LEADER)
    placement.node_down(OTHER)
    assert found(placement, "g") == Coordinator(
        key="g",
        node_id=-1,
        host="",
        port=-1,
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        error_message="",
    )
    older = found(placement, "g", version=3)
    assert (older.error_code, older.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert older.error_message == NOT_AVAILABLE_TEXT


# Metadata, DescribeTopicPartitions, DescribeCluster.


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.registry.internal(OFFSETS, 3, {})
    made.topic("orders")
    made.placement.node_up(Node(OTHER, OTHERS.__getitem__, "rack"))
    made.placement.place(OFFSETS, 1, OTHER)
    return made


def rows(world: World, topic: str, of: str) -> list[tuple[Any, ...]]:
    """Of each partition of the topic: error, leader, replicas, in-sync and offline replicas."""
    if of == "Metadata":
        answer = world.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    else:
        asked = [DescribeTopicPartitionsRequestTopic(name=topic)]
        answer = world.ask(DescribeTopicPartitionsRequest(topics=asked), 0)
    return [
        (each.error_code, each.leader_id, each.replica_nodes, each.isr_nodes, each.offline_replicas)
        for each in answer.topics[0].partitions
    ]


@pytest.mark.parametrize("of", ["Metadata", "DescribeTopicPartitions"])
def test_each_partition_has_its_own_leader(world: World, of: str) -> None:
    of_own = (0, OWN, [OWN], [OWN], list[int]())
    of_other = (0, OTHER, [OTHER], [OTHER], list[int]())
    assert rows(world, OFFSETS, of) == [of_own, of_other, of_own]
    assert rows(world, "orders", of) == [of_own]


@pytest.mark.parametrize("of", ["Metadata", "DescribeTopicPartitions"])
def test_a_partition_of_a_node_that_is_down_has_none(world: World, of: str) -> None:
    world.placement.node_down(OTHER)
    world.placement.place(OFFSETS, 2, NO_LEADER)
    gone = ErrorCode.LEADER_NOT_AVAILABLE
    assert rows(world, OFFSETS, of) == [
        (0, OWN, [OWN], [OWN], []),
        (gone, NO_LEADER, [OTHER], [OTHER], [OTHER]),
        (gone, NO_LEADER, [], [], []),
    ]


@pytest.mark.parametrize(("listener", "port"), [("HOST", 9093), ("DOCKER", 19093)])
def test_all_nodes_are_shown_at_the_listener_that_was_asked(world: World, listener: str, port: int) -> None:
    metadata = world.ask(MetadataRequest(topics=[]), 12, listener=listener)
    cluster = world.ask(DescribeClusterRequest(), 1, listener=listener)
    shown = [(each.node_id, each.port, each.rack) for each in metadata.brokers]
    assert shown == [(each.broker_id, each.port, each.rack) for each in cluster.brokers]
    assert [each[0] for each in shown] == [OWN, OTHER]
    assert shown[1] == (OTHER, port, "rack")
    assert metadata.controller_id == cluster.controller_id == OWN


def test_a_node_that_is_down_is_not_shown(world: World) -> None:
    world.placement.node_down(OTHER)
    assert [each.node_id for each in world.ask(MetadataRequest(topics=[]), 12).brokers] == [OWN]
    assert [each.broker_id for each in world.ask(DescribeClusterRequest(), 1).brokers] == [OWN]


def test_another_node_may_be_the_controller(world: World) -> None:
    world.placement.controller_id = OTHER
    assert world.ask(MetadataRequest(topics=[]), 12).controller_id == OTHER
    assert world.ask(DescribeClusterRequest(), 1).controller_id == OTHER
    assert rows(world, "orders", "Metadata")[0][1] == OTHER
