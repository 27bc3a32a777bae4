"""Reads the history of a group back from the topic `__group_events`, which Muster's daemon writes.

A plain consumer without a group reads every partition from its start to where it ended when asked. Other
clusters have no such topic: that is said, not guessed around.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.structs import TopicPartition

from coordinator.groups.effects import GroupEvent
from coordinator.history import TOPIC, HistoryError, decode_event
from muster.cluster import Cluster, ClusterError, quiet_aiokafka
from muster.group_admin import partitions_of

MAX_EVENTS: Final = 100_000  # Events of one group held for showing; the newest win.
_POLL_MS: Final = 500
_STALL_S: Final = 30.0  # A log that gives nothing for so long, short of its end, will not.


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The events of one group, oldest first, and how many records could not be read as events."""

    events: tuple[GroupEvent, ...]
    unreadable: int


async def read_history(cluster: Cluster, bootstrap: str, group_id: str) -> GroupHistory:
    """Every event of the group that the topic still holds. Raises ClusterError."""
    partitions = [TopicPartition(*where) for where in await partitions_of(cluster, [TOPIC])]
    if not partitions:
        raise ClusterError(f"this cluster keeps no history of its groups: it has no topic {TOPIC}")
    quiet_aiokafka()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        records = await _everything(consumer, partitions, group_id)
    finally:
        await consumer.stop()
    return as_history(records)


def as_history(values: Iterable[bytes | None]) -> GroupHistory:
    """The events in the values of records, by their time."""
    events = []
    unreadable = 0
    for value in values:
        try:
            events.append(decode_event(value))
        except HistoryError:
            unreadable += 1
    events.sort(key=lambda event: event.wall_ms)
    return GroupHistory(tuple(events), unreadable)


async def _everything(
    consumer: AIOKafkaConsumer, partitions: list[TopicPartition], group_id: str
) -> Iterable[bytes | None]:
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
    key = group_id.encode()
    kept: deque[bytes | None] = deque(maxlen=MAX_EVENTS)
    last_progress = asyncio.get_running_loop().time()
    while not await _at_end(consumer, ends):
        batches: dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]
        batches = await consumer.getmany(timeout_ms=_POLL_MS)
        kept.extend(record.value for records in batches.values() for record in records if record.key == key)
        now = asyncio.get_running_loop().time()
        if batches:
            last_progress = now
        elif now - last_progress > _STALL_S:
            raise ClusterError(f"{TOPIC} gave nothing for {_STALL_S:.0f} s, short of its end")
    return kept


async def _at_end(consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return False
    return True
