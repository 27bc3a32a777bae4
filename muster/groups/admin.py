"""What the command line asks a cluster about groups, as plain values: list, delete, reset offsets.

It speaks the Kafka protocol only, so it works on any cluster. It formats nothing, and leaves to
`cluster` how requests travel. `descriptions` has what groups are described by, `offsets` what they have committed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.cluster import Cluster, check, retried
from muster.groups.running import each
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.topic_partition import TopicPartition

NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One line of the list. State and type are blank where the broker is too old to report them."""

    group_id: str
    state: str
    protocol_type: str
    group_type: str
    coordinator: int


async def list_groups(cluster: Cluster) -> list[GroupListing]:
    """The groups of all brokers, sorted by id. Raises ClusterError."""
    lists = await asyncio.gather(*(groups_of(cluster, node_id) for node_id in cluster.node_ids))
    return sorted((group for groups in lists for group in groups), key=lambda group: group.group_id)


async def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
    """Delete groups without members, and their offsets; return the error code of each. Raises ClusterError."""
    wanted: dict[int, list[str]] = defaultdict(list)
    names = list(dict.fromkeys(group_ids))
    for group_id, node_id in zip(names, await each(cluster.coordinator, names), strict=True):
        wanted[node_id].append(group_id)
    outcome: dict[str, ErrorCode] = {}
    for node_id, of_node in wanted.items():
        answer = await cluster.send(node_id, DeleteGroupsRequest(groups_names=of_node))
        outcome |= {result.group_id: ErrorCode(result.error_code) for result in answer.results}
    return {group_id: outcome[group_id] for group_id in names}


async def partitions_of(cluster: Cluster, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """The leader of each partition of `topics`. Topics that do not exist are left out, and not created."""
    names = sorted(set(topics))
    if not names:
        return {}
    wanted = [MetadataRequestTopic(name=name) for name in names]
    answer = await cluster.send_to_any(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    return {
        TopicPartition(topic.name, partition.partition_index): partition.leader_id
        for topic in answer.topics
        if topic.error_code == ErrorCode.NONE
        for partition in topic.partitions
    }


async def offsets_at(
    cluster: Cluster, leaders: Mapping[TopicPartition, int], timestamp: int
) -> dict[TopicPartition, int]:
    """The first offset at or after `timestamp` (ms, or EARLIEST or LATEST) per partition; NO_OFFSET if none."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for where, leader in leaders.items():
        by_leader[leader].append(where)
    found: dict[TopicPartition, int] = {}
    for leader, wanted in by_leader.items():
        answer = await cluster.send(leader, _list_offsets_request(wanted, timestamp))
        for topic in answer.topics:
            for partition in topic.partitions:
                check(f"listing offsets of {topic.name}-{partition.partition_index}", partition.error_code)
                found[TopicPartition(topic.name, partition.partition_index)] = partition.offset
    return found


async def groups_of(cluster: Cluster, node_id: int) -> list[GroupListing]:
    """The groups of one broker. Raises ClusterError."""

    async def ask() -> list[GroupListing]:
        answer = await cluster.send(node_id, ListGroupsRequest())
        check(f"listing the groups of broker {node_id}", answer.error_code)
        return [
            GroupListing(group.group_id, group.group_state, group.protocol_type, group.group_type, node_id)
            for group in answer.groups
        ]

    return await retried(ask, cluster.patience_s)


def _list_offsets_request(wanted: Iterable[TopicPartition], timestamp: int) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for where in wanted:
        by_topic[where.topic].append(
            ListOffsetsPartition(partition_index=where.partition, timestamp=timestamp)
        )
    return ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    )
