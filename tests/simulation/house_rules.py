"""What must hold of a group between any two events, whatever happened to it."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.runtime.clock import STALL_MS

LATE_MS = STALL_MS + 250
"""So late may the wheel be turned after a stop of the process: it is noticed, and the sockets are read first."""


def broken_rules(group: Group, now_ms: int, *, timers_wait: bool = False) -> Iterator[str]:
    """The house rules that `group` breaks, in words; nothing if all is well.

    `timers_wait`, however late they are, while its shard stands still.
    """
    yield from _of_membership(group)
    yield from _of_state(group)
    if not timers_wait:
        yield from _of_waiting(group, now_ms)


def _of_membership(group: Group) -> Iterator[str]:
    members = group.members
    if group.leader not in members if members else group.leader is not None:
        yield f"the leader {group.leader} is no member"
    if any(member_id != member.member_id for member_id, member in members.items()):
        yield "a member is listed under another's id"
    static = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None}
    if static != group.static_members:
        yield f"static members {group.static_members}, by their own word {static}"
    if group.pending_members.keys() & members.keys():
        yield "an id is pending and a member's"
    if not group.pending_sync <= members.keys():
        yield "a SyncGroup is expected of no member"
    if group.joined_count != sum(m.awaiting_join is not None for m in members.values()):
        yield "joins are miscounted"


def _of_state(group: Group) -> Iterator[str]:
    if group.state is EMPTY and group.members:
        yield "Empty, with members"
    if group.state in (STABLE, COMPLETING_REBALANCE) and not (group.members and group.protocol_name):
        yield f"{group.state.value} without members or a protocol"
    if group.state is not PREPARING_REBALANCE and group.initial_delay is not None:
        yield "an initial delay outside PreparingRebalance"


def _of_waiting(group: Group, now_ms: int) -> Iterator[str]:
    for member in group.members.values():
        if member.awaiting_sync is not None and group.state is not COMPLETING_REBALANCE:
            yield f"{member.member_id} waits in SyncGroup in {group.state.value}"
        if member.is_parked:
            continue
        armed = member.session_timer_ms
        if armed is None or not now_ms - LATE_MS <= armed <= member.session_deadline_ms:
            yield f"the session of {member.member_id} ends at {member.session_deadline_ms}, its timer at {armed}"
