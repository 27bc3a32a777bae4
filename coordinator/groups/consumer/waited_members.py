"""What a consumer group waits for: the members that do not have yet what they are to have.

A function of the group, its soft state and the time, for those who look at it; nothing here changes a group.
"""

from __future__ import annotations

from typing import Final

from coordinator.groups.consumer.group import LEFT_FOR_NOW_EPOCH, ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.shard_groups import ConsumerGroups
from coordinator.groups.consumer.states import GroupState, MemberState
from coordinator.groups.waited_members import Says, Waited, Waiting, heard_ms, is_silent

_BY_STATE: Final = {
    MemberState.UNREVOKED_PARTITIONS: Says.GIVES_UP,
    MemberState.UNRELEASED_PARTITIONS: Says.AWAITS,
}


def waiting_of(groups: ConsumerGroups, group: ConsumerGroup, now_ms: int) -> Waiting | None:
    """Return what the group waits for; None if it does not rebalance.

    While it is Assigning, the coordinator is to compute who gets what, with the next heartbeat of any member.
    """
    if group.state not in (GroupState.ASSIGNING, GroupState.RECONCILING):
        return None
    epoch = group.assignment_epoch if group.state is GroupState.RECONCILING else group.epoch
    currents = group.currents
    pairs = tuple((member, currents[member.member_id]) for member in group.members.values())
    done = (member.member_id for member, current in pairs if current.is_reconciled_to(epoch))
    missing = (
        _waited(groups, group, member, current, now_ms)
        for member, current in pairs
        if not current.is_reconciled_to(epoch)
    )
    done_count = group.standings.get((MemberState.STABLE, epoch), 0)
    return Waiting(done_count, len(pairs) - done_count, done, missing, None)


def heard_ms_of(groups: ConsumerGroups, group_id: str, member: ConsumerMember, now_ms: int) -> int | None:
    """How long ago a member was heard; None if it has no session, as one that has left for now."""
    soft = groups.known_soft(group_id)
    session = None if soft is None else soft.sessions.get(member.member_id)
    if session is None:
        return None
    timeout_ms = member.session_timeout_ms(groups.settings.of(group_id).session_timeout_ms)
    return heard_ms(session.deadline_ms, timeout_ms, now_ms)


def _waited(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    member: ConsumerMember,
    current: CurrentAssignment,
    now_ms: int,
) -> Waited:
    heard = heard_ms_of(groups, group.group_id, member, now_ms)
    settings = groups.settings.of(group.group_id)
    timeout_ms = member.session_timeout_ms(settings.session_timeout_ms)
    if current.member_epoch == LEFT_FOR_NOW_EPOCH:
        says = Says.AWAY
    elif heard is not None and is_silent(heard, timeout_ms, settings.heartbeat_interval_ms):
        says = Says.SILENT
    else:
        says = _BY_STATE.get(current.state, Says.BEHIND)
    return Waited(
        member.member_id,
        member.instance_id,
        *member.origin,
        heard,
        says,
        _ends_in_ms(groups, group.group_id, member.member_id, now_ms),
    )


def _ends_in_ms(groups: ConsumerGroups, group_id: str, member_id: str, now_ms: int) -> int | None:
    """Until when it is waited for: to confirm what it gave up, or, of a classic member, to join or to sync."""
    soft = groups.known_soft(group_id)
    if soft is None:
        return None
    revocation = soft.revocations.get(member_id)
    deadlines = [
        None if revocation is None else revocation.deadline_ms,
        soft.joins.get(member_id),
        soft.syncs.get(member_id),
    ]
    known = [each for each in deadlines if each is not None]
    return max(min(known) - now_ms, 0) if known else None
