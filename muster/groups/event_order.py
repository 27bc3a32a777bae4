"""Puts a group's events into the order in which they happened, where the topic's order may be wrong.

The coordinator writes them in order, and a group has one partition; so offsets are the order, also where its
clock was set back in between. A copy of the topic may have some swapped. States and generations show which it is:
an event begins in the state in which the one before it ended, and generations rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from coordinator.effects import GroupEvent
from coordinator.groups.classic.states import DEAD


def in_order(events: Sequence[GroupEvent]) -> Sequence[GroupEvent]:
    """The events of one group, given by offset: in that order, or by time if their states then fit better."""
    breaks = _break_count(events)
    if not breaks:
        return events
    by_time = sorted(events, key=_time)
    return by_time if _break_count(by_time) < breaks else events


def _time(event: GroupEvent) -> tuple[int, int]:
    return event.wall_ms, event.generation_id


def _break_count(events: Sequence[GroupEvent]) -> int:
    """How often an event does not begin where the one before it ended, restarts not counted."""
    return sum(
        before.to_state != after.from_state or before.generation_id > after.generation_id
        for before, after in pairwise(events)
        if after.from_state != DEAD.value
    )
