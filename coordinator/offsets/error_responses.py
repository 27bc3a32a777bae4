"""The replies of OffsetCommit, TxnOffsetCommit and OffsetFetch that say one error, as each version wants them."""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_OFFSET: Final = -1
FETCH_GROUPS_SINCE: Final = 8  # OffsetFetch: several groups, each with its own error (KIP-709).
TXN_LOADING_IS_TOLD_SINCE: Final = 2  # TxnOffsetCommit.
FETCH_GROUP_ERROR_SINCE: Final = 2  # Before: a group's error is told for each partition.


def commit_refusal(
    request: OffsetCommitRequest, error: ErrorCode, api_version: int = 0
) -> OffsetCommitResponse:
    """OffsetCommit has no place for a group's error: each partition says it."""
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)


def txn_commit_refusal(
    request: TxnOffsetCommitRequest, error: ErrorCode, api_version: int
) -> TxnOffsetCommitResponse:
    """As `commit_refusal`; old producers do not survive to hear that a coordinator is loading."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < TXN_LOADING_IS_TOLD_SINCE:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


def fetch_refusal(request: OffsetFetchRequest, error: ErrorCode, api_version: int) -> OffsetFetchResponse:
    """One error for every group asked for."""
    if api_version >= FETCH_GROUPS_SINCE:
        groups = [OffsetFetchResponseGroup(group_id=g.group_id, error_code=error) for g in request.groups]
        return OffsetFetchResponse(groups=groups)
    if api_version >= FETCH_GROUP_ERROR_SINCE:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(topics=[_refused_topic(topic, error) for topic in request.topics or []])


def _refused_topic(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    partitions = [
        OffsetFetchResponsePartition(partition_index=index, committed_offset=NO_OFFSET, error_code=error)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
