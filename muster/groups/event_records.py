"""A record of `__group_events` as an event, or the reason why it is none. Nothing is guessed.

`coordinator.history.events` reads what it wrote itself; here every field is checked as well, since any client
may have written to the topic. Fields that a later version added are passed over, and so is a cause that is not
known yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import NoneType
from typing import Any, Final

from coordinator.effects import GroupEvent
from coordinator.history.events import HistoryError, decode_event

WALL_MS_MAX: Final = 253_402_300_799_999  # The end of the year 9999: Parquet's readers know no later one.
_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1

_TYPES: Final[tuple[tuple[str, tuple[type, ...]], ...]] = (
    ("group_id", (str,)),
    ("generation_id", (int,)),
    ("from_state", (str,)),
    ("to_state", (str,)),
    ("reason", (str,)),
    ("wall_ms", (int,)),
    ("member_id", (str, NoneType)),
    ("group_instance_id", (str, NoneType)),
    ("client_id", (str, NoneType)),
    ("client_host", (str, NoneType)),
    ("member_count", (int,)),
    ("phase_ms", (dict,)),
    ("last_member_id", (str, NoneType)),
    ("cause", (str,)),
    ("client_reason", (str, NoneType)),
    ("last_client_id", (str, NoneType)),
    ("last_client_host", (str, NoneType)),
    ("last_arrival_ms", (int, NoneType)),
    ("removed_count", (int,)),
    ("removed_member_ids", (tuple,)),
    ("rebalance_cause", (str, NoneType)),
    ("rebalance_ms", (dict,)),
    ("dropped_count", (int,)),
)
_FIELD_TYPES: Final[tuple[tuple[str, Callable[[GroupEvent], Any], tuple[type, ...]], ...]] = tuple(
    (name, getattr(GroupEvent, name).__get__, types) for name, types in _TYPES
)
_BOUNDS: Final = (
    ("generation_id", -1, _INT_MAX),
    ("member_count", 0, _INT_MAX),
    ("removed_count", 0, _INT_MAX),
    ("dropped_count", 0, _LONG_MAX),
    ("wall_ms", 0, WALL_MS_MAX),
)


def read_event(key: bytes | None, value: bytes | None) -> GroupEvent:
    """The event in a record. Raises HistoryError, with the reason, for anything else."""
    try:
        event = decode_event(value)
    except RecursionError:
        raise HistoryError("not JSON: nested too deeply") from None
    for name, get, types in _FIELD_TYPES:
        if type(get(event)) not in types:  # Not isinstance: true is no number.
            raise HistoryError(f"{name} is of a wrong type: {type(get(event)).__name__}")
    for name, least, most in _BOUNDS:
        if not least <= getattr(event, name) <= most:
            raise HistoryError(f"{name} is out of range: {getattr(event, name)}")
    _check_inner(event)
    if value is not None and b"\\u" in value:
        _check_text(value)
    if key is None or key != event.group_id.encode():
        raise HistoryError("the key is not the group id")
    return event


def _check_inner(event: GroupEvent) -> None:
    """What is within the containers: durations by the names of states, and member ids."""
    for name, spent in (("phase_ms", event.phase_ms), ("rebalance_ms", event.rebalance_ms)):
        if any(type(ms) is not int or not 0 <= ms <= WALL_MS_MAX for ms in spent.values()):
            raise HistoryError(f"{name} has something else than milliseconds")
    if any(type(member_id) is not str for member_id in event.removed_member_ids):
        raise HistoryError("removed_member_ids has something else than member ids")
    if event.last_arrival_ms is not None and not 0 <= event.last_arrival_ms <= WALL_MS_MAX:
        raise HistoryError(f"last_arrival_ms is out of range: {event.last_arrival_ms}")
    if event.from_state == event.to_state == "" and not event.dropped_count:
        raise HistoryError("an event without states")


def _check_text(value: bytes) -> None:
    """JSON can name half a surrogate pair, which no UTF-8 can hold: not in a table, and not in Arrow."""
    try:
        json.dumps(json.loads(value), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise HistoryError(f"a text is not Unicode: {error.reason}") from None
