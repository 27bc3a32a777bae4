"""An observed event as one line for people. What does not print is escaped: no line can hide or reorder text."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.effects import GroupEvent
from coordinator.history.events import MAX_TEXT
from muster.groups.history_tables import local_time


def event_line(event: GroupEvent) -> str:
    """Time, group, generation, states, reason, and who did it."""
    return " ".join(_parts(event))


def _parts(event: GroupEvent) -> Iterator[str]:
    yield local_time(event.wall_ms)
    yield visible(event.group_id) or '""'
    yield f"generation {event.generation_id},"
    if event.from_state != event.to_state:
        yield f"{event.from_state} -> {event.to_state}:"
    else:
        yield f"{event.to_state}:"
    yield visible(event.reason)
    if event.member_id is not None:
        yield f"({visible(event.group_instance_id or event.member_id)} of {visible(event.client_id or '')}"
        yield f"at {visible(event.client_host or '').lstrip('/')})"


def visible(text: str) -> str:
    """`text` with all that does not print, as bidi marks, written as an escape; cut to MAX_TEXT characters."""
    shown = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in shown
    )
