"""An observed event as one line for people. What does not print is escaped: no line can hide or reorder text."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.effects import GroupEvent
from coordinator.groups.causes import cut
from coordinator.history.events import MAX_TEXT
from muster.groups.history_tables import local_time
from muster.sentences import visible


def event_line(event: GroupEvent) -> str:
    """Time, group, generation, states, reason, and who did it."""
    return " ".join(_parts(event))


def _parts(event: GroupEvent) -> Iterator[str]:
    yield local_time(event.wall_ms)
    yield _shown(event.group_id) or '""'
    yield f"generation {event.generation_id},"
    if event.from_state != event.to_state:
        yield f"{event.from_state} -> {event.to_state}:"
    else:
        yield f"{event.to_state}:"
    yield _shown(event.reason)
    if event.member_id is not None:
        yield f"({_shown(event.group_instance_id or event.member_id)} of {_shown(event.client_id or '')}"
        yield f"at {_shown(event.client_host or '').lstrip('/')})"


def _shown(text: str) -> str:
    return visible(cut(text, MAX_TEXT))
