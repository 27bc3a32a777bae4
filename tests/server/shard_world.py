"""A `RunnerWorld` of one shard of groups, empty and loaded."""

from __future__ import annotations

from coordinator.groups.group_settings import GroupSettings
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.shard.shard import Shard
from harness.doubles.runtime_world import COMMIT_TIMEOUT_MS, RunnerWorld
from harness.doubles.topics import Topics
from protocol.records.records import Codec


class ShardWorld(RunnerWorld[GroupRunner]):
    """`topics` are those that the shard knows."""

    def __init__(
        self,
        max_batch_bytes: int = 1 << 20,
        codec: Codec = Codec.NONE,
        settings: GroupSettings | None = None,
    ) -> None:
        self.settings = settings or GroupSettings(group_initial_rebalance_delay_ms=0)
        self.topics = Topics(orders=4)
        self._max_batch_bytes, self._codec = max_batch_bytes, codec
        super().__init__(max_batch_bytes)

    def new_runner(self) -> GroupRunner:
        return GroupRunner(
            group_shards(lambda partition: Shard(partition, self.settings, self.topics)),
            0,
            self.durable_log,
            self,
            max_batch_bytes=self._max_batch_bytes,
            codec=self._codec,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
        )
