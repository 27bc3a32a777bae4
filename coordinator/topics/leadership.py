"""The fields of a partition that Metadata and DescribeTopicPartitions share: its leader, and its one replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from coordinator.topics.partition import LEADER_EPOCH, Partition
from coordinator.topics.placement import NO_LEADER, Placement
from protocol.errors import ErrorCode

Row = TypeVar("Row")


def described(row: Callable[..., Row], partition: Partition, placement: Placement, **more: Any) -> Row:
    """Return a partition's `row` of either API; `more` are the fields that only this API has.

    A partition whose node is down, or whose log cannot be opened here, has no leader, as in Kafka: clients retry.
    """
    topic, index = partition.topic, partition.index
    home, leader = placement.home_of(topic, index), placement.leader_of(topic, index)
    if home == placement.own.node_id and not partition.is_readable:
        leader = NO_LEADER
    replicas = [] if home == NO_LEADER else [home]
    return row(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
        partition_index=index,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=replicas,
        isr_nodes=list(replicas),
        offline_replicas=list(replicas) if leader == NO_LEADER else [],
        **more,
    )
