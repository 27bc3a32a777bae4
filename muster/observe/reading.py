"""Reads the history of one group from a store, as `muster.groups.history` reads it from the topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinator.history.events import SCHEMA
from muster.groups.history import MAX_EVENTS, GroupHistory, Newest
from muster.groups.history_tables import local_time
from muster.observe.store import StoredEvents, open_events


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """The history of a group, whether older events are gone from the store, and when it was last heard of."""

    history: GroupHistory
    has_all: bool
    heard_ms: int | None  # None: not known any more, or never.

    def remarks(self) -> Iterator[str]:
        """Sentences for the reader about the store."""
        if not self.has_all:
            yield "the store's oldest events are gone, to keep it within its size"
        if self.heard_ms is not None:
            yield f"the last record of the group, be it a commit, was written at {local_time(self.heard_ms)}"


def read_stored_history(directory: Path, group_id: str, limit: int = MAX_EVENTS) -> StoredHistory:
    """The newest `limit` events of the group that the store still holds. Raises StoreError."""
    stored = open_events(directory)
    quoted = json.dumps(group_id, ensure_ascii=False)
    begin = f'{{"schema":{SCHEMA},"group_id":{quoted},'.encode()
    newest = Newest(group_id, limit)
    for line in stored.lines():
        if line.startswith(begin):  # As all of them are written: none of another group is parsed.
            newest.add(group_id.encode(), line)
    return StoredHistory(newest.history(), stored.has_all, _heard_ms(stored, group_id))


def _heard_ms(stored: StoredEvents, group_id: str) -> int | None:
    for group in stored.state.get("groups", ()):
        if group[0] == group_id:
            return int(group[-1])
    return None
