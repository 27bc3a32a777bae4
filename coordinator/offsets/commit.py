"""OffsetCommit (key 8): store how far a group has read.

Topics and partitions are looked up first, then the group, and each partition gets its own error: one
that does not exist, or whose metadata is too long, does not keep the others from being stored. The offset is
not checked against the partition's log (O4). The reply waits for the disk; the offset is in force at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from coordinator.effects import CommitRun, CoordinatorRecord, Moment, Records, Reply, RequestContext, Result
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import COMMIT_ANSWER, EMPTY
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.margins import note_left
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from coordinator.offsets.committed import NO_EXPIRY
from coordinator.offsets.member_epochs import Committer, epoch_error
from coordinator.offsets.shard_offsets import ShardOffsets
from coordinator.topic_catalog import TopicCatalog
from protocol.codec.codec import spec
from protocol.codec.packed import PackedArray, as_packed, packing_of
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE: Final = 10
GROUP_NOT_FOUND_SINCE: Final = 9  # In earlier versions an absent group gets ILLEGAL_GENERATION.
DEFAULT_RETENTION: Final = -1

Partitions: TypeAlias = Sequence[OffsetCommitRequestPartition]
"""Either a list or, for many partitions without metadata, a `PackedArray`."""

PartitionAnswers: TypeAlias = list[OffsetCommitResponsePartition]


class CommitAnswers:
    """Builds the response: first the partitions that do not exist, then those whose error the group decides.

    As in Kafka, a topic that is named twice is answered twice - unless `refuse` was called: then each topic
    is answered once, in the order of its first answer.
    """

    def __init__(self, api_version: int) -> None:
        self._by_id = api_version >= TOPIC_IDS_SINCE
        self._api_version = api_version
        self._refused: dict[str | bytes, tuple[OffsetCommitResponseTopic, PartitionAnswers]] = {}
        self._answered: list[OffsetCommitResponseTopic] = []

    def refuse(self, topic: OffsetCommitRequestTopic, partition_index: int, error: ErrorCode) -> None:
        """Add `error` for a partition that does not exist."""
        key = self._key(topic)
        if key not in self._refused:
            partitions: PartitionAnswers = []
            self._refused[key] = _answer_for(topic, partitions), partitions
        self._refused[key][1].append(_partition_answer(partition_index, error))

    def begin_topic(self, topic: OffsetCommitRequestTopic) -> PartitionAnswers:
        """Add `topic`, and return the empty list to which the caller appends its partitions' answers."""
        partitions: PartitionAnswers = []
        self._answered.append(_answer_for(topic, partitions))
        return partitions

    def accept_all(self, topic: OffsetCommitRequestTopic, partitions: Sequence[int]) -> None:
        """Add NONE for each of these partitions of `topic`."""
        flexible = spec(OffsetCommitResponse).is_flexible(self._api_version)
        packing = packing_of(OffsetCommitResponsePartition, self._api_version, flexible)
        packed: Any = packing.pack(
            partition_index=partitions, error_code=array("h", bytes(2 * len(partitions)))
        )
        self._answered.append(_answer_for(topic, packed))

    def response(self) -> OffsetCommitResponse:
        """Return the response with every answer added so far."""
        if not self._refused:
            return OffsetCommitResponse(topics=self._answered)
        merged = {key: topic for key, (topic, _) in self._refused.items()}
        for topic in self._answered:
            if (known := merged.setdefault(self._key(topic), topic)) is not topic:
                known.partitions = [*known.partitions, *topic.partitions]
        return OffsetCommitResponse(topics=list(merged.values()))

    def _key(self, topic: OffsetCommitRequestTopic | OffsetCommitResponseTopic) -> str | bytes:
        return topic.topic_id if self._by_id else topic.name


def _answer_for(
    topic: OffsetCommitRequestTopic, partitions: Sequence[OffsetCommitResponsePartition]
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _partition_answer(partition_index: int, error: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition_index, error_code=error)


def commit_offsets(
    shard: ShardOffsets, request: OffsetCommitRequest, context: RequestContext, at: Moment
) -> Result:
    """Store the offsets that a member commits, or a consumer that assigns its partitions itself (O5).

    Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE, and for
    all of them UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (KIP-345), ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND,
    REBALANCE_IN_PROGRESS; of members of consumer groups those of `epoch_error`.
    """
    answers = CommitAnswers(context.api_version)
    existing = existing_partitions(request, shard.topics, answers, context.api_version)
    records: Records = ()
    if existing:  # With nothing left to store, Kafka does not even look at the group.
        group, consumer_group = shard.groups.get(request.group_id), shard.consumer_group(request.group_id)
        if consumer_group is None:
            error = commit_error(group, request, context.api_version)
        else:
            epoch = request.generation_id_or_member_epoch
            committer = Committer(request.member_id, epoch, context.api_version)
            error = epoch_error(consumer_group, committer, stored_partitions(existing, shard.settings))
        if group is not None and error is ErrorCode.NONE:
            refresh_session(group, request.member_id, at.now_ms)
        records = tuple(new_commit_records(existing, answers, error, request, shard.settings, at.wall_ms))
    return Result(records=records, replies=(Reply(context.reply_to, answers.response()),))


def commit_error(group: Group | None, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    """Why this client may not commit for the group as it stands, or NONE (docs/kafka.md 2.3, O5 to O7)."""
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id < 0:
            return ErrorCode.NONE  # Storing the offsets creates a simple group.
        absent_is_known = api_version >= GROUP_NOT_FOUND_SINCE
        return ErrorCode.GROUP_ID_NOT_FOUND if absent_is_known else ErrorCode.ILLEGAL_GENERATION
    if generation_id < 0 and group.state is EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID  # The group has members: other clients may not move its offsets.
    if error := group.membership_error(request.member_id, request.group_instance_id):
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return COMMIT_ANSWER[group.state]


def stored_partitions(
    existing: list[OffsetCommitRequestTopic], settings: GroupSettings
) -> Iterator[tuple[bytes, int]]:
    """Yield topic id and number of each partition that would be stored: that has no metadata too long."""
    for topic in existing:
        for partition in topic.partitions:
            if metadata_error(partition, settings) is ErrorCode.NONE:
                yield topic.topic_id, partition.partition_index


def existing_partitions(
    request: OffsetCommitRequest, catalog: TopicCatalog, answers: CommitAnswers, api_version: int
) -> list[OffsetCommitRequestTopic]:
    """Return the topics and partitions of the request that exist; add an error to `answers` for each other."""
    found = (_existing(topic, catalog, answers, api_version) for topic in request.topics)
    return [topic for topic in found if topic is not None]


def _existing(
    topic: OffsetCommitRequestTopic, catalog: TopicCatalog, answers: CommitAnswers, api_version: int
) -> OffsetCommitRequestTopic | None:
    """Return `topic` with name, id and its existing partitions, or None; add errors for the others."""
    by_id = api_version >= TOPIC_IDS_SINCE
    name = catalog.topic_name(topic.topic_id) if by_id else topic.name
    count = None if name is None else catalog.partition_count(name)
    if name is None or count is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions:
            answers.refuse(topic, partition.partition_index, error)
        return None
    topic_id = topic.topic_id if by_id else catalog.topic_id(name) or ZERO_UUID
    found = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=topic.partitions)
    if _all_exist(topic.partitions, count):
        return found
    kept = []
    for partition in topic.partitions:
        if 0 <= partition.partition_index < count:
            kept.append(partition)
        else:
            answers.refuse(found, partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    found.partitions = kept
    return found if kept else None


def _all_exist(partitions: Partitions, count: int) -> bool:
    """Whether a `PackedArray`'s partitions all exist; False also for a list, which is checked one by one."""
    packed = as_packed(partitions)
    if packed is None:
        return False
    indexes = packed.columns["partition_index"]
    return min(indexes) >= 0 and max(indexes) < count


def refresh_session(group: Group, member_id: str, now_ms: int) -> None:
    """Move the session deadline of a member that commits, as a heartbeat does (3.57)."""
    member = group.members.get(member_id)
    if member is not None:
        if (left_ms := member.session_deadline_ms - now_ms) < member.least_left_ms and not member.is_parked:
            note_left(member, left_ms)
        member.session_deadline_ms = now_ms + member.session_timeout_ms


def new_commit_records(
    topics: list[OffsetCommitRequestTopic],
    answers: CommitAnswers,
    error: ErrorCode,
    request: OffsetCommitRequest,
    settings: GroupSettings,
    wall_ms: int,
) -> Iterator[CoordinatorRecord | CommitRun]:
    """Add every partition's error to `answers`, and yield a record for each one that is to be stored.

    A `PackedArray` of partitions without errors is yielded as one run.
    """
    retention_ms = request.retention_time_ms
    expire_wall_ms = NO_EXPIRY if retention_ms == DEFAULT_RETENTION else wall_ms + retention_ms
    for topic in topics:
        packed = as_packed(topic.partitions)
        if packed is not None and error is ErrorCode.NONE and expire_wall_ms == NO_EXPIRY:
            answers.accept_all(topic, packed.columns["partition_index"])
            yield _commit_run(request.group_id, topic, packed, wall_ms)
            continue
        answered = answers.begin_topic(topic)
        for partition in topic.partitions:
            outcome = error or metadata_error(partition, settings)
            answered.append(_partition_answer(partition.partition_index, outcome))
            if outcome is ErrorCode.NONE:
                yield new_offset_commit_record(request.group_id, topic, partition, wall_ms, expire_wall_ms)


def _commit_run(
    group_id: str,
    topic: OffsetCommitRequestTopic,
    partitions: PackedArray[OffsetCommitRequestPartition],
    wall_ms: int,
) -> CommitRun:
    columns = partitions.columns
    indexes = columns["partition_index"]
    return CommitRun(
        group_id=group_id,
        topic=topic.name,
        topic_id=topic.topic_id,
        commit_wall_ms=wall_ms,
        partitions=indexes,
        offsets=columns["committed_offset"],
        leader_epochs=columns.get("committed_leader_epoch") or (-1,) * len(indexes),
    )


def metadata_error(partition: OffsetCommitRequestPartition, settings: GroupSettings) -> ErrorCode:
    metadata = partition.committed_metadata or ""
    limit = settings.offset_metadata_max_bytes
    # The limit counts UTF-16 units: never fewer than characters, never more than twice as many.
    if len(metadata) * 2 <= limit or len(metadata.encode("utf-16-le", "surrogatepass")) // 2 <= limit:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_METADATA_TOO_LARGE


def new_offset_commit_record(
    group_id: str,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    wall_ms: int,
    expire_wall_ms: int,
) -> CoordinatorRecord:
    """Return the record of one commit; the value version with an expiry has neither epoch nor topic id."""
    expires = expire_wall_ms != NO_EXPIRY
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=-1 if expires else partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=wall_ms,
        expire_timestamp=expire_wall_ms,
        topic_id=ZERO_UUID if expires else topic.topic_id,
    )
    key = OffsetCommitKey(group=group_id, topic=topic.name, partition=partition.partition_index)
    return CoordinatorRecord(key, value)
