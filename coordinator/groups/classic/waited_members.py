"""What a classic group waits for: members in its join phase, then SyncGroups and the leader's assignment.

A function of the group and the time, for those who look at it; nothing here changes a group.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE
from coordinator.groups.waited_members import Says, Waited, Waiting, heard_ms, is_silent


def waiting_of(group: Group, now_ms: int) -> Waiting | None:
    """Return what the group waits for; None if it does not rebalance."""
    members = tuple(group.members.values())
    if group.state is PREPARING_REBALANCE:
        return Waiting(
            group.joined_count,
            len(members) + len(group.pending_members) - group.joined_count,
            (each.member_id for each in members if each.awaiting_join is not None),
            _not_joined(group, members, now_ms),
            max(group.join_deadline_ms - now_ms, 0),
        )
    if group.state is COMPLETING_REBALANCE:
        pending = group.pending_sync.copy()
        return Waiting(
            len(members) - len(pending),
            len(pending),
            (each.member_id for each in members if each.member_id not in pending),
            _not_synced(group, members, pending, now_ms),
            max(group.sync_deadline_ms - now_ms, 0),
        )
    return None


def _not_joined(group: Group, members: tuple[Member, ...], now_ms: int) -> Iterator[Waited]:
    for member in members:
        if member.awaiting_join is None:
            yield _waited(member, _says(group, member, now_ms), now_ms)
    for member_id, pending in tuple(group.pending_members.items()):
        ends_in_ms = max(pending.deadline_ms - now_ms, 0)
        yield Waited(member_id, None, "", "", None, Says.ID_UNUSED, ends_in_ms)


def _says(group: Group, member: Member, now_ms: int) -> Says:
    """A heartbeat is answered that the group rebalances, so a member that was heard since then knows it."""
    heard = heard_ms(member.session_deadline_ms, member.session_timeout_ms, now_ms)
    if is_silent(heard, member.session_timeout_ms):
        return Says.SILENT
    since_ms = 0 if group.state_since_ms is None else now_ms - group.state_since_ms
    return Says.HEARTBEATS if heard < since_ms else Says.NOT_HEARD


def _not_synced(
    group: Group, members: tuple[Member, ...], pending: set[str], now_ms: int
) -> Iterator[Waited]:
    for member in members:
        if member.member_id in pending:
            yield _waited(member, Says.LEADS if member.member_id == group.leader else Says.SYNCS_NOT, now_ms)


def _waited(member: Member, says: Says, now_ms: int) -> Waited:
    heard = heard_ms(member.session_deadline_ms, member.session_timeout_ms, now_ms)
    return Waited(member.member_id, member.group_instance_id, *member.origin, heard, says)
