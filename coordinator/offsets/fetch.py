"""OffsetFetch (key 9): read the committed offsets. Of classic groups it checks no member id (O9).

A partition without an offset is no error: offset -1, epoch -1, metadata "". The same code reads for the
flat form of old versions and the list of groups of newer ones. Replies wait until the offsets they show are
on the disk, so a crash cannot undo them. That an open transaction may change an offset is reported
only to clients that ask for stable offsets (KIP-447, O13).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.offsets.committed import CommittedOffset, CommittedOffsets, is_known_topic_id, same_topic
from coordinator.offsets.member_epochs import fetch_error
from coordinator.offsets.shard_offsets import ShardOffsets
from coordinator.topic_catalog import TopicCatalog
from protocol.codec.codec import spec
from protocol.codec.packed import PACKED_FROM, Packing, packing_of
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FETCH_GROUPS_SINCE: Final = 8  # A request may name several groups, each with its own error (KIP-709).
TOPIC_IDS_SINCE: Final = 10
NO_OFFSET: Final = -1


class _TopicToRead(NamedTuple):
    """A topic to read offsets of, the partitions asked for, and the error for all of them, if any."""

    name: str
    topic_id: bytes
    partitions: Iterable[int]
    error: ErrorCode = ErrorCode.NONE


def fetch_offsets(
    shard: ShardOffsets, request: OffsetFetchRequest, context: RequestContext, at: Moment
) -> Result:
    """Answer with the offsets asked for.

    Errors, per partition: UNKNOWN_TOPIC_ID, UNSTABLE_OFFSET_COMMIT; for a consumer group those of `fetch_error`.
    """
    if context.api_version >= FETCH_GROUPS_SINCE:
        version, stable = context.api_version, request.require_stable
        groups = [
            _refusal(shard, each) or _fetch_group(shard.offsets, shard.topics, each, version, stable)
            for each in request.groups
        ]
        response = OffsetFetchResponse(groups=groups)
    else:
        response = OffsetFetchResponse(topics=_fetch_flat(shard.offsets, request))
    return Result(replies=(Reply(context.reply_to, response),))


def _refusal(shard: ShardOffsets, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup | None:
    group = shard.consumer_group(asked.group_id)
    error = ErrorCode.NONE if group is None else fetch_error(group, asked.member_id, asked.member_epoch)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=[], error_code=error) if error else None


def _fetch_group(
    offsets: CommittedOffsets,
    catalog: TopicCatalog,
    group: OffsetFetchRequestGroup,
    api_version: int,
    stable: bool,
) -> OffsetFetchResponseGroup:
    by_id = api_version >= TOPIC_IDS_SINCE
    packing = packing_of(
        OffsetFetchResponsePartitions, api_version, spec(OffsetFetchResponse).is_flexible(api_version)
    )
    if group.topics is None:
        wanted = list(_all_topics(offsets, group.group_id, catalog if by_id else None))
    else:
        named = [_topic_by_id(topic, catalog) if by_id else _topic_by_name(topic) for topic in group.topics]
        wanted = sorted(named, key=lambda topic: topic.error is not ErrorCode.NONE)  # Errors last, as Kafka.
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=_packed(offsets, group.group_id, topic, stable, packing)
            or [
                _partition(index, committed, error)
                for index, committed, error in _read(offsets, group.group_id, topic, stable)
            ],
        )
        for topic in wanted
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _fetch_flat(offsets: CommittedOffsets, request: OffsetFetchRequest) -> list[OffsetFetchResponseTopic]:
    if request.topics is None:
        wanted = list(_all_topics(offsets, request.group_id, None))
    else:
        wanted = [_TopicToRead(topic.name, ZERO_UUID, topic.partition_indexes) for topic in request.topics]
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                _flat_partition(index, committed, error)
                for index, committed, error in _read(offsets, request.group_id, topic, request.require_stable)
            ],
        )
        for topic in wanted
    ]


def _all_topics(
    offsets: CommittedOffsets, group_id: str, catalog: TopicCatalog | None
) -> Iterator[_TopicToRead]:
    """Yield all topics in which the group has offsets; with a `catalog`, by id and without deleted ones (O12)."""
    for name in offsets.topics_of(group_id):
        topic_id = ZERO_UUID if catalog is None else catalog.topic_id(name)
        if topic_id is not None:
            yield _TopicToRead(name, topic_id, offsets.of_topic(group_id, name))


def _topic_by_name(topic: OffsetFetchRequestTopics) -> _TopicToRead:
    return _TopicToRead(topic.name, ZERO_UUID, topic.partition_indexes)


def _topic_by_id(topic: OffsetFetchRequestTopics, catalog: TopicCatalog) -> _TopicToRead:
    name = catalog.topic_name(topic.topic_id) if is_known_topic_id(topic.topic_id) else None
    error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
    return _TopicToRead(name or "", topic.topic_id, topic.partition_indexes, error)


def _read(
    offsets: CommittedOffsets, group_id: str, topic: _TopicToRead, stable: bool
) -> Iterator[tuple[int, CommittedOffset | None, ErrorCode]]:
    """Yield each partition asked for, its offset or None, and its error.

    Where the topic is asked for by id, an offset committed for another topic of its name is None. With `stable`,
    a partition with an offset in an open transaction is UNSTABLE_OFFSET_COMMIT (O13).
    """
    known = offsets.of_topic(group_id, topic.name)
    any_topic = not is_known_topic_id(topic.topic_id)
    for index in topic.partitions:
        if stable and offsets.transactions.holds(group_id, topic.name, index):
            yield index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT
            continue
        committed = known.get(index)
        if not any_topic and committed is not None and not same_topic(committed.topic_id, topic.topic_id):
            committed = None
        yield index, committed, topic.error


def _packed(
    offsets: CommittedOffsets, group_id: str, topic: _TopicToRead, stable: bool, packing: Packing
) -> Sequence[OffsetFetchResponsePartitions]:
    """Return what `_read` says, whole array by whole array, if every partition has an offset without metadata.

    Empty if it is not so, or if the partitions are few.
    """
    known = offsets.of_topic(group_id, topic.name)
    if len(known) < PACKED_FROM or topic.error is not ErrorCode.NONE or known.extras:
        return ()
    if is_known_topic_id(topic.topic_id) and not same_topic(known.topic_id, topic.topic_id):
        return ()
    if stable and offsets.transactions.of_group(group_id):
        return ()
    found = known.select(topic.partitions)
    if found is None:
        return ()
    partitions, committed, epochs = found.numbers()
    packed: Any = packing.pack(
        partition_index=partitions,
        committed_offset=committed,
        committed_leader_epoch=epochs,
        error_code=array("h", bytes(2 * len(partitions))),
    )
    answers: Sequence[OffsetFetchResponsePartitions] = packed
    return answers


def _partition(
    index: int, committed: CommittedOffset | None, error: ErrorCode
) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=error
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _flat_partition(
    index: int, committed: CommittedOffset | None, error: ErrorCode
) -> OffsetFetchResponsePartition:
    if committed is None:
        return OffsetFetchResponsePartition(
            partition_index=index, committed_offset=NO_OFFSET, error_code=error
        )
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
