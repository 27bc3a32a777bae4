"""The events of a classic group's history: what people read of a step, made of the group and its cause.

An event shows the group as it is after the step. Nothing here decides what happens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coordinator.effects import GroupEvent, Moment
from coordinator.groups.causes import Cause

if TYPE_CHECKING:
    from coordinator.groups.classic.group import Group
    from coordinator.groups.classic.states import GroupState

REMOVED_IDS_MAX: Final = 10
"""Members that one event names of those it removes; all are counted."""


def new_event(group: Group, at: Moment, cause: Cause, came_from: GroupState | None = None) -> GroupEvent:
    """An event of something that happened to `group`, in the state it is in unless it `came_from` another one."""
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


def transition_event(
    group: Group, before: GroupState, at: Moment, cause: Cause, *, is_phase_complete: bool
) -> GroupEvent:
    """The event of a move from `before`: how long that state lasted, and what of a rebalance has ended with it."""
    elapsed_ms = 0 if group.state_since_ms is None else at.now_ms - group.state_since_ms
    event = replace(new_event(group, at, cause, before), phase_ms={before.value: elapsed_ms})
    if is_phase_complete:
        event = _with_last_arrival(event, group)
    return _with_rebalance(event, group, before, elapsed_ms)


def _with_last_arrival(event: GroupEvent, group: Group) -> GroupEvent:
    """Add the last member to come to a phase that waited for members and is complete; the next begins without."""
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
    """Add up the phases of a rebalance, however often it is cut short, and add them to the event that ends it."""
    if before.is_rebalancing:
        group.rebalance_ms[before.value] = group.rebalance_ms.get(before.value, 0) + elapsed_ms
    elif group.state.is_rebalancing:
        group.rebalance_cause = event.cause
    if not before.is_rebalancing or group.state.is_rebalancing:
        return event
    event = replace(event, rebalance_cause=group.rebalance_cause, rebalance_ms=group.rebalance_ms)
    group.rebalance_cause, group.rebalance_ms = None, {}
    return event
