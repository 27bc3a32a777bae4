"""The rows of a classic group's history: a change as it is recorded, made from the group and the cause.

A row shows the group as it is after the step. Nothing here decides what happens, nor words it.
"""

from __future__ import annotations

from typing import Any, Final

from coordinator.effects import HistoryRow, Moment, new_tuple
from coordinator.groups.causes import Cause
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import GroupState

REMOVED_IDS_MAX: Final = 10
"""The most removed members that one row names; its `removed_count` counts them all."""


def new_row(
    group: Group,
    at: Moment,
    cause: Cause,
    came_from: GroupState | None = None,
    phase: dict[str, Any] | None = None,
) -> HistoryRow:
    """Return a row that shows `group` as it is, coming from `came_from` (default: the present state).

    `phase` are further fields of its event, about the phase that ended; the row keeps them.
    """
    removed_count = len(cause.removed)
    if removed_count > REMOVED_IDS_MAX:
        cause = cause._replace(removed=cause.removed[:REMOVED_IDS_MAX])
    to_state = group.state.value
    return new_tuple(
        HistoryRow,
        (
            group.group_id,
            group.generation_id,
            to_state if came_from is None else came_from.value,
            to_state,
            cause,
            at.wall_ms,
            len(group.members),
            removed_count,
            phase,
            False,
        ),
    )


def transition_row(
    group: Group, before: GroupState, at: Moment, cause: Cause, *, is_phase_complete: bool
) -> HistoryRow:
    """Return the row of a transition from the state `before`, with the time spent in it, in ms.

    Where a rebalance ends with it, also the rebalance's cause and the time spent in each of its phases.
    """
    elapsed_ms = 0 if group.state_since_ms is None else at.now_ms - group.state_since_ms
    phase: dict[str, Any] = {"phase_ms": {before.value: elapsed_ms}}
    if is_phase_complete:
        phase |= _last_arrival(group)
    if group.state.is_rebalancing and group.initial_delay is None:
        phase["phase_timeout_ms"] = group.rebalance_timeout_ms
    phase |= _ended_rebalance(group, before, elapsed_ms, cause)
    return new_row(group, at, cause, before, phase)


def _last_arrival(group: Group) -> dict[str, Any]:
    """Return the fields of the last member that arrived in the completed phase; forget it for the next phase."""
    last, group.last_arrival = group.last_arrival, None
    if last is None:
        return {}
    return {
        "last_member_id": last.member_id,
        "last_group_instance_id": last.group_instance_id,
        "last_client_id": last.client_id,
        "last_client_host": last.client_host,
        "last_arrival_ms": max(last.now_ms - (group.state_since_ms or 0), 0),
    }


def _ended_rebalance(group: Group, before: GroupState, elapsed_ms: int, cause: Cause) -> dict[str, Any]:
    """Add `elapsed_ms` to the rebalance's phases; return the fields with their sums if the rebalance ends.

    The sums cover every attempt, as a rebalance may begin again before it completes.
    """
    if before.is_rebalancing:
        group.rebalance_ms[before.value] = group.rebalance_ms.get(before.value, 0) + elapsed_ms
    elif group.state.is_rebalancing:
        group.rebalance_cause = cause.kind.slug
    if not before.is_rebalancing or group.state.is_rebalancing:
        return {}
    ended = {"rebalance_cause": group.rebalance_cause, "rebalance_ms": group.rebalance_ms}
    group.rebalance_cause, group.rebalance_ms = None, {}
    return ended
