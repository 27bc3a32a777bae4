"""Loading a shard's state: from the snapshot that a clean stop has left, or else from its log.

The log is read by the same replay that a serving shard uses. A snapshot counts only if it is of this very log as
it is, and is gone before the shard serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import structlog

from coordinator.effects import Result
from coordinator.runtime.clock import Clock
from coordinator.runtime.shard_kind import Batches, S, ShardKind
from coordinator.shard.bulk_replay import BulkReplay
from coordinator.shard.shard import Shard
from protocol.errors import DecodeError
from storage.files import StorageError
from storage.log.partition_log import PartitionLog
from storage.log.shard_snapshot import UnusableSnapshot

log = structlog.get_logger("muster.shard")


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """A shard that was read, and the effects of `ShardCore.loaded`."""

    shard: S
    result: Result
    records: int  # Number of records that were replayed; 0 for a snapshot.
    skipped: int  # Number of records of types that Muster does not keep.


def load_shard(
    kind: ShardKind[S],
    partition: int,
    partition_log: PartitionLog,
    clock: Clock,
    buffer_bytes: int,
    cut_back: bool,
) -> Loaded[S]:
    """Restore a snapshot, or replay the whole log, `buffer_bytes` at a time, and call the shard's `loaded`.

    Runs on a thread. With `cut_back`, after a failed flush, the end of the log that is not durable is cut off
    first; if the disk is too full even for that, the durable part is read all the same.
    Raises StorageError, CorruptSegment, CorruptBatch or DecodeError: damage keeps the shard from loading
    past it.
    """
    if cut_back:
        _cut_back(partition_log)
    producers = partition_log.producers
    if producers.state is None:  # From here on it is changed by what the shard's runner appends.
        producers.state = producers.read(clock.wall_ms()).state
    records = skipped = 0
    shard = _restored(kind, partition, partition_log)
    if shard is None:
        shard = kind.new_shard(partition)
        batches = partition_log.batches(partition_log.log_start_offset, buffer_bytes)
        records, skipped = kind.replay_batches(batches, shard)
    return Loaded(shard, shard.loaded(clock.now_ms(), clock.wall_ms()), records, skipped)


def _restored(kind: ShardKind[S], partition: int, partition_log: PartitionLog) -> S | None:
    """Take the snapshot that a clean stop has left, and return a shard made of it; None if none can be used."""
    snapshots = kind.snapshots
    if snapshots is None:
        return None
    try:
        data = partition_log.take_shard_snapshot(snapshots.version)
        if data is None:
            return None
        shard = kind.new_shard(partition)
        snapshots.restore(data, shard)
    except (UnusableSnapshot, DecodeError) as error:
        log.warning("a shard's snapshot is not used: its log is read", partition=partition, reason=str(error))
        return None
    return shard


def _cut_back(partition_log: PartitionLog) -> None:
    try:
        partition_log.fail_back()
    except StorageError as error:
        if not (error.is_no_room and partition_log.is_open):
            raise


def replay_batches(batches: Batches, shard: Shard) -> tuple[int, int]:
    """Replay a whole log of groups into the fresh `shard`; return the numbers of records and of unknown ones.

    Raises CorruptBatch, DecodeError.
    """
    replay = BulkReplay(shard)
    for batch, data in batches:
        replay.replay_batch(data, batch)
    replay.finish()
    return replay.records, replay.skipped
