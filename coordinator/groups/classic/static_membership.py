"""A static member that comes back: it keeps its place, and its new member id fences the old one (KIP-345).

While the group is Stable and the protocol stays the same this costs no rebalance. The new id is stored
before it is answered, lest a restart bring the old one back; until then the JoinGroup stays parked, and if
the new id cannot be stored the old one is valid again (3.33 to 3.38).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.effects import Effects, Moment, Reply
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.answers import join_answer
from coordinator.groups.classic.events import new_row
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.join_request import Join
from coordinator.groups.classic.member import Member, OfferedProtocol, Parked
from coordinator.groups.classic.rebalance import maybe_prepare_rebalance_or_complete_join, prepare_rebalance
from coordinator.groups.classic.records import new_group_metadata_record
from coordinator.groups.classic.states import PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import arm_session_timer, cancel_session_timer
from protocol.error_responses import append_answer, response_with_error
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

SKIP_ASSIGNMENT_SINCE: Final = 9  # JoinGroup: the answer can ask a leader to keep the assignment (KIP-814).


@dataclass(frozen=True, slots=True)
class StaticMemberStored:
    """`Result.then` of storing a static member's new id: what to answer, and what to restore on failure."""

    group_id: str
    generation_id: int
    member_id: str
    old_member_id: str
    old_leader: str | None
    old_protocols: tuple[OfferedProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_process: tuple[str, str] | None
    parked: Parked


def replace_static_member(group: Group, member: Member, join: Join) -> None:
    """Give `member` a new member id. Parked requests of the old one get FENCED_INSTANCE_ID (3.37)."""
    member_id, effects = join.new_member_id(), join.effects
    cause = join.new_cause(member, CauseKind.STATIC_MEMBER_REPLACED)
    cause = cause._replace(member_id=member_id, removed=(member.member_id,))
    stored = StaticMemberStored(
        group_id=group.group_id,
        generation_id=group.generation_id,
        member_id=member_id,
        old_member_id=member.member_id,
        old_leader=group.leader,
        old_protocols=member.protocols,
        old_rebalance_timeout_ms=member.rebalance_timeout_ms,
        old_session_timeout_ms=member.session_timeout_ms,
        old_process=member.taken_over_by,
        parked=join.parked,
    )
    _fence(group, member, effects)
    _rename(group, member, member_id, join.at, effects)
    _take_over(group, member, join)
    if group.state is PREPARING_REBALANCE:
        maybe_prepare_rebalance_or_complete_join(group, join.at, cause, effects)
    elif group.state is STABLE and group.vote() == group.protocol_name:
        assignments = {m.member_id: m.assignment for m in group.members.values()}
        effects.records.append(new_group_metadata_record(group, assignments))
        effects.history.append(new_row(group, join.at, cause))
        effects.hand_back(stored)
    else:  # The leader may just be assigning to the old id (3.36), or the protocol would change (3.35).
        prepare_rebalance(group, join.at, cause, effects)


def on_static_member_stored(
    group: Group, stored: StaticMemberStored, error: ErrorCode, at: Moment, effects: Effects
) -> None:
    """Answer the join once the new id is durable, or restore the old id if it could not be stored.

    Does nothing if a rebalance began meanwhile: the end of its join phase answers.
    """
    member = group.members.get(stored.member_id)
    passed = group.state is not STABLE or group.generation_id != stored.generation_id
    if passed or member is None or member.awaiting_join != stored.parked:
        return
    if error is not ErrorCode.NONE:
        _restore_old_member(group, member, stored, error, at, effects)
        return
    group.take_join(member)
    arm_session_timer(group.group_id, member, at.now_ms, effects)
    effects.replies.append(_rejoin_reply(group, member, stored))


def _fence(group: Group, member: Member, effects: Effects) -> None:
    if join := group.take_join(member):
        fenced = response_with_error(JoinGroupResponse, ErrorCode.FENCED_INSTANCE_ID, join.api_version)
        fenced.member_id = member.member_id
        effects.reply(join.reply_to, fenced)
    sync, member.awaiting_sync = member.awaiting_sync, None
    if sync is not None:
        error = ErrorCode.FENCED_INSTANCE_ID
        effects.reply(sync.reply_to, response_with_error(SyncGroupResponse, error, sync.api_version))


def _rename(group: Group, member: Member, member_id: str, at: Moment, effects: Effects) -> None:
    cancel_session_timer(group.group_id, member, effects)
    group.rename(member, member_id)
    arm_session_timer(group.group_id, member, at.now_ms, effects)


def _take_over(group: Group, member: Member, join: Join) -> None:
    """Replace the protocols and timeouts of `member` by those of the new process, and park its join."""
    member.is_new = False
    member.taken_over_by = (join.context.client_id, join.context.client_host)
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    group.update_protocols(member, join.protocols)
    group.park_join(member, join.parked, join.at.now_ms)


def _rejoin_reply(group: Group, member: Member, stored: StaticMemberStored) -> Reply:
    """Return the JoinGroup reply with the present generation, such that a leader does not assign again (3.34).

    From version 9 on `skip_assignment` says so; before, the response names the old member id as leader.
    """
    version = stored.parked.api_version
    if version >= SKIP_ASSIGNMENT_SINCE:
        leads = group.leader == member.member_id
        answer = join_answer(group, member, version, skip_assignment=leads)
    else:
        answer = join_answer(group, member, version, leader=stored.old_leader, with_members=False)
    return Reply(stored.parked.reply_to, answer)


def _restore_old_member(
    group: Group, member: Member, stored: StaticMemberStored, error: ErrorCode, at: Moment, effects: Effects
) -> None:
    """Restore the old id, protocols and timeouts, so that the old process, if it lives, carries on (3.38)."""
    group.take_join(member)
    group.update_protocols(member, stored.old_protocols)
    member.taken_over_by = stored.old_process
    member.rebalance_timeout_ms = stored.old_rebalance_timeout_ms
    member.session_timeout_ms = stored.old_session_timeout_ms
    _rename(group, member, stored.old_member_id, at, effects)
    answer = join_answer(
        group, member, stored.parked.api_version, leader=stored.old_leader, with_members=False
    )
    answer.member_id = ""
    answer.error_code = append_answer(error)
    kind = CauseKind.STATIC_MEMBER_NOT_STORED
    cause = Cause.by(member, kind, error.name, removed=(stored.member_id,))
    effects.history.append(new_row(group, at, cause))
    effects.reply(stored.parked.reply_to, answer, reveals_stored=False)
