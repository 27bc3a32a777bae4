"""Writes the end of a transaction to one partition, of a topic or of a shard.

A topic's partition takes the marker itself. `__consumer_offsets` belongs to the shards, each of which appends to
its own log and holds offsets back until the marker comes: there it is handed to the shard's runner. Used by
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
    """A partition, or the runner of a shard."""

    def write_marker(self, marker: Marker, done: OnDone) -> None: ...


class Markers:
    """Writes markers to partitions and shards. All methods run on the event-loop thread."""

    def __init__(
        self, topics: TopicLookup, offsets_runner: Callable[[int], MarkerWriter] | None = None
    ) -> None:
        """`offsets_runner` gives the runner of a partition of `__consumer_offsets`; else that takes none."""
        self._topics = topics
        self._offsets_runner = offsets_runner

    def write(self, marker: Marker, topic: str, index: int, done: OnDone) -> None:
        """Append `marker` to a partition; `done` is called once it is durable.

        Errors: UNKNOWN_TOPIC_OR_PARTITION (it is not there, or it is a log of the daemon's own that takes no
        markers), INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR,
        NOT_LEADER_OR_FOLLOWER (there is no runner yet that could take it).
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
