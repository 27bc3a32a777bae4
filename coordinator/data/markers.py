"""Writes the marker that ends a transaction to a partition, of a topic or of a shard.

A topic's partition appends the marker itself. A partition of `__consumer_offsets` is the log of a shard, which
holds the transaction's offsets back until its marker comes: there the shard's runner writes the marker. Used by
WriteTxnMarkers and by the transaction coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coordinator.topics.names import GROUP_METADATA_TOPIC, SHARD_TOPICS
from coordinator.topics.topic_lookup import TopicLookup
from protocol.errors import ErrorCode, OnDone
from protocol.records.control import Marker


class MarkerWriter(Protocol):
    """A partition or a shard's runner, as `Markers` uses both."""

    def write_marker(self, marker: Marker, done: OnDone) -> None: ...


class Markers:
    """Writes markers to partitions and shards. All methods run on the event-loop thread."""

    def __init__(
        self, topics: TopicLookup, offsets_runner: Callable[[int], MarkerWriter] | None = None
    ) -> None:
        """`offsets_runner` returns the runner of a `__consumer_offsets` partition; None: that takes no markers."""
        self._topics = topics
        self._offsets_runner = offsets_runner

    def write(self, marker: Marker, topic: str, index: int, done: OnDone) -> None:
        """Append `marker` to a partition; `done` is called once it is durable.

        Errors: UNKNOWN_TOPIC_OR_PARTITION (no such partition, or one of an internal topic that takes no markers),
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER (the
        shard has no runner yet).
        """
        partition = self._topics.partition(topic, index)
        if partition is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic == GROUP_METADATA_TOPIC and self._offsets_runner is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif topic == GROUP_METADATA_TOPIC and self._offsets_runner is not None:
            self._offsets_runner(index).write_marker(marker, done)
        elif topic in SHARD_TOPICS:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            partition.write_marker(marker, done)
