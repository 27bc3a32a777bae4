"""What Metadata and DescribeTopicPartitions both say of a partition, on the one node there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from coordinator.topics.partition import LEADER_EPOCH, NO_LEADER, Partition
from protocol.errors import ErrorCode

Row = TypeVar("Row")


def described(row: Callable[..., Row], partition: Partition, node_id: int, **more: Any) -> Row:
    """A `row` of either API, with what that one has `more` to say.

    A partition whose log cannot be opened has no leader, as in Kafka: clients ask again.
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
