"""The snapshots of a clean stop: the stored state of each shard, beside its log, for a start that need not replay.

They are written when the shards were stopped and their logs are closed whole. A shard whose log has failed, or has
not all that the shard replayed, leaves none; nor does one with a short log, which is replayed as quickly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import structlog

from coordinator.runtime.shard_kind import FinalState, SnapshotKind
from coordinator.runtime.shard_runner import ShardRunner
from storage.files import StorageError

log = structlog.get_logger("muster.shard")

MIN_LOG_BYTES: Final = 256 << 10
"""Size of the shortest log for which a snapshot is left: about 2,000 records, which take 2 ms to replay."""


def write_snapshots(runners: Iterable[ShardRunner[Any]], min_log_bytes: int = MIN_LOG_BYTES) -> int:
    """Leave a snapshot of each stopped shard whose log is closed, and whole; return how many were written. Blocks.

    An error of the disk, or a bug, is logged: the next start reads that log.
    """
    count = 0
    for runner in runners:
        final, snapshots = runner.final, runner.kind.snapshots
        if final is not None and snapshots is not None and _is_worth_it(runner, final, min_log_bytes):
            count += _write(runner, final, snapshots)
    return count


def _is_worth_it(runner: ShardRunner[Any], final: FinalState, min_log_bytes: int) -> bool:
    shard_log = runner.log
    is_whole = final.position == shard_log.next_offset == shard_log.durable_offset
    return is_whole and shard_log.failure is None and shard_log.size_bytes >= max(min_log_bytes, 1)


def _write(runner: ShardRunner[Any], final: FinalState, snapshots: SnapshotKind[Any]) -> bool:
    try:
        runner.log.write_shard_snapshot(snapshots.version, snapshots.encode(final.shard))
    except StorageError as error:
        log.warning("a shard's snapshot is not left", partition=runner.partition, error=str(error))
        return False
    except Exception:  # A bug of ours: the log is whole without it, and the stop has more to do.
        log.exception("a shard's snapshot is not left", partition=runner.partition)
        return False
    return True
