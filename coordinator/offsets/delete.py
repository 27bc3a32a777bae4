"""OffsetDelete (key 47), and the deletion of a topic: offsets that are removed before they expire.

Offsets of topics that a group still reads are not deleted. For groups of consumers the subscriptions show which
these are; for other groups with members they are unknown, so the whole request is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.records import new_offset_commit_tombstone
from coordinator.groups.classic.states import DELETE_ANSWER
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.offsets.committed import CommittedOffset, CommittedOffsets, same_topic
from coordinator.offsets.open_transactions import HeldKey
from coordinator.offsets.shard_offsets import ShardOffsets
from coordinator.topic_catalog import TopicCatalog
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

DELETED_AT_ONCE: Final = 1_000
"""Most offsets of a deleted topic that one event removes: 7 ms, where a topic may have 100,000s in one shard."""


@dataclass(frozen=True, slots=True)
class TopicOffsetsDeleted:
    """`Result.then` of tombstones for offsets of a deleted topic, of which the shard may have more."""

    topic: str
    topic_id: bytes


def delete_offsets(
    shard: ShardOffsets, request: OffsetDeleteRequest, context: RequestContext, at: Moment
) -> Result:
    """Delete the offsets that the request names; one that does not exist is answered NONE (O24).

    Errors: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP; per partition
    UNKNOWN_TOPIC_OR_PARTITION and GROUP_SUBSCRIBED_TO_TOPIC.
    """
    group: Group | ConsumerGroup | None = shard.consumer_group(request.group_id)
    error = ErrorCode.NONE
    if group is None:
        group = shard.groups.get(request.group_id)
        error = offset_delete_error(group, request.group_id)
    if group is None or error is not ErrorCode.NONE:
        return Result(replies=(Reply(context.reply_to, OffsetDeleteResponse(error_code=error)),))
    outcomes = _outcomes(group.is_subscribed_to, shard.topics, request)
    records = tuple(
        new_offset_commit_tombstone(request.group_id, topic, partition)
        for topic, partitions in outcomes.items()
        for partition, outcome in partitions.items()
        if outcome is ErrorCode.NONE and _is_known(shard.offsets, request.group_id, topic, partition)
    )
    return Result(records=records, replies=(Reply(context.reply_to, _response(outcomes)),))


def _is_known(offsets: CommittedOffsets, group_id: str, topic: str, partition: int) -> bool:
    """Whether the group has an offset in this partition, be it in an open transaction."""
    is_committed = offsets.get(group_id, topic, partition) is not None
    return is_committed or offsets.transactions.holds(group_id, topic, partition)


def offset_delete_error(group: Group | None, group_id: str) -> ErrorCode:
    """Why no offset of the group may be deleted, or NONE."""
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    error = DELETE_ANSWER[group.state]
    readable = error is ErrorCode.NON_EMPTY_GROUP and group.uses_consumer_protocol
    return ErrorCode.NONE if readable else error


def _outcomes(
    is_subscribed_to: Callable[[str], bool], catalog: TopicCatalog, request: OffsetDeleteRequest
) -> dict[str, dict[int, ErrorCode]]:
    """Return the error or NONE of each partition named; those that do not exist come first, as in Kafka."""
    missing: dict[str, dict[int, ErrorCode]] = {}
    present: dict[str, dict[int, ErrorCode]] = {}
    for topic in request.topics:
        count = catalog.partition_count(topic.name) or 0
        subscribed = is_subscribed_to(topic.name)
        outcome = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        for partition in topic.partitions:
            index = partition.partition_index
            exists = 0 <= index < count
            side = present if exists else missing
            side.setdefault(topic.name, {})[index] = (
                outcome if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
    for name, partitions in present.items():
        missing.setdefault(name, {}).update(partitions)
    return missing


def _response(outcomes: Mapping[str, Mapping[int, ErrorCode]]) -> OffsetDeleteResponse:
    topics = [
        OffsetDeleteResponseTopic(
            name=name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=index, error_code=outcome)
                for index, outcome in partitions.items()
            ],
        )
        for name, partitions in outcomes.items()
    ]
    return OffsetDeleteResponse(topics=topics)


def delete_topic_offsets(offsets: CommittedOffsets, topic: str, topic_id: bytes) -> Result:
    """Return tombstones for offsets of a deleted topic, not of a newer topic with its name (O23).

    Without a name those of any topic that had the id, and none whose topic's id was not known.

    Offsets of it in open transactions are removed as well (O16). After DELETED_AT_ONCE of them the result has a
    `then`, with which to call this again; a crash before that loses nothing, since a load finds the others.
    """
    counted = (
        (HeldKey(group_id, name, partition), committed)
        for group_id in offsets.group_ids()
        for name in ((topic,) if topic else offsets.topics_of(group_id))
        for partition, committed in offsets.of_topic(group_id, name).items()
    )
    held = offsets.transactions.of_topic(topic) if topic else offsets.transactions.held()
    found = (
        key
        for key, committed in chain(counted, held)
        if committed.topic_id == topic_id or (topic and same_topic(committed.topic_id, topic_id))
    )
    gone = list(islice(found, DELETED_AT_ONCE))
    records = tuple(new_offset_commit_tombstone(*key) for key in dict.fromkeys(gone))
    then = TopicOffsetsDeleted(topic, topic_id) if len(gone) == DELETED_AT_ONCE else None
    return Result(records=records, then=then, atomic=False)


def delete_offsets_of_deleted_topics(offsets: CommittedOffsets, catalog: TopicCatalog) -> Result:
    """Return tombstones for the offsets of topics whose deletion this shard missed, for use after a load.

    A crash right after the deletion does that. Offsets of topics that this daemon never had stay: the log may be
    older than the registry of topics, or another broker's.
    """
    gone = dict.fromkeys(
        chain(offsets.offsets_with_topic_id(catalog.was_deleted), _held_of_deleted_topics(offsets, catalog))
    )
    records = tuple(new_offset_commit_tombstone(*offset) for offset in gone)
    return Result(records=records, atomic=not records)


def _held_of_deleted_topics(offsets: CommittedOffsets, catalog: TopicCatalog) -> Iterator[HeldKey]:
    """Yield the keys of offsets in open transactions where all offsets of the key are of deleted topics.

    A tombstone removes everything under its key, so a key that also has an offset of a newer topic is left alone;
    the held offset cannot replace that one, being before it in the log (O2).
    """
    by_key: dict[HeldKey, list[CommittedOffset]] = {}
    for key, held in offsets.transactions.held():
        by_key.setdefault(key, []).append(held)
    for key, all_held in by_key.items():
        counted = offsets.get(*key)
        present = all_held if counted is None else [*all_held, counted]
        if all(catalog.was_deleted(each.topic_id) for each in present):
            yield key
