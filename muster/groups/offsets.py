"""What a group has committed: read, written and deleted without membership, on any cluster.

An offset is written with its leader epoch and metadata, so that a copy is the same for the group's members.
Nothing here checks whether the group has members: the broker itself refuses a commit without membership then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from muster.cluster import TEMPORARY, Cluster, RefusedError, check, retried
from muster.groups.admin import NO_OFFSET, partitions_of
from muster.sentences import shown_id
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.topic_partition import TopicPartition

NO_LEADER_EPOCH: Final = -1
_OFFSET_FETCH_OF_ONE_GROUP: Final = 7  # Later versions ask for several groups in one request.
OFFSET_FETCH_BY_NAME: Final = 9  # And still later ones name topics by id.
_TOPICS_BY_NAME: Final = 9  # OffsetCommit names topics by id after that.

Outcome = dict[TopicPartition, ErrorCode]


class Committed(NamedTuple):
    """What is committed of one partition; `leader_epoch` is None where the client gave none."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class Move(NamedTuple):
    """One partition of a reset. `from_offset` is None where nothing is committed."""

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


async def committed(cluster: Cluster, group_id: str) -> dict[TopicPartition, Committed]:
    """All that the group has committed. Raises ClusterError."""
    coordinator = await cluster.coordinator(group_id)

    async def ask() -> dict[TopicPartition, Committed]:
        request = OffsetFetchRequest(group_id=group_id, topics=None)
        answer = await cluster.send(coordinator, request, max_version=_OFFSET_FETCH_OF_ONE_GROUP)
        check(f"fetching the offsets of group {shown_id(group_id)}", answer.error_code)
        return committed_in(answer.topics)

    return await retried(ask, cluster.patience_s)


def committed_in(topics: Iterable[Any]) -> dict[TopicPartition, Committed]:
    """What topics of an OffsetFetch response say is committed; those of one group."""
    return {
        TopicPartition(topic.name, partition.partition_index): _committed(partition)
        for topic in topics
        for partition in topic.partitions
        if partition.error_code == ErrorCode.NONE and partition.committed_offset != NO_OFFSET
    }


def _committed(partition: Any) -> Committed:
    epoch = partition.committed_leader_epoch
    return Committed(
        partition.committed_offset, None if epoch == NO_LEADER_EPOCH else epoch, partition.metadata or ""
    )


async def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, int]:
    """All offsets that the group has committed. Raises ClusterError."""
    return {where: found.offset for where, found in (await committed(cluster, group_id)).items()}


async def commit(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> Outcome:
    """Commit offsets in one request, without membership; return the error of each. Raises ClusterError."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for where, new in offsets.items():
        by_topic[where.topic].append(
            OffsetCommitRequestPartition(
                partition_index=where.partition,
                committed_offset=new.offset,
                committed_leader_epoch=NO_LEADER_EPOCH if new.leader_epoch is None else new.leader_epoch,
                committed_metadata=new.metadata,
            )
        )
    topics = [OffsetCommitRequestTopic(name=name, partitions=new) for name, new in by_topic.items()]
    request = OffsetCommitRequest(group_id=group_id, topics=topics)
    coordinator = await cluster.coordinator(group_id)

    async def ask() -> Outcome:
        answer = await cluster.send(coordinator, request, max_version=_TOPICS_BY_NAME)
        outcome = _outcome(answer)
        if temporary := sorted(TEMPORARY.intersection(outcome.values())):
            raise RefusedError(f"committing offsets of group {shown_id(group_id)}", temporary[0])
        return outcome

    return await retried(ask, cluster.patience_s)


async def commit_moves(cluster: Cluster, group_id: str, moves: Iterable[Move]) -> None:
    """Commit the new offsets of `moves`. Raises ClusterError, also if one of them is refused."""
    offsets = {TopicPartition(move.topic, move.partition): Committed(move.to_offset) for move in moves}
    for where, error in (await commit(cluster, group_id, offsets)).items():
        check(f"committing {where.topic}-{where.partition}", error)


async def delete_offsets(
    cluster: Cluster, group_id: str, topics: Mapping[str, frozenset[int] | None]
) -> dict[tuple[str, int | None], ErrorCode]:
    """Delete what is committed of partitions, None for all of a topic; return the error of each.

    Of a topic that is not there the partition is None. Raises ClusterError, also if the whole is refused.
    """
    wanted = await _partitions_to_delete(cluster, group_id, topics)
    outcome: dict[tuple[str, int | None], ErrorCode] = {
        (topic, None): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for topic in topics
        if not any(where.topic == topic for where in wanted)
    }
    request = OffsetDeleteRequest(group_id=group_id, topics=_topics_to_delete(wanted))
    coordinator = await cluster.coordinator(group_id)

    async def ask() -> Outcome:
        answer = await cluster.send(coordinator, request)
        check(f"deleting offsets of group {shown_id(group_id)}", answer.error_code)
        return _outcome(answer)

    return outcome | await retried(ask, cluster.patience_s)


async def _partitions_to_delete(
    cluster: Cluster, group_id: str, topics: Mapping[str, frozenset[int] | None]
) -> set[TopicPartition]:
    """Those named; of a whole topic those in the cluster, and those that the group has committed."""
    whole = {topic for topic, numbers in topics.items() if numbers is None}
    found = {TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers or ()}
    if whole:
        found |= set(await partitions_of(cluster, whole))
        found |= {where for where in await committed(cluster, group_id) if where.topic in whole}
    return found


def _topics_to_delete(wanted: Iterable[TopicPartition]) -> list[OffsetDeleteRequestTopic]:
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = defaultdict(list)
    for where in sorted(wanted):
        by_topic[where.topic].append(OffsetDeleteRequestPartition(partition_index=where.partition))
    return [OffsetDeleteRequestTopic(name=name, partitions=which) for name, which in by_topic.items()]


def _outcome(answer: Any) -> Outcome:
    return {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }
