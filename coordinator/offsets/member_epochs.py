"""Whether a member of a consumer group may commit or fetch offsets, by its epoch (A66 to A68, KIP-1251).

A commit may be of an older epoch than the member's if all its partitions were the member's in that epoch: it was
sent before the member knew of the newer one. Nothing else has to be said of a commit than its error: its
response has no text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from protocol.errors import ErrorCode

EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit from which its generation may be a member's epoch."""

NO_EPOCH: Final = -1


class Committer(NamedTuple):
    """Who commits, as the request names it."""

    member_id: str
    epoch: int
    api_version: int


def epoch_error(
    group: ConsumerGroup, committer: Committer, partitions: Iterable[tuple[bytes, int]]
) -> ErrorCode:
    """Why these partitions, by topic id and number, may not be committed, or NONE. One that may not refuses all.

    Errors: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH; of a classic member ILLEGAL_GENERATION.
    """
    if committer.epoch < 0 and not group.members:
        return ErrorCode.NONE  # From outside, or of a consumer that assigns its partitions itself.
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and committer.api_version < EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    current = group.currents[committer.member_id]
    if committer.epoch == current.member_epoch:
        return ErrorCode.NONE
    if committer.epoch < current.member_epoch and _had_all(current, committer.epoch, partitions):
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _had_all(current: CurrentAssignment, epoch: int, partitions: Iterable[tuple[bytes, int]]) -> bool:
    """Whether the member had all of these partitions in an epoch, and still has them or has to give them up."""
    for topic_id, partition in partitions:
        assigned_in = current.assigned.get(topic_id, {}).get(partition)
        if assigned_in is None:
            assigned_in = current.pending_revocation.get(topic_id, {}).get(partition)
        if assigned_in is None or epoch < assigned_in:
            return False
    return True


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Why a member may not fetch offsets, or NONE; who names neither id nor epoch may.

    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; of a classic member ILLEGAL_GENERATION; UNKNOWN_SERVER_ERROR of
    an epoch without an id, which Kafka's table of members cannot be asked for.
    """
    if member_id is None:
        return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == group.currents[member_id].member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
