"""The states of a classic group, what moves it from one to another, and what a state alone decides.

Both are data: a step without a row in TRANSITIONS is a bug of ours, and an answer that depends on
nothing but the state is looked up. Nothing here knows a request or a member beyond who caused a step.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from coordinator.effects import GroupEvent, Moment
from coordinator.groups.causes import Cause
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.groups.classic.group import Group

REMOVED_IDS_MAX: Final = 10
"""Of the members that one event removes so many are named; all are counted."""


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
REBALANCING: Final = (PREPARING_REBALANCE, COMPLETING_REBALANCE)

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


PROTOCOL_DESCRIBED: Final[dict[GroupState, bool]] = {
    EMPTY: False,
    PREPARING_REBALANCE: False,
    COMPLETING_REBALANCE: False,  # Chosen, and not yet in force.
    STABLE: True,
    DEAD: False,
}
"""Whether DescribeGroups tells the protocol, and what each member offered for it."""


class IllegalTransition(Exception):
    """A step that TRANSITIONS does not have: a bug of ours, never the client's fault."""


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
    event = replace(note(group, at, cause, before), phase_ms={before.value: elapsed_ms})
    if trigger in (Trigger.JOIN_COMPLETED, Trigger.ASSIGNMENT_STORED):
        event = _with_last_arrival(event, group)
    event = _with_rebalance(event, group, before, elapsed_ms)
    group.state_since_ms = at.now_ms
    group.state_wall_ms = at.wall_ms
    return event


def note(group: Group, at: Moment, cause: Cause, came_from: GroupState | None = None) -> GroupEvent:
    """Tell of something that happened to `group`; unless it `came_from` another state, within the one it is in."""
    return GroupEvent(
        group_id=group.group_id,
        generation_id=group.generation_id,
        from_state=(came_from or group.state).value,
        to_state=group.state.value,
        reason=cause.reason,
        wall_ms=at.wall_ms,
        member_id=cause.member_id,
        group_instance_id=cause.group_instance_id,
        client_id=cause.client_id,
        client_host=cause.client_host,
        member_count=len(group.members),
        cause=cause.kind.slug,
        client_reason=cause.client_reason,
        removed_count=len(cause.removed),
        removed_member_ids=cause.removed[:REMOVED_IDS_MAX],
    )


def _with_last_arrival(event: GroupEvent, group: Group) -> GroupEvent:
    """Who came last to a phase that waited for members and is now complete; the next one starts anew."""
    last, group.last_arrival = group.last_arrival, None
    if last is None:
        return event
    return replace(
        event,
        last_member_id=last.member_id,
        last_client_id=last.client_id,
        last_client_host=last.client_host,
        last_arrival_ms=max(last.now_ms - (group.state_since_ms or 0), 0),
    )


def _with_rebalance(event: GroupEvent, group: Group, before: GroupState, elapsed_ms: int) -> GroupEvent:
    """Add up the phases of a rebalance, however often it is cut short, and tell them when it ends."""
    if before in REBALANCING:
        group.rebalance_ms[before.value] = group.rebalance_ms.get(before.value, 0) + elapsed_ms
    elif group.state in REBALANCING:
        group.rebalance_cause = event.cause
    if before not in REBALANCING or group.state in REBALANCING:
        return event
    event = replace(event, rebalance_cause=group.rebalance_cause, rebalance_ms=group.rebalance_ms)
    group.rebalance_cause, group.rebalance_ms = None, {}
    return event
