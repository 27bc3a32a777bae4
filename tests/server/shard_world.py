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
        super().__init__(max_batch_bytes)
        self.settings = settings or GroupSettings(group_initial_rebalance_delay_ms=0)
        self.topics = Topics(orders=4)
        self.runner = GroupRunner(
            group_shards(lambda partition: Shard(partition, self.settings, self.topics)),
            0,
            self.log,  # type: ignore[arg-type]
            self,
            self.on_durable,
            max_batch_bytes=max_batch_bytes,
            codec=codec,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
        )
        self.load()
