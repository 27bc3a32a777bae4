"""The fields of a partition that Metadata and DescribeTopicPartitions share, on a cluster of one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from coordinator.topics.partition import LEADER_EPOCH, NO_LEADER, Partition
from protocol.errors import ErrorCode

Row = TypeVar("Row")


def described(row: Callable[..., Row], partition: Partition, node_id: int, **more: Any) -> Row:
    """Return a partition's `row` of either API; `more` are the fields that only this API has.

    A partition whose log cannot be opened has no leader, as in Kafka: clients retry.
    """
    readable = partition.is_readable
    return row(
        error_code=ErrorCode.NONE if readable else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=node_id if readable else NO_LEADER,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
        offline_replicas=[] if readable else [node_id],
        **more,
    )
