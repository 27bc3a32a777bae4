"""Decodes records of `__group_events`; a record that is not an event is refused with the reason.

`coordinator.history.events` reads what it wrote itself; here every field is checked as well, since any client may
have written to the topic. Fields that a later version added are passed over, and so is a cause that is not known
yet. Causes under a former slug have the slug of today in the event that is returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import NoneType
from typing import Any, Final

from coordinator.effects import GroupEvent, Observed
from coordinator.groups.causes import RENAMED_SLUGS, current_slug
from coordinator.history.events import HistoryError, decode_event

WALL_MS_MAX: Final = 253_402_300_799_999  # The end of the year 9999, the last in Parquet's readers.
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
    ("last_group_instance_id", (str, NoneType)),
    ("last_given_up_count", (int,)),
    ("last_given_up", (tuple,)),
    ("removed_count", (int,)),
    ("removed_member_ids", (tuple,)),
    ("rebalance_cause", (str, NoneType)),
    ("rebalance_ms", (dict,)),
    ("dropped_count", (int,)),
    ("rebalance_timeout_ms", (int, NoneType)),
    ("session_timeout_ms", (int, NoneType)),
    ("session_left_ms", (int, NoneType)),
    ("phase_timeout_ms", (int, NoneType)),
    ("observed", (Observed, NoneType)),
    ("client_metrics", (dict, NoneType)),
)
_FIELD_TYPES: Final[tuple[tuple[str, Callable[[GroupEvent], Any], tuple[type, ...]], ...]] = tuple(
    (name, getattr(GroupEvent, name).__get__, types) for name, types in _TYPES
)
_SPANS: Final = (
    "last_arrival_ms",
    "rebalance_timeout_ms",
    "session_timeout_ms",
    "session_left_ms",
    "phase_timeout_ms",
)
_BOUNDS: Final = (
    ("generation_id", -1, _INT_MAX),
    ("member_count", 0, _INT_MAX),
    ("last_given_up_count", 0, _INT_MAX),
    ("removed_count", 0, _INT_MAX),
    ("dropped_count", 0, _LONG_MAX),
    ("wall_ms", 0, WALL_MS_MAX),
)
_OF_A_MEMBER: Final = frozenset(("member_id", "group_instance_id", "client_id", "client_host"))


def read_event(key: bytes | None, value: bytes | None) -> GroupEvent:
    """The event in a record. Raises HistoryError, with the reason, if the record is not one."""
    try:
        event = decode_event(value)
    except RecursionError:
        raise HistoryError("not JSON: nested too deeply") from None
    for name, get, types in _FIELD_TYPES:
        if type(get(event)) not in types:  # `type` and not isinstance: True is an int, and no number here.
            raise HistoryError(f"{name} is of a wrong type: {type(get(event)).__name__}")
    for name, least, most in _BOUNDS:
        if not least <= getattr(event, name) <= most:
            raise HistoryError(f"{name} is out of range: {getattr(event, name)}")
    _check_inner(event)
    if value is not None and b"\\u" in value:
        _check_text(value)
    if key is None or key != event.group_id.encode():
        raise HistoryError("the key is not the group id")
    return _under_current_slugs(event)


def _under_current_slugs(event: GroupEvent) -> GroupEvent:
    """The event with today's slugs instead of former ones; the same object if it has no former one."""
    began_by = event.rebalance_cause
    if event.cause not in RENAMED_SLUGS and began_by not in RENAMED_SLUGS:
        return event
    return replace(
        event,
        cause=current_slug(event.cause),
        rebalance_cause=None if began_by is None else current_slug(began_by),
    )


def _check_inner(event: GroupEvent) -> None:
    """Raises HistoryError for wrong values within containers: durations by state name, and member ids."""
    reported = event.client_metrics or {}
    for name, spent in (
        ("phase_ms", event.phase_ms),
        ("rebalance_ms", event.rebalance_ms),
        ("client_metrics", reported),
    ):
        if any(type(ms) is not int or not 0 <= ms <= WALL_MS_MAX for ms in spent.values()):
            raise HistoryError(f"{name} has something else than milliseconds")
    if any(type(member_id) is not str for member_id in event.removed_member_ids):
        raise HistoryError("removed_member_ids has something else than member ids")
    if any(type(partition) is not str for partition in event.last_given_up):
        raise HistoryError("last_given_up has something else than partitions")
    for name in _SPANS:
        if (span_ms := getattr(event, name)) is not None and not 0 <= span_ms <= WALL_MS_MAX:
            raise HistoryError(f"{name} is out of range: {span_ms}")
    if event.from_state == event.to_state == "" and not event.dropped_count:
        raise HistoryError("an event without states")
    if event.observed is not None:
        _check_observed(event.observed)


def _check_observed(observed: Observed) -> None:
    """Raises HistoryError for wrong values within `observed`."""
    numbers: list[object] = [observed.partition, observed.offset, *(observed.missing_generations or (0, 0))]
    if len(numbers) != 4 or any(type(number) is not int for number in numbers):
        raise HistoryError("observed has something else than numbers")
    members: list[object] = list(observed.members or ())
    if any(not isinstance(member, dict) or not member.keys() >= _OF_A_MEMBER for member in members):
        raise HistoryError("observed has something else than members")
    texts = [text for member in members if isinstance(member, dict) for text in member.values()]
    if any(type(text) not in (str, NoneType) for text in (observed.evidence, observed.leader_id, *texts)):
        raise HistoryError("observed has something else than texts")


def _check_text(value: bytes) -> None:
    """Raises HistoryError if JSON escapes name half a surrogate pair, which UTF-8, and so Arrow, cannot hold."""
    try:
        json.dumps(json.loads(value), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise HistoryError(f"a text is not Unicode: {error.reason}") from None
