"""TxnOffsetCommit (key 28): store how far a group has read, in a producer's transaction (O14).

It is an OffsetCommit that comes into force with the marker: the same checks of topics and partitions, the same
records, but in a transactional batch of the producer, and with rules of its own for who may commit - a producer
that names no member may, whatever the group's state. Before the first commit of a transaction its coordinator
verifies that it is under way; if a marker came in between, the verification is out of date, and the batch would
open a transaction that is never ended (KIP-890).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import EMPTY
from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.commit import (
    CommitAnswers,
    existing_partitions,
    metadata_error,
    new_commit_records,
    stored_partitions,
)
from coordinator.offsets.member_epochs import NO_EPOCH, Committer, epoch_error
from coordinator.offsets.shard_offsets import CommitVerification, ShardOffsets
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE: Final = 4
ADDS_PARTITION_SINCE: Final = 5
BY_NAME_VERSION: Final = 9  # A version of OffsetCommit that names topics, as all of TxnOffsetCommit do.


@dataclass(frozen=True, slots=True)
class TransactionalCommit:
    """A TxnOffsetCommit with the outcome of its verification: NONE, or the transaction coordinator's error."""

    request: TxnOffsetCommitRequest
    error: ErrorCode = ErrorCode.NONE
    verification: CommitVerification | None = None  # None: the coordinator was not asked.


def begin_verification(shard: ShardOffsets, request: TxnOffsetCommitRequest) -> CommitVerification | None:
    """Register and return a verification by the transaction coordinator; None if the commit needs none."""
    if not _needs_verification(shard, request):
        return None
    verification = CommitVerification(request.producer_id)
    shard.verifications.add(verification)
    return verification


def commit_in_transaction(
    shard: ShardOffsets, asked: TransactionalCommit, context: RequestContext, at: Moment
) -> Result:
    """Store the offsets, held until the producer's transaction ends.

    Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE, and for all of them that of the
    verification, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE.
    """
    request, plain = asked.request, _as_offset_commit(asked.request)
    answers = CommitAnswers(BY_NAME_VERSION)
    existing = existing_partitions(plain, shard.topics, answers, BY_NAME_VERSION)
    error = ErrorCode.INVALID_GROUP_ID if not request.group_id else ErrorCode.NONE
    error = error or shard.offsets.transactions.commit_error(request.producer_id, request.producer_epoch)
    error = error or asked.error or _group_error(shard, request, existing)
    if not error and _is_anything_stored(existing, shard.settings):
        error = _verification_error(shard, asked)
    records = tuple(new_commit_records(existing, answers, error, plain, shard.settings, at.wall_ms))
    reply = Reply(context.reply_to, _as_txn_response(answers.response()))
    if asked.verification is not None:
        shard.verifications.discard(asked.verification)
    producer = (request.producer_id, request.producer_epoch)
    return Result(records=records, replies=(reply,), producer=producer if records else None)


def verification_answer(error: ErrorCode, api_version: int) -> ErrorCode:
    """Return the transaction coordinator's error as clients of TxnOffsetCommit in this version expect it."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE) and not adds_partition(
        api_version
    ):
        is_known = api_version >= ABORTABLE_SINCE
        return ErrorCode.TRANSACTION_ABORTABLE if is_known else ErrorCode.INVALID_TXN_STATE
    return error


def adds_partition(api_version: int) -> bool:
    """Whether a commit of this version adds the offsets partition to the transaction by itself (KIP-890)."""
    return api_version >= ADDS_PARTITION_SINCE


def _group_error(
    shard: ShardOffsets, request: TxnOffsetCommitRequest, existing: list[OffsetCommitRequestTopic]
) -> ErrorCode:
    group = shard.consumer_group(request.group_id)
    if group is None:
        return transactional_commit_error(shard.groups.get(request.group_id), request)
    if request.generation_id == NO_EPOCH and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    # A producer of any version may be of a member of the new protocol.
    committer = Committer(request.member_id, request.generation_id, BY_NAME_VERSION)
    error = epoch_error(group, committer, stored_partitions(existing, shard.settings))
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error


def transactional_commit_error(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Why this producer may not commit for the group as it stands, or NONE."""
    is_no_member = not request.member_id and request.group_instance_id is None
    if request.generation_id < 0 and (group is None or group.state is EMPTY or is_no_member):
        return ErrorCode.NONE
    if group is None:
        return ErrorCode.ILLEGAL_GENERATION
    if error := group.membership_error(request.member_id, request.group_instance_id):
        return error
    is_current = request.generation_id == group.generation_id
    return ErrorCode.NONE if is_current else ErrorCode.ILLEGAL_GENERATION


def _needs_verification(shard: ShardOffsets, request: TxnOffsetCommitRequest) -> bool:
    """Whether the coordinator is to be asked first: not if the transaction is open here or nothing is stored."""
    transactions, producer = shard.offsets.transactions, (request.producer_id, request.producer_epoch)
    if not request.group_id or transactions.is_open(*producer) or transactions.commit_error(*producer):
        return False
    return bool(
        existing_partitions(
            _as_offset_commit(request),
            shard.topics,
            CommitAnswers(BY_NAME_VERSION),
            BY_NAME_VERSION,
        )
    )


def _verification_error(shard: ShardOffsets, asked: TransactionalCommit) -> ErrorCode:
    """Return INVALID_TXN_STATE if a marker came while the coordinator was asked, else NONE.

    COORDINATOR_NOT_AVAILABLE if it was not asked, or this shard was loaded again since: markers may be missed.
    """
    if shard.offsets.transactions.is_open(asked.request.producer_id, asked.request.producer_epoch):
        return ErrorCode.NONE
    if asked.verification is None or asked.verification not in shard.verifications:
        # Asked before this shard was loaded: there may have been markers since.
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.INVALID_TXN_STATE if asked.verification.is_outdated else ErrorCode.NONE


def _is_anything_stored(existing: list[OffsetCommitRequestTopic], settings: GroupSettings) -> bool:
    return any(not metadata_error(each, settings) for topic in existing for each in topic.partitions)


def _as_offset_commit(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    """Return an OffsetCommit of the same offsets."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic.name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    committed_metadata=each.committed_metadata,
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitRequest(group_id=request.group_id, topics=topics)


def _as_txn_response(plain: OffsetCommitResponse) -> TxnOffsetCommitResponse:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=each.error_code
                )
                for each in topic.partitions
            ],
        )
        for topic in plain.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)
