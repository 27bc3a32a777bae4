"""The committed offsets of one shard, as the log has them: stored state, changed by `Shard.replay` alone.

They are dicts by group and topic of packed `TopicOffsets`: a removed group takes no memory, and
the most frequent question - one group, one topic - costs two look-ups. The offsets of open transactions are kept
beside them. Nothing here knows the rules of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from coordinator.effects import CommitRun, new_tuple
from coordinator.groups.record_schemas import LegacyOffsetCommitValue, OffsetCommitValue
from coordinator.offsets.open_transactions import HeldKey, OpenTransactions
from coordinator.offsets.topic_offsets import (
    NO_EXPIRY,
    CommitFields,
    CommittedOffset,
    StoredOffsets,
    TopicOffsets,
)
from protocol.codec.primitives import ZERO_UUID
from protocol.records.control import Marker
from protocol.topic_partition import TopicPartition

__all__ = [
    "NO_EXPIRY",
    "CommittedOffset",
    "CommittedOffsets",
    "committed_from_record",
    "is_known_topic_id",
    "same_topic",
]

NO_OFFSETS: Final = TopicOffsets()
NO_TOPICS: Final[Mapping[str, TopicOffsets]] = {}


def committed_from_record(
    value: OffsetCommitValue | LegacyOffsetCommitValue, log_offset: int
) -> CommittedOffset:
    """Return the commit in a record's value; a legacy value has no leader epoch, expiry or topic id."""
    if isinstance(value, LegacyOffsetCommitValue):
        return CommittedOffset(
            value.offset, -1, value.metadata, value.commit_timestamp, NO_EXPIRY, ZERO_UUID, log_offset
        )
    return new_tuple(
        CommittedOffset,
        (
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            bytes(value.topic_id),
            log_offset,
        ),
    )


class CommittedOffsets:
    """All offsets of one shard's groups."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, TopicOffsets]] = {}
        self.transactions = OpenTransactions()  # Their offsets are not in force yet.

    def put(self, group_id: str, topic: str, partition: int, committed: CommitFields) -> None:
        """Replay a commit, a `CommittedOffset` or its fields: set the group's offset in this partition."""
        self._ensure_topic(group_id, topic).put(partition, committed)

    def put_run(self, run: CommitRun, first_log_offset: int) -> None:
        """Replay the commits of a run, whose records are at `first_log_offset` and after in the log."""
        self._ensure_topic(run.group_id, run.topic).put_run(run, first_log_offset)

    def _ensure_topic(self, group_id: str, topic: str) -> TopicOffsets:
        """Return the group's offsets in `topic`, for the caller to change; created if there are none."""
        topics = self._by_group.get(group_id)
        if topics is None:
            topics = self._by_group[group_id] = {}
        offsets = topics.get(topic)
        if offsets is None:
            offsets = topics[topic] = TopicOffsets()
        return offsets

    def put_all(self, group_id: str, topic: str, offsets: TopicOffsets) -> None:
        """Replay the newest commits of a group in a topic, outside transactions. `offsets` are the shard's now.

        An offset of a later record stays: a transaction may have committed one meanwhile (O2).
        """
        topics = self._by_group.setdefault(group_id, {})
        before = topics.get(topic)
        topics[topic] = offsets
        if before is None:
            return
        fewer, more = (before, offsets) if len(before) <= len(offsets) else (offsets, before)
        topics[topic] = more
        for partition, committed in fewer.items():
            known = more.get(partition)
            if known is None or known.log_offset < committed.log_offset:
                more.put(partition, committed)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Replay a tombstone; for an offset that does not exist it changes nothing.

        Offsets of the partition that open transactions hold are removed as well (O16).
        """
        self.transactions.forget(HeldKey(group_id, topic, partition))
        topics = self._by_group.get(group_id, {})
        if (offsets := topics.get(topic)) is None:
            return
        offsets.remove(partition)
        if not offsets:
            del topics[topic]
        if not topics:
            del self._by_group[group_id]

    def end_transaction(self, marker: Marker) -> None:
        """Replay a marker: the offsets of its transaction come into force, or are dropped (O14).

        An offset of a commit later in the log than the transaction's own is kept (O2).
        """
        for key, committed in self.transactions.end(marker).items():
            known = self.get(*key)
            if marker.is_commit and (known is None or known.log_offset < committed.log_offset):
                self.put(*key, committed)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the group's offset in this partition, or None."""
        return self.of_topic(group_id, topic).get(partition)

    def of_topic(self, group_id: str, topic: str) -> TopicOffsets:
        """Return the group's offsets in `topic`, by partition; the caller must not change them."""
        return self._by_group.get(group_id, {}).get(topic, NO_OFFSETS)

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Yield topic, partition and offset of all the group's offsets, which must not change meanwhile."""
        for topic, partitions in self._by_group.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def offsets_with_topic_id(self, is_meant: Callable[[bytes], bool]) -> Iterator[tuple[str, str, int]]:
        """Yield group, topic and partition of each offset whose topic id passes `is_meant`.

        Walks single offsets only of topics where some id passes; calls `is_meant` once for each id.
        """
        asked: dict[bytes, bool] = {}
        for group_id, topics in self._by_group.items():
            for topic, offsets in topics.items():
                ids = offsets.topic_ids()
                for topic_id in ids - asked.keys():
                    asked[topic_id] = is_meant(topic_id)
                if any(asked[topic_id] for topic_id in ids):
                    for partition, committed in offsets.items():
                        if asked[committed.topic_id]:
                            yield group_id, topic, partition

    def by_topic(self, group_id: str) -> Mapping[str, TopicOffsets]:
        """The group's offsets by topic, which the caller must not change; they change with the next commit."""
        return self._by_group.get(group_id, NO_TOPICS)

    def topics_of(self, group_id: str) -> tuple[str, ...]:
        """The topics in which the group has offsets."""
        return tuple(self._by_group.get(group_id, ()))

    def undecided(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions where the group's only offsets are those of open transactions."""
        held = self.transactions.of_group(group_id)
        return [where for where in held if self.get(group_id, *where) is None]

    def holds(self, group_id: str) -> bool:
        """Whether the group has any offset."""
        return group_id in self._by_group

    def group_ids(self) -> tuple[str, ...]:
        """Return the ids of the groups that have offsets."""
        return tuple(self._by_group)

    def all_topics(self) -> Iterator[StoredOffsets]:
        """Yield the offsets of every group and topic, which the caller must not change."""
        for group_id, topics in self._by_group.items():
            for topic, offsets in topics.items():
                yield StoredOffsets(group_id, topic, offsets)

    def count(self) -> int:
        """Return the number of offsets of all groups; walks all topics."""
        return sum(len(partitions) for topics in self._by_group.values() for partitions in topics.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommittedOffsets):
            return NotImplemented
        return self._by_group == other._by_group and self.transactions == other.transactions

    __hash__ = None  # type: ignore[assignment]  # It changes.


def is_known_topic_id(topic_id: bytes) -> bool:
    """Whether this is a topic's id, and not the zero id of a commit that named no id."""
    return topic_id != ZERO_UUID


def same_topic(one_id: bytes, other_id: bytes) -> bool:
    """Whether both ids may be of the same topic: they are equal, or at least one is unknown (O12)."""
    return one_id == other_id or not is_known_topic_id(one_id) or not is_known_topic_id(other_id)
