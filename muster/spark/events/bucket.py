"""Aggregates the events of many groups at a time: records in, rows out, and a state of bytes between two calls.

Groups are put into buckets by their id, and a bucket is what Spark calls for: a call costs it a millisecond,
whatever is in it. The state of a bucket is that of its groups' aggregators, and a group's aggregator
is dropped when it is empty and no event is still to come, or when the group had no event for IDLE_MS.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from coordinator.effects import GroupEvent
from coordinator.history.events import HistoryError
from muster.groups.event_order import in_order
from muster.groups.event_records import read_event
from muster.spark.events.aggregators import AggregatorFactory, GroupAggregator, TableRow

FORMAT: Final = 1

IDLE_MS: Final = 30 * 24 * 3_600_000
"""A group without an event for so long is forgotten, as if the topic began after it: it may have been removed, and
the event of its removal dropped."""

DIGESTS_MAX: Final = 64
"""The number of newest events of a group by which a repeated event is recognized."""


class SourceRecord(NamedTuple):
    """A record of the topic, as Spark's Kafka source has it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class DeadLetter(NamedTuple):
    """A record that could not be used, with the reason."""

    record: SourceRecord
    reason: str


@dataclass(slots=True)
class Entry:
    """A group's aggregator, the digests of its newest events, and the time of the newest."""

    aggregator: GroupAggregator
    digests: dict[int, int] = field(default_factory=dict)  # The time of each event by its digest.
    heard_ms: int = 0

    def is_new(self, event: GroupEvent, value: bytes) -> bool:
        """Whether this event comes for the first time; it is then remembered."""
        print_of = int.from_bytes(blake2b(value, digest_size=6).digest())
        if print_of in self.digests:
            return False
        self.digests[print_of] = event.wall_ms
        if len(self.digests) > DIGESTS_MAX:
            del self.digests[next(iter(self.digests))]
        self.heard_ms = max(self.heard_ms, event.wall_ms)
        return True

    def dump(self) -> bytes:
        """The entry in stored form. A group without new events stays in it, and costs only these bytes."""
        text = json.dumps(
            [self.heard_ms, list(self.digests.items()), self.aggregator.dump()], separators=(",", ":")
        )
        return zlib.compress(text.encode(), 1)

    def advance(self, until_ms: int) -> list[TableRow]:
        self.digests = {each: wall_ms for each, wall_ms in self.digests.items() if wall_ms >= until_ms}
        return self.aggregator.advance(until_ms)

    def due_ms(self, until_ms: int) -> int | None:
        """The time from which the entry has to be advanced again; None if the group can be forgotten now."""
        if self.heard_ms + IDLE_MS <= until_ms or (self.aggregator.is_empty() and not self.digests):
            return None
        idle_ms = self.heard_ms + IDLE_MS
        due = (idle_ms, max(self.digests.values(), default=idle_ms), self.aggregator.due_ms() or idle_ms)
        return max(min(due), until_ms) + 1


class Stored(NamedTuple):
    """A group's entry between two calls: `body` is its dump, `due_ms` the time for its next call."""

    due_ms: int
    body: bytes


class Bucket:
    """The groups of one bucket. `state` is the dump after the call before; None before the first call."""

    def __init__(self, factory: AggregatorFactory, state: bytes | None) -> None:
        self._factory = factory
        self._closed_ms = 0
        self._stored: dict[str, Stored] = {}
        if state is not None:
            self._read(state)

    def _read(self, state: bytes) -> None:
        head, _, bodies = state.partition(b"\n")
        format_, self._closed_ms, groups = json.loads(head)
        assert format_ == FORMAT, "the checkpoint is of another version"
        start = 0
        for group_id, due_ms, size in groups:
            self._stored[group_id] = Stored(due_ms, bodies[start : start + size])
            start += size

    def take(self, records: Iterable[SourceRecord], until_ms: int) -> tuple[list[TableRow], list[DeadLetter]]:
        """Take in `records`, and close what is over at `until_ms`, up to which all events have come."""
        dead_letters: list[DeadLetter] = []
        events: defaultdict[str, list[GroupEvent]] = defaultdict(list)
        entries: dict[str, Entry] = {}
        for record in sorted(records):
            try:
                event = read_event(record.key, record.value)
            except HistoryError as error:
                dead_letters.append(DeadLetter(record, str(error)))
                continue
            if event.dropped_count:
                dead_letters.append(
                    DeadLetter(record, f"{event.dropped_count} events are missing here, of any groups")
                )
                continue
            entry = self._entry(entries, event.group_id)
            if entry.is_new(event, record.value or b""):
                events[event.group_id].append(event)
        rows = [
            row for group_id in events for row in _aggregate(entries[group_id].aggregator, events[group_id])
        ]
        return rows + self._advance(entries, until_ms), dead_letters

    def _entry(self, entries: dict[str, Entry], group_id: str) -> Entry:
        if group_id not in entries:
            entries[group_id] = self._load(group_id)
        return entries[group_id]

    def _load(self, group_id: str) -> Entry:
        stored = self._stored.get(group_id)
        if stored is None:
            return Entry(self._factory.new(group_id, self._closed_ms))
        heard_ms, digests, aggregator = json.loads(zlib.decompress(stored.body))
        return Entry(self._factory.load(group_id, aggregator), dict(digests), heard_ms)

    def _advance(self, entries: dict[str, Entry], until_ms: int) -> list[TableRow]:
        """Close what is over in groups that had events or are due; store these groups' entries, or forget them."""
        for group_id, stored in self._stored.items():
            if stored.due_ms <= until_ms:
                self._entry(entries, group_id)
        rows: list[TableRow] = []
        for group_id, entry in entries.items():
            rows += entry.advance(until_ms)
            due_ms = entry.due_ms(until_ms)
            if due_ms is None:
                self._stored.pop(group_id, None)
            else:
                self._stored[group_id] = Stored(due_ms, entry.dump())
        self._closed_ms = max(self._closed_ms, until_ms)
        return rows

    @property
    def due_ms(self) -> int | None:
        """The time from which `take` has work even without records; None if there is no such time."""
        return min((stored.due_ms for stored in self._stored.values()), default=None)

    def dump(self) -> bytes:
        """The state for the next call. It has only groups that may still have rows."""
        groups = [(group_id, each.due_ms, len(each.body)) for group_id, each in self._stored.items()]
        head = json.dumps((FORMAT, self._closed_ms, groups)).encode()  # ASCII without a newline.
        return b"\n".join((head, b"".join(each.body for each in self._stored.values())))


def _aggregate(aggregator: GroupAggregator, events: Sequence[GroupEvent]) -> list[TableRow]:
    return [row for event in in_order(events) for row in aggregator.add(event)]
