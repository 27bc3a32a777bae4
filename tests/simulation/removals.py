"""Whether a member of a consumer group was removed for a reason, by the event that removed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator.effects import Event, RequestReceived, TimerFired
from coordinator.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    MemberSessionTimer,
    RevocationTimer,
)
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from tests.simulation.claims import MemberClaims
from tests.simulation.marks import Marks


@dataclass(frozen=True, slots=True)
class Removed:
    """A member that an event has removed; `session_ms` is what members of the new protocol have."""

    member_id: str
    instance_id: str | None
    claims: MemberClaims
    session_ms: int


def objection(removed: Removed, event: Event, now_ms: int, marks: Marks) -> str | None:
    """Why the member should still be one, in words; None if it was removed for a reason."""
    match event:
        case TimerFired(key, _):
            return _of_timer(removed, key, now_ms, marks)
        case RequestReceived(request, _):
            return None if _is_meant(removed, request) else f"by {request}"
    return f"by {event}"


def _of_timer(removed: Removed, key: Any, now_ms: int, marks: Marks) -> str | None:
    claims = removed.claims
    if getattr(key, "member_id", None) != removed.member_id:
        return f"by a timer of another: {key}"
    match key:
        case MemberSessionTimer():
            marks.reach("session_expired")
            own_ms = min(claims.session_ms, removed.session_ms) if claims.is_classic else removed.session_ms
            return _too_soon("silence", claims.heard_ms, own_ms, now_ms)
        case RevocationTimer():
            marks.reach("revocation_timed_out")
            since_ms = claims.told_first_ms if claims.to_give_up else None
            return _too_soon("having to give up", since_ms, claims.rebalance_ms, now_ms)
        case ClassicJoinTimer():
            marks.reach("rejoin_timed_out")
            if claims.rejoin_ms is None:
                return "for not joining again, which it did or was not told to"
            return _too_soon("having to join again", claims.rejoin_ms, claims.rebalance_ms, now_ms)
        case ClassicSyncTimer():
            marks.reach("sync_timed_out")
            if claims.sync_ms is None:
                return "for no SyncGroup, which it sent or did not owe"
            return _too_soon("having to sync", claims.sync_ms, claims.rebalance_ms, now_ms)
    return f"by a timer that removes nobody: {key}"


def _too_soon(what: str, since_ms: int | None, timeout_ms: int, now_ms: int) -> str | None:
    if since_ms is None or now_ms - since_ms >= timeout_ms:
        return None
    return f"after {now_ms - since_ms} ms of {what}, allowed are {timeout_ms}"


def _is_meant(removed: Removed, request: Any) -> bool:
    """Whether a request removes the member: it leaves, is named by an admin, or another takes its instance."""
    instance_id = removed.instance_id
    match request:
        case ConsumerGroupHeartbeatRequest():
            takes_over = request.member_epoch == 0 and request.instance_id == instance_id is not None
            is_free = removed.claims.is_away or removed.claims.is_classic
            return (takes_over and is_free) or (
                request.member_epoch < 0 and request.member_id == removed.member_id
            )
        case JoinGroupRequest():
            return instance_id is not None and request.group_instance_id == instance_id
        case LeaveGroupRequest():
            ids = [request.member_id, *(each.member_id for each in request.members)]
            named = removed.member_id in ids
            return named or instance_id in [
                each.group_instance_id for each in request.members if each.group_instance_id is not None
            ]
    return False
