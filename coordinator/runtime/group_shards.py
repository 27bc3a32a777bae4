"""The `ShardKind` of the shards of groups, which are on the partitions of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from coordinator.effects import Appendable, CommitRun, CoordinatorRecord
from coordinator.groups.record_codec import encode_commit_run, encode_record
from coordinator.offsets.prepared_commit import PreparedOffsets
from coordinator.offsets.transactional_commit import TransactionalCommit
from coordinator.runtime.loading import replay_batches
from coordinator.runtime.shard_kind import ShardKind, SnapshotKind
from coordinator.shard.bulk_replay import NO_OFFSET
from coordinator.shard.columns import Buffer
from coordinator.shard.error_responses import error_response, loading_answer
from coordinator.shard.shard import Shard
from coordinator.shard.snapshot import STATE_VERSION, decode_state, encode_state
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.records.records import Record as LogRecord
from protocol.records.run import Run

MAY_WRITE: Final = frozenset(
    {
        OffsetCommitRequest,
        TransactionalCommit,
        ConsumerGroupHeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        DeleteGroupsRequest,
        OffsetDeleteRequest,
    }
)
"""The requests that may write records. SyncGroup is not among them: a shard whose log is paused was just read from
it, so no group in it waits for an assignment."""


def encode(entry: Appendable, wall_ms: int) -> Sequence[LogRecord | Run]:
    """Return the encoded record, or records of one commit, as written at `wall_ms`. Raises EncodeError."""
    if isinstance(entry, PreparedOffsets):
        return (entry,)
    if isinstance(entry, CommitRun):
        return (encode_commit_run(entry, wall_ms),)
    assert isinstance(entry, CoordinatorRecord), entry
    return (LogRecord(*encode_record(entry), timestamp_ms=wall_ms),)


def _encode_state(shard: Shard) -> Sequence[Buffer]:
    return encode_state(shard.stored.values(), shard.consumer_groups.values(), shard.offsets)


def _restore(data: memoryview, shard: Shard) -> None:
    for entry in decode_state(data):
        shard.replay(entry, NO_OFFSET)


SNAPSHOTS: Final = SnapshotKind(STATE_VERSION, _encode_state, _restore)


def group_shards(new_shard: Callable[[int], Shard]) -> ShardKind[Shard]:
    """Return the `ShardKind` of groups; `new_shard(partition)` creates an empty shard."""
    return ShardKind(
        partition_name="offsets partition",
        state_name="offsets",
        new_shard=new_shard,
        replay_batches=replay_batches,
        encode=encode,
        error_response=error_response,
        loading_answer=loading_answer,
        may_write=MAY_WRITE,
        snapshots=SNAPSHOTS,
    )
