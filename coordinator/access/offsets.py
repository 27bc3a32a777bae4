"""The checks of the APIs of committed offsets: commits, in transactions too, reads and deletions.

Of topics that are refused the answer says that, whether they exist or not. What a handler says of those that do
not exist, it says before all others; here both are put in the order of the request, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from coordinator.access.asker import Asker
from coordinator.access.verdict import Verdict, passes, refused
from coordinator.security.acls import Operation
from protocol.codec.primitives import ZERO_UUID
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
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
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

COMMITS_BY_ID_SINCE: Final = 10
FETCHES_BY_ID_SINCE: Final = 10
FETCHES_GROUPS_SINCE: Final = 8
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_FOUND: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
NO_OFFSET: Final = -1

TopicKey = Callable[[Any], "str | bytes"]
"""What a topic is named by, in a request and in its response."""


def _by_name(topic: Any) -> str | bytes:
    name: str = topic.name
    return name


def _by_id(topic: Any) -> str | bytes:
    topic_id: bytes = topic.topic_id
    return topic_id


# Commits.


def check_offset_commit(request: OffsetCommitRequest, asker: Asker) -> Verdict:
    """OffsetCommit: READ of the group, then of each topic; with no topic left the group is not asked."""
    if not asker.may_group(Operation.READ, request.group_id):
        return refused(error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, asker.version))
    by_id = asker.version >= COMMITS_BY_ID_SINCE
    names = {_by_id(topic): asker.name_of(topic.topic_id) for topic in request.topics} if by_id else {}

    def is_denied(topic: OffsetCommitRequestTopic) -> bool:
        name = names[topic.topic_id] if by_id else topic.name
        return name is not None and not asker.may_topic(Operation.READ, name)

    denied = [topic for topic in request.topics if is_denied(topic)]
    if not denied:
        return passes(request)
    rows = [
        OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=_refused_commits(topic)
        )
        for topic in denied
    ]
    kept = [topic for topic in request.topics if not is_denied(topic)]
    if not kept:
        return refused(
            OffsetCommitResponse(topics=_merged(request.topics, rows, [], _by_id if by_id else _by_name))
        )
    allowed = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=kept,
    )
    key = _by_id if by_id else _by_name
    return Verdict(
        allowed,
        complete=lambda response: OffsetCommitResponse(
            topics=_merged(request.topics, rows, response.topics, key)
        ),
    )


def _refused_commits(topic: OffsetCommitRequestTopic) -> list[OffsetCommitResponsePartition]:
    return [
        OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=DENIED)
        for each in topic.partitions
    ]


def _merged(asked: Iterable[Any], denied: Iterable[Any], answers: Iterable[Any], key: TopicKey) -> list[Any]:
    """Return the topics with errors found before the group was asked, in the request's order, then the others.

    A topic is answered once: what comes later of it is put behind what was there.
    """
    rows: dict[str | bytes, Any] = {}
    for topic in (*denied, *answers):
        known = rows.setdefault(key(topic), topic)
        if known is not topic:
            known.partitions = [*known.partitions, *topic.partitions]
    first = dict.fromkeys(key(topic) for topic in asked)
    early = [name for name in first if name in rows and _is_early(rows[name].partitions)]
    return [rows.pop(name) for name in early] + list(rows.values())


def _is_early(partitions: Sequence[Any]) -> bool:
    return any(each.error_code == DENIED or each.error_code in NOT_FOUND for each in partitions)


def check_txn_offset_commit(request: TxnOffsetCommitRequest, asker: Asker) -> Verdict:
    """TxnOffsetCommit: WRITE of the transactional id, then as OffsetCommit."""
    if not asker.may_transaction(Operation.WRITE, request.transactional_id):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return refused(error_response(request, error, asker.version))
    if not asker.may_group(Operation.READ, request.group_id):
        return refused(error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, asker.version))
    denied = asker.denied_topics(Operation.READ, (topic.name for topic in request.topics))
    if not denied:
        return passes(request)
    rows = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=DENIED)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.name in denied
    ]
    kept = [topic for topic in request.topics if topic.name not in denied]
    if not kept:
        return refused(TxnOffsetCommitResponse(topics=_merged(request.topics, rows, [], _by_name)))
    allowed = TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=kept,
    )
    return Verdict(
        allowed,
        complete=lambda response: TxnOffsetCommitResponse(
            topics=_merged(request.topics, rows, response.topics, _by_name)
        ),
    )


# Deletions.


def check_offset_delete(request: OffsetDeleteRequest, asker: Asker) -> Verdict:
    """OffsetDelete: DELETE of the group, then READ of each topic; an error of the group wins."""
    if not asker.may_group(Operation.DELETE, request.group_id):
        return refused(error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, asker.version))
    denied = asker.denied_topics(Operation.READ, (topic.name for topic in request.topics))
    if not denied:
        return passes(request)

    def complete(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code:
            return response
        rows = [
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=DENIED)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.name in denied
        ]
        return OffsetDeleteResponse(topics=_merged(request.topics, rows, response.topics, _by_name))

    kept = [topic for topic in request.topics if topic.name not in denied]
    return Verdict(OffsetDeleteRequest(group_id=request.group_id, topics=kept), complete=complete)


# Reads.


def check_offset_fetch(request: OffsetFetchRequest, asker: Asker) -> Verdict:
    """OffsetFetch: DESCRIBE of each group and topic; where all topics are asked for, others are left out."""
    if asker.version < FETCHES_GROUPS_SINCE:
        return _check_flat_fetch(request, asker)
    asked = [_AskedGroup(group, asker) for group in request.groups]
    if all(group.is_whole for group in asked):
        return passes(request)

    def complete_part(response: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in response.groups:
            if group.group_id in of_all_topics:
                group.topics = [topic for topic in group.topics if _is_shown(topic, asker)]
        return response

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        answers = iter(response.groups)
        return OffsetFetchResponse(groups=[group.completed(answers) for group in asked])

    of_all_topics = {group.asked.group_id for group in asked if group.asked.topics is None}
    allowed = [group.allowed for group in asked if not group.is_denied]
    return Verdict(
        OffsetFetchRequest(groups=allowed, require_stable=request.require_stable),
        complete=complete,
        complete_part=complete_part,
    )


def _is_shown(topic: OffsetFetchResponseTopics | OffsetFetchResponseTopic, asker: Asker) -> bool:
    return not topic.name or asker.describes(topic.name)  # No name: of an unknown id.


class _AskedGroup:
    """One group of an OffsetFetch from version 8 on, and which of its topics may be seen."""

    def __init__(self, group: OffsetFetchRequestGroup, asker: Asker) -> None:
        self.asked = self.allowed = group
        self.is_denied = not asker.may_group(Operation.DESCRIBE, group.group_id)
        self._refused: list[OffsetFetchResponseTopics] = []
        self.is_whole = not self.is_denied and group.topics is not None
        if self.is_denied or group.topics is None:
            return
        refusals = {id(topic): error for topic in group.topics if (error := _fetch_error(topic, asker))}
        if DENIED not in refusals.values():
            return
        # Unknown ids are answered here too: Kafka has both kinds in the order of the request.
        self.is_whole = False
        self._refused = [
            _refused_offsets(topic, refusals[id(topic)]) for topic in group.topics if id(topic) in refusals
        ]
        self.allowed = OffsetFetchRequestGroup(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topics=[topic for topic in group.topics if id(topic) not in refusals],
        )

    def completed(self, answers: Iterable[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
        """Return the group's answer, which is the next of `answers` unless the group is refused."""
        if self.is_denied:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return OffsetFetchResponseGroup(group_id=self.asked.group_id, error_code=error)
        answer = next(iter(answers))
        if not answer.error_code and self._refused:
            answer.topics = [*answer.topics, *self._refused]
        return answer


def _fetch_error(topic: OffsetFetchRequestTopics, asker: Asker) -> ErrorCode:
    name: str | None = topic.name
    if asker.version >= FETCHES_BY_ID_SINCE:
        name = None if topic.topic_id == ZERO_UUID else asker.name_of(topic.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.NONE if asker.may_topic(Operation.DESCRIBE, name or "") else DENIED


def _refused_offsets(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=error)
            for index in topic.partition_indexes
        ],
    )


def _check_flat_fetch(request: OffsetFetchRequest, asker: Asker) -> Verdict:
    """Versions up to 7: one group."""
    if not asker.may_group(Operation.DESCRIBE, request.group_id):
        return refused(error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, asker.version))
    asked = request.topics
    if asked is None:

        def shown(response: OffsetFetchResponse) -> OffsetFetchResponse:
            response.topics = [topic for topic in response.topics if _is_shown(topic, asker)]
            return response

        return Verdict(request, complete_part=shown)
    denied = asker.denied_topics(Operation.DESCRIBE, (topic.name for topic in asked))
    if not denied:
        return passes(request)

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if not response.error_code:
            response.topics = [*response.topics, *_refused_flat(request, denied)]
        return response

    allowed = OffsetFetchRequest(
        group_id=request.group_id,
        topics=[topic for topic in asked if topic.name not in denied],
        require_stable=request.require_stable,
    )
    return Verdict(allowed, complete=complete)


def _refused_flat(request: OffsetFetchRequest, denied: set[str]) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=NO_OFFSET, error_code=DENIED
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
        if topic.name in denied
    ]
