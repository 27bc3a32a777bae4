"""The shards of groups, on the partitions of `__consumer_offsets`, as a runner needs to know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinator.groups.classic.records import encode_record
from coordinator.offsets.transactional_commit import VerifiedCommit
from coordinator.runtime.loading import replay_batches
from coordinator.runtime.shard_kind import ShardKind
from coordinator.shard.error_responses import error_response, loading_answer
from coordinator.shard.shard import Shard
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest

MAY_WRITE: Final = frozenset(
    {
        OffsetCommitRequest,
        VerifiedCommit,
        JoinGroupRequest,
        LeaveGroupRequest,
        DeleteGroupsRequest,
        OffsetDeleteRequest,
    }
)
"""SyncGroup is not among them: a shard that stands still was just read from its log, and no group in it waits
for an assignment."""


def group_shards(new_shard: Callable[[int], Shard]) -> ShardKind[Shard]:
    """The kind of groups' shards that `new_shard` makes."""
    return ShardKind(
        partition_name="offsets partition",
        state_name="offsets",
        new_shard=new_shard,
        replay_batches=replay_batches,
        encode_record=encode_record,
        error_response=error_response,
        loading_answer=loading_answer,
        may_write=MAY_WRITE,
    )
