"""The one way in which a classic group changes its state: along a row of TRANSITIONS, with an event that says why.

A transition without a row is a bug of ours. Nothing here knows a request, or what a change leads to.
"""

from __future__ import annotations

from coordinator.effects import Effects, Moment
from coordinator.groups.causes import Cause
from coordinator.groups.classic.events import transition_row
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import TRANSITIONS, Trigger


class IllegalTransition(Exception):
    """A transition that TRANSITIONS does not have: a bug of ours, never the client's fault."""


def transition(group: Group, trigger: Trigger, at: Moment, cause: Cause, effects: Effects) -> None:
    """Move `group` along TRANSITIONS, with an event for the history; the only code that assigns `group.state`.

    Raises IllegalTransition where no row exists.
    """
    before = group.state
    try:
        group.state = TRANSITIONS[before, trigger]
    except KeyError:
        raise IllegalTransition(f"{group.group_id}: {trigger} in {before}") from None
    is_phase_complete = trigger in (Trigger.JOIN_COMPLETED, Trigger.ASSIGNMENT_STORED)
    effects.history.append(transition_row(group, before, at, cause, is_phase_complete=is_phase_complete))
    group.state_since_ms = at.now_ms
    group.state_wall_ms = at.wall_ms
