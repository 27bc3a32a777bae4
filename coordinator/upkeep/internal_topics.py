"""The internal topics that hold the coordinators' state, and the runners of the shards on their partitions.

Each partition is the log of one shard, which alone writes it. The number of partitions is fixed once a topic
exists, since groups and transactional ids are spread by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.loop import Runtime
from coordinator.runtime.shard_kind import S, ShardKind
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.settings.model import Settings
from coordinator.shard.shard import Shard
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.partition import Partition
from coordinator.topics.registry import TopicRegistry
from protocol.records.records import Codec

R = TypeVar("R")

COUNT_OPTION: Final = {
    GROUP_METADATA_TOPIC: "offsets.topic.num.partitions",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.num.partitions",
}
"""The option with the number of partitions, by internal topic."""


class InternalTopics:
    """Opens or creates the internal topics at a start, and makes the runners of their shards.

    Waits for the disk. Raises StorageError; PartitionCountMismatch if a topic on the disk has another number of
    partitions than the settings say.
    """

    def __init__(self, registry: TopicRegistry, runtime: Runtime, settings: Settings) -> None:
        self._registry = registry
        self._runtime = runtime
        self._settings = settings

    def group_runners(self, kind: ShardKind[Shard]) -> list[GroupRunner]:
        """Return the runners of the group shards, one for each partition of `__consumer_offsets`."""
        settings = self._settings
        partitions = self._partitions(
            GROUP_METADATA_TOPIC, settings.offsets_topic_num_partitions, settings.offsets_topic_segment_bytes
        )
        codec = Codec(settings.offsets_topic_compression_codec)
        return [self._runner(GroupRunner, kind, partition, codec) for partition in partitions]

    def transaction_runners(self, kind: ShardKind[S]) -> list[ShardRunner[S]]:
        """Return the runners of the transaction shards, one for each partition of `__transaction_state`.

        That topic is never compressed.
        """
        settings = self._settings
        partitions = self._partitions(
            TRANSACTION_STATE_TOPIC,
            settings.transaction_state_log_num_partitions,
            settings.transaction_state_log_segment_bytes,
        )
        return [self._runner(ShardRunner[S], kind, partition, Codec.NONE) for partition in partitions]

    def _partitions(self, name: str, count: int, segment_bytes: int) -> list[Partition]:
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(segment_bytes),
        }
        return self._registry.internal(name, count, overrides).partitions

    def _runner(self, make: Callable[..., R], kind: ShardKind[Any], partition: Partition, codec: Codec) -> R:
        config = partition.log.config
        return make(
            kind,
            partition.index,
            partition.durable_log,
            self._runtime,
            max_batch_bytes=min(config.max_batch_bytes, config.segment_bytes),
            codec=codec,
            commit_timeout_ms=self._settings.offsets_commit_timeout_ms,
        )
