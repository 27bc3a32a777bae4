"""Reading a shard's state back from its log: the same replay that the living shard uses."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.bulk_replay import BulkReplay
from coordinator.clock import Clock
from coordinator.groups.effects import Result
from coordinator.groups.shard import Shard
from storage.partition_log import PartitionLog


@dataclass(frozen=True, slots=True)
class Loaded:
    """A shard that was read from its log, and what bringing its groups to life asks for."""

    shard: Shard
    result: Result
    records: int


def load_shard(
    partition_log: PartitionLog, shard: Shard, clock: Clock, buffer_bytes: int, cut_back: bool
) -> Loaded:
    """Replay the whole log, `buffer_bytes` at a time, into the fresh `shard` and bring its groups to life.

    Runs on a thread: nobody else has `shard` yet. With `cut_back` what is not durable is cut off first,
    after a failed flush. Raises StorageError, CorruptSegment, CorruptBatch or DecodeError: damage keeps
    the shard from loading past it.
    """
    if cut_back:
        partition_log.fail_back()
    records = _replay(partition_log, shard, buffer_bytes)
    return Loaded(shard, shard.loaded(clock.now_ms(), clock.wall_ms()), records)


def _replay(partition_log: PartitionLog, shard: Shard, buffer_bytes: int) -> int:
    replay = BulkReplay(shard)
    for batch, data in partition_log.batches(partition_log.log_start_offset, buffer_bytes):
        if not batch.is_control:
            replay.take(data, batch)
    replay.finish()
    return replay.records
