"""Member ids that were handed out and are not used yet (KIP-394).

A client without a member id gets one and must join again with it, so that a client that gave up leaves no
member behind. Until then the join phase waits for the id, which counts for nothing else (3.5, 3.32). Its timer is
the session timer of the member that it becomes, so it is first armed no later than a newcomer's session would end.
"""

from __future__ import annotations

from coordinator.effects import Effects, Moment, new_tuple
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.events import new_row
from coordinator.groups.classic.group import PENDING_MEMBERS_MAX, Group, PendingMember
from coordinator.groups.classic.join_request import Join
from coordinator.groups.classic.rebalance import maybe_complete_join
from coordinator.groups.classic.states import PREPARING_REBALANCE
from coordinator.groups.classic.timers import SessionTimer
from coordinator.groups.group_settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from protocol.errors import ErrorCode


def hand_out_member_id(group: Group, join: Join) -> None:
    """Answer MEMBER_ID_REQUIRED with a new member id, which expires after one session timeout.

    The answer does not wait for the disk, as the id is not stored, unless the same request creates the group.
    """
    if len(group.pending_members) >= PENDING_MEMBERS_MAX:
        join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # Clients back off and ask again.
        return
    member_id = join.new_member_id()
    deadline_ms = join.at.now_ms + join.request.session_timeout_ms
    timer_ms = min(deadline_ms, join.at.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    group.pending_members[member_id] = new_tuple(PendingMember, (deadline_ms, timer_ms))
    join.effects.set_timer(SessionTimer(group.group_id, member_id), timer_ms)
    creates_group = bool(join.effects.records)
    join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id, reveals_stored=creates_group)


def forget_pending_member(group: Group, member_id: str, effects: Effects) -> None:
    """Remove a pending member id that left or was refused, and cancel its timer."""
    del group.pending_members[member_id]
    effects.set_timer(SessionTimer(group.group_id, member_id), None)


def on_pending_member_timer(group: Group, member_id: str, at: Moment, effects: Effects) -> None:
    """Remove an id that was not used in time; a later join with it gets UNKNOWN_MEMBER_ID (3.4)."""
    deadline_ms = group.pending_members[member_id].deadline_ms
    if at.now_ms < deadline_ms:
        group.pending_members[member_id] = PendingMember(deadline_ms, timer_ms=deadline_ms)
        effects.set_timer(SessionTimer(group.group_id, member_id), deadline_ms)
        return
    del group.pending_members[member_id]
    if group.state is PREPARING_REBALANCE:
        cause = Cause(CauseKind.PENDING_MEMBER_EXPIRED, member_id=member_id)
        effects.history.append(new_row(group, at, cause))
        maybe_complete_join(group, at, effects, ignore_delay=True)
