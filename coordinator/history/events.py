"""The history of groups, for people to read: what changed, when, why and through which member.

`History` keeps the newest changes of each group in memory as rows, and queues every one for the topic
`__group_events`, which `HistoryWriter` writes (`take`). A row is put into words (`worded`) when it is read.
On the topic an event is JSON under a schema number, keyed by group id (docs/history.md). Everything that
peers can make grow is bounded here. Events that a full queue drops are counted, and the topic gets one event
in their place, keyed by the empty group id. This module does no I/O and reads no clock: an event carries its
time of day.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from json.encoder import encode_basestring
from typing import Any, Final

from coordinator.effects import GroupEvent, HistoryRow, Observed
from coordinator.groups.causes import CauseKind, counted, cut

TOPIC: Final = "__group_events"
SCHEMA: Final = 1
GAP_KEY: Final = b""  # The key of events that stand for dropped ones; no group with members has it.

MAX_GROUPS: Final = 10_000  # Groups with events in memory; the one longest without an event goes first.
MAX_EVENTS: Final = 20_000  # Events in memory over all groups: some 25 MB as they usually are.
MAX_QUEUED: Final = 10_000  # Events waiting for the topic: minutes of the busiest rebalancing seen.
MAX_TEXT: Final = 256  # Characters of a text that a client chose; a longer one is cut and ends in "…".

_TEXTS: Final = ("detail", "client_reason", "member_id", "group_instance_id", "client_id", "client_host")
"""Those of a cause."""

_LISTS: Final = ("last_given_up", "removed_member_ids")
"""The fields that are lists."""


class HistoryError(ValueError):
    """Raised for bytes that are not an event of a schema that this version reads."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Events taken for the topic, oldest first; events for gaps stand in place of the `dropped` ones."""

    events: tuple[GroupEvent, ...]
    dropped: int


@dataclass(slots=True)
class _DroppedEvents:
    """A gap in the queue, in place of events that were dropped."""

    dropped: int
    wall_ms: int  # The time of the first event that was dropped.


class History:
    """The newest events of each group in memory, and the queue of events for the topic."""

    def __init__(
        self,
        events_per_group: int,
        *,
        max_groups: int = MAX_GROUPS,
        max_events: int = MAX_EVENTS,
        max_queued: int = MAX_QUEUED,
    ) -> None:
        self._events_per_group = events_per_group
        self._max_groups = max_groups
        self._max_events = max_events
        self._max_queued = max_queued
        self._kept: OrderedDict[str, deque[HistoryRow]] = OrderedDict()  # Longest without an event first.
        self._kept_count = 0
        self._shortened: set[str] = set()  # Groups of `_kept` of which older events are, or may be, gone.
        self._has_forgotten = False  # Then any group that is new here may have been here before.
        self._queue: deque[HistoryRow | _DroppedEvents] = deque()
        self.dropped = 0  # Number of events lost since the start.
        self._gaps = 0  # Gaps in the queue, of which no two are side by side.

    def record(self, rows: Iterable[HistoryRow]) -> None:
        """Keep `rows` in memory and queue them, oldest first. Never fails or waits; a full queue drops them."""
        for row in rows:
            row = bounded(row)
            self._keep(row)
            if self.queued < self._max_queued:
                self._queue.append(row)
            else:
                self._drop(row)

    def events(self, group_id: str) -> tuple[GroupEvent, ...]:
        """Return the newest events of the group, oldest first; empty if the group is unknown or was forgotten."""
        return tuple(map(worded, self._kept.get(group_id, ())))

    def rows(self, group_id: str) -> tuple[HistoryRow, ...]:
        """The same as they were recorded, for those who word them a few at a time."""
        return tuple(self._kept.get(group_id, ()))

    def is_whole(self, group_id: str) -> bool:
        """Whether no event of the group that was recorded since the start is missing in memory."""
        return group_id not in self._shortened and (group_id in self._kept or not self._has_forgotten)

    def take(self, limit: int) -> Drained:
        """Remove and return up to `limit` events from the queue, with the gaps before, between and after them."""
        taken: list[GroupEvent] = []
        dropped = 0
        while self._queue and (limit > 0 or isinstance(self._queue[0], _DroppedEvents)):
            entry = self._queue.popleft()
            if isinstance(entry, _DroppedEvents):
                self._gaps -= 1
                dropped += entry.dropped
                taken.append(_gap_event(entry))
            else:
                limit -= 1
                taken.append(worded(entry))
        return Drained(tuple(taken), dropped)

    def count_lost(self, dropped: int, wall_ms: int) -> None:
        """Put a gap before the queued events, for `dropped` events that were taken but could not be written."""
        self.dropped += dropped
        first = self._queue[0] if self._queue else None
        if isinstance(first, _DroppedEvents):
            first.dropped, first.wall_ms = first.dropped + dropped, wall_ms
        else:
            self._queue.appendleft(_DroppedEvents(dropped, wall_ms))
            self._gaps += 1

    def forget(self, group_id: str) -> None:
        """Drop a group's events in memory; those on the topic, or queued for it, stay."""
        self._has_forgotten = True
        self._shortened.discard(group_id)
        self._kept_count -= len(self._kept.pop(group_id, ()))

    @property
    def queued(self) -> int:
        """Number of events that wait for the topic, without gaps."""
        return len(self._queue) - self._gaps

    @property
    def is_dropping(self) -> bool:
        """Whether the queue was full when the last event came, so that it was dropped."""
        return bool(self._queue) and isinstance(self._queue[-1], _DroppedEvents)

    def _drop(self, row: HistoryRow) -> None:
        self.dropped += 1
        last = self._queue[-1] if self._queue else None
        if isinstance(last, _DroppedEvents):
            last.dropped += 1
        else:
            self._queue.append(_DroppedEvents(1, row.wall_ms))
            self._gaps += 1

    def _keep(self, row: HistoryRow) -> None:
        kept = self._kept.get(row.group_id)
        if kept is None:
            kept = self._kept[row.group_id] = deque(maxlen=self._events_per_group)
            if self._has_forgotten:
                self._shortened.add(row.group_id)
        before = len(kept)
        kept.append(row)
        if len(kept) == before:
            self._shortened.add(row.group_id)
        self._kept_count += len(kept) - before
        self._kept.move_to_end(row.group_id)
        while len(self._kept) > self._max_groups or self._kept_count > self._max_events > len(kept):
            self.forget(next(iter(self._kept)))


def worded(row: HistoryRow) -> GroupEvent:
    """Return the event that a row stands for: its reason is one line of text, of MAX_TEXT characters at most."""
    cause = row.cause
    return GroupEvent(
        group_id=row.group_id,
        generation_id=row.generation_id,
        from_state=row.from_state,
        to_state=row.to_state,
        reason=_cut(cause.reason),
        wall_ms=row.wall_ms,
        member_id=cause.member_id,
        group_instance_id=cause.group_instance_id,
        client_id=cause.client_id,
        client_host=cause.client_host,
        member_count=row.member_count,
        cause=cause.kind.slug,
        client_reason=cause.client_reason,
        removed_count=row.removed_count,
        removed_member_ids=cause.removed,
        rebalance_timeout_ms=cause.rebalance_timeout_ms,
        session_timeout_ms=cause.session_timeout_ms,
        session_left_ms=cause.session_left_ms,
        **(row.phase or {}),
    )


def bounded(row: HistoryRow) -> HistoryRow:
    """Return `row` with every text that a client chose, except the group id, cut to MAX_TEXT characters."""
    cause, phase = row.cause, row.phase
    texts = [*cause[1:7]]  # In the order of `_TEXTS`.
    texts += cause.removed
    if phase is not None:
        texts += [value for value in phase.values() if isinstance(value, str)]
    if sum(map(len, filter(None, texts))) <= MAX_TEXT:
        return row  # As a rule: then none of them is longer.
    changes = {name: _cut(text) for name in _TEXTS if (text := getattr(cause, name)) is not None}
    cause = cause._replace(**changes, removed=tuple(map(_cut, cause.removed)))
    if phase is not None:
        phase = {name: _cut(value) if isinstance(value, str) else value for name, value in phase.items()}
    return row._replace(cause=cause, phase=phase)


def _cut(text: str) -> str:
    return cut(text, MAX_TEXT)


def _gap_event(gap: _DroppedEvents) -> GroupEvent:
    """Return the event for a gap, with the empty group id, which no group has: any group may have lost events."""
    kind = CauseKind.EVENTS_DROPPED
    reason = f"{counted(gap.dropped, 'event')} of any groups {'was' if gap.dropped == 1 else 'were'} dropped"
    return GroupEvent("", -1, "", "", reason, gap.wall_ms, cause=kind.slug, dropped_count=gap.dropped)


def encode_event(event: GroupEvent) -> tuple[bytes, bytes]:
    """Return the key and value of the event's record on `__group_events`.

    Written out, field by field: json.dumps of a dict of them takes 12 us instead of 2.5, ten thousand times in a
    storm. A test holds both equal.
    """
    removed = ",".join(map(_quoted, event.removed_member_ids))
    given_up = ",".join(map(_quoted, event.last_given_up))
    value = (
        f'{{"schema":{SCHEMA},"group_id":{_quoted(event.group_id)},"generation_id":{event.generation_id},'
        f'"from_state":{_quoted(event.from_state)},"to_state":{_quoted(event.to_state)},'
        f'"reason":{_quoted(event.reason)},"wall_ms":{event.wall_ms},"member_id":{_quoted(event.member_id)},'
        f'"group_instance_id":{_quoted(event.group_instance_id)},"client_id":{_quoted(event.client_id)},'
        f'"client_host":{_quoted(event.client_host)},"member_count":{event.member_count},'
        f'"phase_ms":{_times(event.phase_ms)},"last_member_id":{_quoted(event.last_member_id)},'
        f'"cause":{_quoted(event.cause)},"client_reason":{_quoted(event.client_reason)},'
        f'"last_client_id":{_quoted(event.last_client_id)},'
        f'"last_client_host":{_quoted(event.last_client_host)},'
        f'"last_arrival_ms":{_number(event.last_arrival_ms)},'
        f'"last_group_instance_id":{_quoted(event.last_group_instance_id)},'
        f'"last_given_up_count":{event.last_given_up_count},"last_given_up":[{given_up}],'
        f'"removed_count":{event.removed_count},"removed_member_ids":[{removed}],'
        f'"rebalance_cause":{_quoted(event.rebalance_cause)},"rebalance_ms":{_times(event.rebalance_ms)},'
        f'"dropped_count":{event.dropped_count},"rebalance_timeout_ms":{_number(event.rebalance_timeout_ms)},'
        f'"session_timeout_ms":{_number(event.session_timeout_ms)},'
        f'"session_left_ms":{_number(event.session_left_ms)},'
        f'"phase_timeout_ms":{_number(event.phase_timeout_ms)}{_further_fields(event)}}}'
    )
    return event.group_id.encode(), value.encode()


def _quoted(text: str | None) -> str:
    return "null" if text is None else encode_basestring(text)


def _further_fields(event: GroupEvent) -> str:
    """The last fields, which few events have: what was observed, what the client said of itself."""
    fields = ""
    if event.observed is not None:
        fields = (
            f',"observed":{json.dumps(asdict(event.observed), ensure_ascii=False, separators=(",", ":"))}'
        )
    if event.client_metrics is not None:
        fields += f',"client_metrics":{_times(event.client_metrics)}'
    return fields


def _number(number: int | None) -> str | int:
    return "null" if number is None else number


def _times(times_ms: Mapping[str, int]) -> str:
    pairs = ",".join([f"{encode_basestring(name)}:{took_ms}" for name, took_ms in times_ms.items()])
    return f"{{{pairs}}}"


def decode_event(value: bytes | None) -> GroupEvent:
    """Return the event in a record's value; fields that a later version added are ignored.

    Raises HistoryError for anything else than an event of this schema.
    """
    try:
        fields = json.loads(value or b"")
    except ValueError as error:
        raise HistoryError(f"not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("schema") != SCHEMA:
        raise HistoryError(f"not an event of schema {SCHEMA}")
    return _event(fields)


def _event(fields: dict[str, Any]) -> GroupEvent:
    known = {name: fields[name] for name in GroupEvent.__dataclass_fields__ if name in fields}
    try:
        for name in _LISTS:
            known[name] = tuple(known.get(name, ()))
        if known.get("observed") is not None:
            known["observed"] = _observed(known["observed"])
        return GroupEvent(**known)
    except TypeError as error:
        raise HistoryError(f"an event without its fields: {error}") from None


def _observed(fields: Any) -> Observed:
    """What was observed, with the fields that this version knows. Raises TypeError, as for a missing field."""
    if not isinstance(fields, dict):
        raise TypeError("observed is no object")
    known = {name: fields[name] for name in Observed.__dataclass_fields__ if name in fields}
    if known.get("members") is not None:
        known["members"] = tuple(known["members"])
    if known.get("missing_generations") is not None:
        known["missing_generations"] = tuple(known["missing_generations"])
    return Observed(**known)
