"""Writes what happened to groups to the topic `__group_events`, behind everybody's back.

Events are queued in `History` while a turn's requests are handled and written after it, so no reply
waits for them. What a storm or the disk loses is counted, and told in the daemon's log and on the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from coordinator.groups.effects import GroupEvent
from coordinator.history import Drained, History, encode_event
from coordinator.topics.partition import Partition
from protocol.errors import ErrorCode
from protocol.records import Record, encode_batch

log = structlog.get_logger("muster.history")

EVENTS_PER_WRITE = 200
"""Events written in one go, some 150 KB as a rule: 3 to 4 ms in which the loop does nothing else."""

MAX_BATCH_BYTES = 500_000
"""Where a batch is cut: group ids are as long as clients like, and a batch must fit into the topic's."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch, how many events are gone if it is, and when the first of them was."""

    data: bytearray
    count: int
    wall_ms: int


class HistoryWriter:
    """Feeds `History` and drains it to a partition; all on the event-loop thread."""

    def __init__(
        self, history: History, partition: Partition, call_soon: Callable[[Callable[[], None]], object]
    ):
        self._history = history
        self._partition = partition
        self._call_soon = call_soon
        self._is_busy = False
        self._unfinished = 0  # Batches of the write that is under way.

    def record(self, events: tuple[GroupEvent, ...]) -> None:
        """Keep `events` and have them written once this turn's requests are through."""
        was_dropping = self._history.is_dropping
        self._history.record(events)
        if self._history.is_dropping and not was_dropping:
            log.warning("history events are being dropped", queued=self._history.queued)
        self._maybe_write()

    def close(self) -> None:
        """Append all that is queued, to be flushed by whoever closes the log. Nothing may be recorded after."""
        while self._history.queued:
            for batch in _batches(self._take()):
                self._partition.append_local(batch.data)

    def _maybe_write(self) -> None:
        if not self._is_busy and self._history.queued:
            self._is_busy = True
            self._call_soon(self._write)

    def _write(self) -> None:
        if not self._history.queued:  # Closed meanwhile.
            return
        batches = _batches(self._take())
        self._unfinished = len(batches)
        for batch in batches:
            self._partition.append_local(batch.data, partial(self._on_written, batch))

    def _take(self) -> Drained:
        drained = self._history.take(EVENTS_PER_WRITE)
        if drained.dropped:
            log.warning("history events were dropped", dropped=drained.dropped)
        return drained

    def _on_written(self, batch: Batch, error: ErrorCode) -> None:
        """One write at a time: what the disk cannot take piles up in the bounded queue, not in the log."""
        if error:
            log.error("history events were lost", lost=batch.count, error=error.name)
            self._history.lost(batch.count, batch.wall_ms)
        self._unfinished -= 1
        if not self._unfinished:
            self._is_busy = False
            self._maybe_write()  # Not for a gap alone: a disk that refuses all would keep us at it for ever.


def _batches(drained: Drained) -> list[Batch]:
    """The events in batches of bounded size; at least one, for there is at least one event."""
    cuts: list[list[tuple[GroupEvent, Record]]] = [[]]
    size_bytes = 0
    for event in drained.events:
        record = Record(*encode_event(event), timestamp_ms=event.wall_ms)
        record_bytes = len(record.key or b"") + len(record.value or b"")
        if cuts[-1] and size_bytes + record_bytes > MAX_BATCH_BYTES:
            cuts.append([])
            size_bytes = 0
        cuts[-1].append((event, record))
        size_bytes += record_bytes
    return [_batch(cut) for cut in cuts]


def _batch(cut: list[tuple[GroupEvent, Record]]) -> Batch:
    count = sum(event.dropped_count or 1 for event, _ in cut)
    return Batch(encode_batch([record for _, record in cut]), count, cut[0][0].wall_ms)
