"""SyncGroup (key 14): the leader sends the assignment, and each member receives its part.

Followers are parked until the leader's assignment is durable; then all are answered and the group is
Stable. Only then is the generation in the log: after an earlier crash the group has the one before (3.66).
"""

from __future__ import annotations

from typing import Final

from coordinator.effects import Effects, Moment, RequestContext
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.answers import sync_answer
from coordinator.groups.classic.group import AssignmentStored, Group
from coordinator.groups.classic.member import Member, Parked
from coordinator.groups.classic.partition_counts import count_partitions
from coordinator.groups.classic.rebalance import prepare_rebalance, refuse_syncs
from coordinator.groups.classic.records import new_group_metadata_record
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.classic.states import COMPLETING_REBALANCE, SYNC_ANSWER, Trigger
from coordinator.groups.classic.timers import SyncTimer, arm_session_timer
from coordinator.groups.classic.transition import transition
from protocol.error_responses import append_answer, response_with_error
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_MANDATORY_SINCE: Final = 5  # KIP-559.


def sync_group(
    shard: ShardGroups, request: SyncGroupRequest, context: RequestContext, at: Moment, effects: Effects
) -> None:
    """Store the leader's assignment; park followers until it is stored; answer with it while Stable.

    Errors: INCONSISTENT_GROUP_PROTOCOL (KIP-559), INVALID_GROUP_ID, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID (KIP-345), ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
    """
    group = shard.groups.get(request.group_id)
    error = sync_request_error(request, context.api_version)
    error = error or (sync_group_error(group, request) if group else ErrorCode.UNKNOWN_MEMBER_ID)
    if group is None or error:
        refusal = response_with_error(SyncGroupResponse, error, context.api_version)
        effects.reply(context.reply_to, refusal)
        return
    member = group.members[request.member_id]
    _mark_synced(group, member, effects)
    if group.state is not COMPLETING_REBALANCE:
        effects.reply(context.reply_to, sync_answer(group, member))
        return
    _park(group, member, context, at, effects)
    if member.member_id == group.leader:
        count_partitions(group, shard.topics)  # The counts now: what the leader saw may be older.
        _store_assignment(group, request, effects)


def sync_request_error(request: SyncGroupRequest, api_version: int) -> ErrorCode:
    """Return the error of a request that is wrong whatever the group's state, or NONE."""
    named = request.protocol_type is not None and request.protocol_name is not None
    if api_version >= PROTOCOL_MANDATORY_SINCE and not named:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def sync_group_error(group: Group, request: SyncGroupRequest) -> ErrorCode:
    """Return why the group refuses this request, by Kafka's order of checks, or NONE."""
    if error := group.membership_error(request.member_id, request.group_instance_id):
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_ANSWER[group.state]


def on_assignment_stored(
    group: Group, stored: AssignmentStored, error: ErrorCode, at: Moment, effects: Effects
) -> None:
    """Answer every parked SyncGroup once the assignment is durable; if it was not stored, rebalance (3.49).

    Does nothing if another rebalance began meanwhile: the generation of this assignment is over (3.50).
    """
    if group.storing is not stored:
        return
    group.storing = None
    if error is not ErrorCode.NONE:
        _on_assignment_not_stored(group, append_answer(error), at, effects)
        return
    cause = _cause_by_leader(group, CauseKind.ASSIGNMENT_STORED)
    transition(group, Trigger.ASSIGNMENT_STORED, at, cause, effects)
    for member in group.members.values():
        member.assignment = stored.assignments.get(member.member_id, b"")
        parked, member.awaiting_sync = member.awaiting_sync, None
        if parked is not None:
            effects.reply(parked.reply_to, sync_answer(group, member))
            arm_session_timer(group.group_id, member, at.now_ms, effects)


def _park(group: Group, member: Member, context: RequestContext, at: Moment, effects: Effects) -> None:
    before, member.awaiting_sync = member.awaiting_sync, Parked(context.reply_to, context.api_version)
    group.record_arrival(member, at.now_ms)
    if before is not None:
        effects.superseded.append(before.reply_to)


def _store_assignment(group: Group, request: SyncGroupRequest, effects: Effects) -> None:
    """Write the leader's assignment; members it left out get b"", unknown member ids are ignored (3.43)."""
    from_leader = {assigned.member_id: bytes(assigned.assignment) for assigned in request.assignments}
    assignments = {member_id: from_leader.get(member_id, b"") for member_id in group.members}
    group.storing = AssignmentStored(group.group_id, group.generation_id, assignments)
    effects.records.append(new_group_metadata_record(group, assignments))
    effects.hand_back(group.storing)


def _on_assignment_not_stored(group: Group, error: ErrorCode, at: Moment, effects: Effects) -> None:
    for member in group.members.values():
        member.assignment = b""
    refuse_syncs(group, at, error, effects)
    cause = _cause_by_leader(group, CauseKind.ASSIGNMENT_NOT_STORED, error.name)
    prepare_rebalance(group, at, cause, effects, Trigger.ASSIGNMENT_FAILED)


def _mark_synced(group: Group, member: Member, effects: Effects) -> None:
    """Note that this member's SyncGroup has come; if it was the last, cancel the sync timer."""
    waited = bool(group.pending_sync)
    group.pending_sync.discard(member.member_id)
    if waited and not group.pending_sync:
        effects.set_timer(SyncTimer(group.group_id), None)


def _cause_by_leader(group: Group, kind: CauseKind, detail: str | None = None) -> Cause:
    leader = group.members.get(group.leader or "")
    return Cause(kind, detail) if leader is None else Cause.by(leader, kind, detail)


def _differs(named: str | None, groups_own: str | None) -> bool:
    return named is not None and groups_own is not None and named != groups_own
