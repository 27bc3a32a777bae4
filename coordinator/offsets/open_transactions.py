"""Offsets that were committed in transactions: they come into force with the marker (docs/kafka.md O14).

For each producer with an open transaction, the offsets it has committed so far (they are "held"); for producers
whose transaction has ended, their epoch, so that a fenced one commits nothing more. Like the committed offsets
this is stored state: it changes only as the log is replayed. The most frequent question, whether a partition has
a held offset, costs one look-up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coordinator.offsets.topic_offsets import CommittedOffset
from protocol.errors import ErrorCode
from protocol.records.control import Marker
from protocol.topic_partition import TopicPartition

MAX_ENDED_PRODUCERS: Final = 10_000
"""The most producers without an open transaction whose epoch is kept, about 150 bytes each; the one whose
transaction ended longest ago is forgotten first."""


class HeldKey(NamedTuple):
    """Group, topic and partition of an offset that an open transaction holds."""

    group_id: str
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True)
class OpenTransaction:
    """The offsets that one producer has committed since its last marker."""

    producer_epoch: int
    offsets: dict[HeldKey, CommittedOffset] = field(default_factory=dict)


class OpenTransactions:
    """The transactions of one shard whose marker has not come yet."""

    def __init__(self) -> None:
        self._open: dict[int, OpenTransaction] = {}
        self._by_group: dict[str, dict[TopicPartition, set[int]]] = {}
        self._ended: OrderedDict[int, int] = OrderedDict()  # Producer id to epoch.

    # Replay.

    def begin(self, producer_id: int, producer_epoch: int) -> None:
        """Replay that a transactional batch of this producer is in the log: its transaction is open."""
        found = self._open.get(producer_id)
        if found is None:
            self._open[producer_id] = OpenTransaction(producer_epoch)
        else:
            found.producer_epoch = producer_epoch

    def hold(self, producer_id: int, key: HeldKey, committed: CommittedOffset) -> None:
        """Replay an offset committed in the producer's open transaction."""
        self._open[producer_id].offsets[key] = committed
        group = self._by_group.setdefault(key.group_id, {})
        group.setdefault(key.topic_partition, set()).add(producer_id)

    def end(self, marker: Marker) -> dict[HeldKey, CommittedOffset]:
        """Replay a marker: close the transaction and return its offsets, for the caller to store or drop."""
        producer_id = marker.producer_id
        self.keep_epoch(producer_id, marker.producer_epoch)
        ended = self._open.pop(producer_id, None)
        if ended is None:
            return {}
        for key in ended.offsets:
            self._unindex(key, producer_id)
        return ended.offsets

    def forget(self, key: HeldKey) -> None:
        """Replay a tombstone: drop the offsets that open transactions hold for this partition (O16)."""
        for producer_id in tuple(self._by_group.get(key.group_id, {}).get(key.topic_partition, ())):
            del self._open[producer_id].offsets[key]
            self._unindex(key, producer_id)

    def _unindex(self, key: HeldKey, producer_id: int) -> None:
        group, where = self._by_group[key.group_id], key.topic_partition
        holders = group[where]
        holders.discard(producer_id)
        if not holders:
            del group[where]
        if not group:
            del self._by_group[key.group_id]

    def keep_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Replay that a transaction of this producer has ended."""
        self._ended[producer_id] = producer_epoch
        self._ended.move_to_end(producer_id)
        if len(self._ended) > MAX_ENDED_PRODUCERS:
            self._ended.popitem(last=False)

    # Questions.

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this producer has an open transaction on this partition, with this epoch."""
        found = self._open.get(producer_id)
        return found is not None and found.producer_epoch == producer_epoch

    def holds(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether any open transaction holds an offset of the group in this partition (O13, O20)."""
        return TopicPartition(topic, partition) in self._by_group.get(group_id, {})

    def of_group(self, group_id: str) -> tuple[TopicPartition, ...]:
        """Return the partitions in which any open transaction holds an offset of the group."""
        return tuple(self._by_group.get(group_id, ()))

    def of_topic(self, topic: str) -> list[tuple[HeldKey, CommittedOffset]]:
        """Return every held offset of `topic`; walks all open transactions."""
        return [
            (key, committed)
            for transaction in self._open.values()
            for key, committed in transaction.offsets.items()
            if key.topic == topic
        ]

    def opened(self) -> Iterator[tuple[int, OpenTransaction]]:
        """Yield each producer id with its open transaction, the longest open first."""
        yield from self._open.items()

    def ended(self) -> Iterator[tuple[int, int]]:
        """Yield id and epoch of each producer whose epoch is kept, the one that ended longest ago first."""
        yield from self._ended.items()

    def held(self) -> list[tuple[HeldKey, CommittedOffset]]:
        """Return every held offset; walks all open transactions."""
        return [each for transaction in self._open.values() for each in transaction.offsets.items()]

    def group_ids(self) -> tuple[str, ...]:
        """Return the ids of the groups that have held offsets."""
        return tuple(self._by_group)

    def commit_error(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        """Return INVALID_PRODUCER_EPOCH if this producer wrote here with a newer epoch, else NONE."""
        found = self._open.get(producer_id)
        newest = self._ended.get(producer_id, -1) if found is None else found.producer_epoch
        return ErrorCode.INVALID_PRODUCER_EPOCH if producer_epoch < newest else ErrorCode.NONE

    def __eq__(self, other: object) -> bool:
        """Compare the open transactions only: the epochs of ended ones may be lost in a compaction."""
        if not isinstance(other, OpenTransactions):
            return NotImplemented
        return self._open == other._open

    __hash__ = None  # type: ignore[assignment]  # It changes.
