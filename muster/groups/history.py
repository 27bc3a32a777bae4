"""Reads the history of a group back from the topic `__group_events`, which Muster's daemon writes.

A plain consumer without a group reads every partition from its start to the end it has at the call, and keeps the
newest events of the group, and the records that mark a gap, which is missing events of any group. Other clusters
have no such topic; then a ClusterError says so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import merge
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.structs import TopicPartition as ClientPartition

from coordinator.effects import GroupEvent
from coordinator.history.events import GAP_KEY, TOPIC, HistoryError, encode_event
from muster.cluster import Cluster, ClusterError
from muster.groups.admin import partitions_of
from muster.groups.event_order import in_order
from muster.groups.event_records import read_event

NO_HISTORY: Final = f"this cluster keeps no history of its groups: it has no topic {TOPIC}"
MAX_EVENTS: Final = 100_000  # Held in memory of one group, some 100 MB; older ones are dropped.
_POLL_MS: Final = 500
_STALL_S: Final = 30.0  # A log that gives nothing for so long before its end will not give any.


KeyAndValue = tuple[bytes | None, bytes | None]
"""The key and the value of one record of the topic."""


def _time(event: GroupEvent) -> int:
    return event.wall_ms


def _without_repeats(events: Iterable[GroupEvent]) -> list[GroupEvent]:
    """The events without repeats, which a copy of the topic may have."""
    return list({encode_event(event)[1]: event for event in events}.values())


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The newest events of one group, gaps among them; the number of undecodable records, and of older ones."""

    events: tuple[GroupEvent, ...]  # In the order of the topic.
    unreadable: int
    older: int = 0

    @property
    def has_events(self) -> bool:
        """Whether there is an event of the group itself."""
        return any(not event.dropped_count for event in self.events)

    def by_time(self) -> list[GroupEvent]:
        """All events, sorted by their time."""
        return sorted(self.events, key=_time)

    def as_it_happened(self) -> list[GroupEvent]:
        """The group's events in the order in which they happened, without repeats; gaps are placed by time."""
        own = in_order(_without_repeats(event for event in self.events if not event.dropped_count))
        gaps = sorted((event for event in self.events if event.dropped_count), key=_time)
        return list(merge(own, gaps, key=_time))


class Newest:
    """Keeps the newest records of one group among all that are added; a gap's record counts for every group."""

    def __init__(self, group_id: str, limit: int) -> None:
        self._keys = (group_id.encode(), GAP_KEY)
        self._kept: deque[KeyAndValue] = deque(maxlen=limit)
        self._seen = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        if key in self._keys:
            self._seen += 1
            self._kept.append((key, value))

    def history(self) -> GroupHistory:
        return as_history(self._kept, self._seen - len(self._kept))


class NewestOfEach:
    """Keeps the newest records of several groups among all that are added."""

    def __init__(self, group_ids: Iterable[str], limit: int) -> None:
        self._by_key = {group_id.encode(): Newest(group_id, limit) for group_id in group_ids}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        if key == GAP_KEY:
            for newest in self._by_key.values():
                newest.add(key, value)
        elif key is not None and key in self._by_key:
            self._by_key[key].add(key, value)

    def histories(self) -> dict[str, GroupHistory]:
        return {key.decode(): newest.history() for key, newest in self._by_key.items()}


async def read_history(cluster: Cluster, group_id: str, limit: int = MAX_EVENTS) -> GroupHistory:
    """The newest `limit` events of the group that the topic still holds. Raises ClusterError."""
    return (await read_histories(cluster, [group_id], limit))[group_id]


async def read_histories(
    cluster: Cluster, group_ids: Iterable[str], limit: int = MAX_EVENTS
) -> dict[str, GroupHistory]:
    """The same of each of several groups; the topic is read once. Raises ClusterError."""
    newest = NewestOfEach(group_ids, limit)
    if not await read_topic(cluster, newest.add):
        raise ClusterError(NO_HISTORY)
    return newest.histories()


async def read_topic(
    cluster: Cluster, add: Callable[[bytes | None, bytes | None], None], topic: str = TOPIC
) -> bool:
    """Give key and value of each record of a topic to `add`; False if there is no topic. Raises ClusterError."""
    partitions = [ClientPartition(*where) for where in await partitions_of(cluster, [topic])]
    if not partitions:
        return False
    async with cluster.reader() as consumer:
        await _read_all(consumer, partitions, add)
    return True


def as_history(records: Iterable[KeyAndValue], older: int = 0) -> GroupHistory:
    """The history in these records: of one group, and of gaps. `older` records are not among them."""
    events = []
    unreadable = 0
    for key, value in records:
        try:
            events.append(read_event(key, value))
        except HistoryError:
            unreadable += 1
    return GroupHistory(tuple(events), unreadable, older)


async def _read_all(
    consumer: AIOKafkaConsumer,
    partitions: list[ClientPartition],
    add: Callable[[bytes | None, bytes | None], None],
) -> None:
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    ends: dict[ClientPartition, int] = await consumer.end_offsets(partitions)
    last_progress = asyncio.get_running_loop().time()
    while not await _at_end(consumer, ends):
        batches: dict[ClientPartition, list[ConsumerRecord[bytes, bytes]]]
        batches = await consumer.getmany(timeout_ms=_POLL_MS)
        for record in (record for records in batches.values() for record in records):
            add(record.key, record.value)
        now = asyncio.get_running_loop().time()
        if batches:
            last_progress = now
        elif now - last_progress > _STALL_S:
            raise ClusterError(f"{partitions[0].topic} gave nothing for {_STALL_S:.0f} s, short of its end")


async def _at_end(consumer: AIOKafkaConsumer, ends: dict[ClientPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return False
    return True
