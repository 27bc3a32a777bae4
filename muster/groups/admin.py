"""What the command line asks a cluster about groups, as plain values: list, describe, delete, reset offsets.

It speaks the Kafka protocol only, so it works on any cluster. It formats nothing, and leaves to
`cluster` how requests travel.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.cluster import Cluster, ClusterError, check, retried
from protocol.consumer import PROTOCOL_TYPE, decode_assignment
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.topic_partition import TopicPartition

NO_OFFSET: Final = -1
_OFFSET_FETCH_OF_ONE_GROUP: Final = 7  # Later versions ask for several groups in one request.
_TOPICS_BY_NAME: Final = 9  # OffsetCommit names topics by id after that.
_DEAD: Final = "Dead"
_NO_MEMBERS: Final = frozenset({"Empty", _DEAD})


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One line of the list. State and type are blank where the broker is too old to report them."""

    group_id: str
    state: str
    protocol_type: str
    group_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member, and the partitions that are assigned to it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A group's progress on one partition. A None offset is not known, or was never committed."""

    topic: str
    partition: int
    committed_offset: int | None
    log_end_offset: int | None
    member_id: str | None

    @property
    def lag(self) -> int | None:
        """The number of offsets from the committed one to the log's end; None if either is not known."""
        if self.committed_offset is None or self.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - self.committed_offset)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """All that the cluster reports about one group."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    coordinator_address: str
    members: tuple[MemberDescription, ...]
    progress: tuple[PartitionProgress, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One partition of a reset. `from_offset` is None where nothing is committed."""

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


async def list_groups(cluster: Cluster) -> list[GroupListing]:
    """The groups of all brokers, sorted by id. Raises ClusterError."""
    lists = await asyncio.gather(*(_groups_of(cluster, node_id) for node_id in cluster.node_ids))
    return sorted((group for groups in lists for group in groups), key=lambda group: group.group_id)


async def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """The members and progress of one group. Raises ClusterError, also if the group does not exist."""
    coordinator = await cluster.coordinator(group_id)
    group = await _described(cluster, coordinator, group_id)
    committed = await committed_offsets(cluster, group_id)
    if group.group_state == _DEAD and not committed:
        raise ClusterError(f"there is no group {group_id}")
    members = tuple(_member(member, group.protocol_type) for member in group.members)
    return GroupDescription(
        group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        coordinator,
        cluster.address(coordinator),
        members,
        await _progress(cluster, committed, members),
    )


async def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
    """Delete groups without members, and their offsets; return the error code of each. Raises ClusterError."""
    wanted: dict[int, list[str]] = defaultdict(list)
    for group_id in dict.fromkeys(group_ids):
        wanted[await cluster.coordinator(group_id)].append(group_id)
    outcome: dict[str, ErrorCode] = {}
    for node_id, names in wanted.items():
        answer = await cluster.send(node_id, DeleteGroupsRequest(groups_names=names))
        outcome |= {result.group_id: ErrorCode(result.error_code) for result in answer.results}
    return outcome


async def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, int]:
    """All offsets that the group has committed. Raises ClusterError."""
    coordinator = await cluster.coordinator(group_id)

    async def ask() -> dict[TopicPartition, int]:
        request = OffsetFetchRequest(group_id=group_id, topics=None)
        answer = await cluster.send(coordinator, request, max_version=_OFFSET_FETCH_OF_ONE_GROUP)
        check(f"fetching the offsets of group {group_id}", answer.error_code)
        found = ((topic.name, partition) for topic in answer.topics for partition in topic.partitions)
        return {
            TopicPartition(name, partition.partition_index): partition.committed_offset
            for name, partition in found
            if partition.error_code == ErrorCode.NONE and partition.committed_offset != NO_OFFSET
        }

    return await retried(ask)


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


async def require_no_members(cluster: Cluster, group_id: str) -> None:
    """Raise ClusterError if the group has members: their next commit would undo a reset."""
    group = await _described(cluster, await cluster.coordinator(group_id), group_id)
    if group.group_state not in _NO_MEMBERS:
        count, state = len(group.members), group.group_state
        raise ClusterError(f"group {group_id} has {count} live members (state {state}); stop them first")


async def commit_moves(cluster: Cluster, group_id: str, moves: Iterable[Move]) -> None:
    """Commit the new offsets of `moves` without membership. Raises ClusterError."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for move in moves:
        new = OffsetCommitRequestPartition(partition_index=move.partition, committed_offset=move.to_offset)
        by_topic[move.topic].append(new)
    topics = [OffsetCommitRequestTopic(name=name, partitions=new) for name, new in by_topic.items()]
    request = OffsetCommitRequest(group_id=group_id, topics=topics)
    answer = await cluster.send(await cluster.coordinator(group_id), request, max_version=_TOPICS_BY_NAME)
    for topic in answer.topics:
        for partition in topic.partitions:
            check(f"committing {topic.name}-{partition.partition_index}", partition.error_code)


async def _groups_of(cluster: Cluster, node_id: int) -> list[GroupListing]:
    async def ask() -> list[GroupListing]:
        answer = await cluster.send(node_id, ListGroupsRequest())
        check(f"listing the groups of broker {node_id}", answer.error_code)
        return [
            GroupListing(group.group_id, group.group_state, group.protocol_type, group.group_type, node_id)
            for group in answer.groups
        ]

    return await retried(ask)


async def _described(cluster: Cluster, coordinator: int, group_id: str) -> DescribedGroup:
    """The DescribeGroups response for one group; an unknown group is Dead in every version."""

    async def ask() -> DescribedGroup:
        answer = await cluster.send(coordinator, DescribeGroupsRequest(groups=[group_id]))
        group: DescribedGroup = answer.groups[0]
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            check(f"describing group {group_id}", group.error_code)
        return group

    return await retried(ask)


def _member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    partitions = _assigned(member.member_assignment) if protocol_type == PROTOCOL_TYPE else ()
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, partitions
    )


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a client's assignment bytes; empty if they cannot be decoded."""
    try:
        topics = decode_assignment(assignment).assigned_partitions
    except DecodeError:
        return ()
    return tuple(
        sorted(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)
    )


async def _progress(
    cluster: Cluster, committed: Mapping[TopicPartition, int], members: Iterable[MemberDescription]
) -> tuple[PartitionProgress, ...]:
    owners = {where: member.member_id for member in members for where in member.partitions}
    known = await partitions_of(cluster, {where.topic for where in committed.keys() | owners.keys()})
    ends = await offsets_at(cluster, known, LATEST)
    return tuple(
        PartitionProgress(
            where.topic, where.partition, committed.get(where), ends.get(where), owners.get(where)
        )
        for where in sorted(committed.keys() | owners.keys())
    )


def _list_offsets_request(wanted: Iterable[TopicPartition], timestamp: int) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for where in wanted:
        by_topic[where.topic].append(
            ListOffsetsPartition(partition_index=where.partition, timestamp=timestamp)
        )
    return ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    )
