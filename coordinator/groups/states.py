"""The states of a classic group, what moves it from one to another, and what a state alone decides.

Both are data: a step without a row in TRANSITIONS is a bug of ours, and an answer that depends on
nothing but the state is looked up. Nothing here knows a request or a member beyond who caused a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from coordinator.groups.effects import GroupEvent, Moment
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.groups.group import Group
    from coordinator.groups.member import Member

REASON_MAX_CHARS: Final = 255
"""Of a client's own reason so much is kept; the Java client cuts its reasons to the same length."""


class GroupState(Enum):
    """Where a group stands. The values are Kafka's names, as DescribeGroups shows them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    # Members are unique. Enum's own hash is a call in Python, and every heartbeat looks a state up.
    __hash__ = object.__hash__


class Trigger(Enum):
    """What can move a group to another state."""

    MEMBERSHIP_CHANGED = "membership changed"  # A member came, went, or offers something else.
    JOIN_COMPLETED = "join completed"
    NOBODY_JOINED = "nobody joined"
    ASSIGNMENT_STORED = "assignment stored"
    ASSIGNMENT_FAILED = "assignment failed"  # The log would not take it.
    GROUP_REMOVED = "group removed"


EMPTY: Final = GroupState.EMPTY
PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD

TRANSITIONS: Final[dict[tuple[GroupState, Trigger], GroupState]] = {
    (EMPTY, Trigger.MEMBERSHIP_CHANGED): PREPARING_REBALANCE,
    (STABLE, Trigger.MEMBERSHIP_CHANGED): PREPARING_REBALANCE,
    (COMPLETING_REBALANCE, Trigger.MEMBERSHIP_CHANGED): PREPARING_REBALANCE,
    (COMPLETING_REBALANCE, Trigger.ASSIGNMENT_FAILED): PREPARING_REBALANCE,
    (PREPARING_REBALANCE, Trigger.JOIN_COMPLETED): COMPLETING_REBALANCE,
    (PREPARING_REBALANCE, Trigger.NOBODY_JOINED): EMPTY,
    (COMPLETING_REBALANCE, Trigger.ASSIGNMENT_STORED): STABLE,
    **{(state, Trigger.GROUP_REMOVED): DEAD for state in GroupState},
}

HEARTBEAT_ANSWER: Final[dict[GroupState, ErrorCode]] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: ErrorCode.NONE,  # Members beat between JoinGroup and SyncGroup (3.53).
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Heartbeat of a member with the right generation."""

SYNC_ANSWER: Final[dict[GroupState, ErrorCode]] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: ErrorCode.NONE,  # Taken, and parked until the leader's assignment is stored.
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""SyncGroup of a member with the right generation; NONE: it is served."""

COMMIT_ANSWER: Final[dict[GroupState, ErrorCode]] = {
    EMPTY: ErrorCode.NONE,
    PREPARING_REBALANCE: ErrorCode.NONE,  # Members commit what they read before they give it up (O7).
    COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""OffsetCommit that is not refused for its member id or generation."""

DELETE_ANSWER: Final[dict[GroupState, ErrorCode]] = {
    EMPTY: ErrorCode.NONE,
    PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    STABLE: ErrorCode.NON_EMPTY_GROUP,
    DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}
"""DeleteGroups; also OffsetDelete, where a group of consumers is not refused for having members."""


class IllegalTransition(Exception):
    """A step that TRANSITIONS does not have: a bug of ours, never the client's fault."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a group changes state, for people: a reason and, where there is one, the member behind it."""

    reason: str
    member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None

    @classmethod
    def by(cls, member: Member, reason: str) -> Cause:
        """A cause that is `member`'s doing."""
        return cls(reason, member.member_id, member.group_instance_id, member.client_id, member.client_host)


def with_client_reason(reason: str, client_reason: str | None) -> str:
    """`reason` with what the client itself said, cut to REASON_MAX_CHARS (KIP-800)."""
    return f"{reason}: {client_reason[:REASON_MAX_CHARS]}" if client_reason else reason


def transition(group: Group, trigger: Trigger, at: Moment, cause: Cause) -> GroupEvent:
    """Move `group` along TRANSITIONS and tell of it; the only code that assigns `group.state`.

    Raises IllegalTransition where no row exists.
    """
    before = group.state
    try:
        group.state = TRANSITIONS[before, trigger]
    except KeyError:
        raise IllegalTransition(f"{group.group_id}: {trigger} in {before}") from None
    elapsed_ms = 0 if group.state_since_ms is None else at.now_ms - group.state_since_ms
    group.state_since_ms = at.now_ms
    group.state_wall_ms = at.wall_ms
    last_arrival = _last_arrival(group, trigger)
    return GroupEvent(
        group_id=group.group_id,
        generation_id=group.generation_id,
        from_state=before.value,
        to_state=group.state.value,
        reason=cause.reason,
        wall_ms=at.wall_ms,
        member_id=cause.member_id,
        group_instance_id=cause.group_instance_id,
        client_id=cause.client_id,
        client_host=cause.client_host,
        member_count=len(group.members),
        phase_ms={before.value: elapsed_ms},
        last_member_id=last_arrival,
    )


def _last_arrival(group: Group, trigger: Trigger) -> str | None:
    """Who came last to a phase that waited for members and is now complete; the next one starts anew."""
    if trigger not in (Trigger.JOIN_COMPLETED, Trigger.ASSIGNMENT_STORED):
        return None
    last_arrival, group.last_arrival = group.last_arrival, None
    return last_arrival
