"""DeleteGroups (key 42): remove groups without members, with all their offsets."""

from __future__ import annotations

from coordinator.effects import Effects, Moment, RequestContext
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.states import DELETE_ANSWER
from coordinator.offsets.remove_group import remove_consumer_group, remove_group
from coordinator.offsets.shard_offsets import ShardOffsets
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(
    shard: ShardOffsets, request: DeleteGroupsRequest, context: RequestContext, at: Moment, effects: Effects
) -> None:
    """Delete each group named that has no members; the others stay unchanged.

    Errors, per group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    cause = Cause(CauseKind.GROUP_DELETED, client_id=context.client_id, client_host=context.client_host)
    outcomes: list[DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        error = _delete(shard, group_id, at, cause, effects)
        outcomes.append(DeletableGroupResult(group_id=group_id, error_code=error))
    effects.reply(context.reply_to, DeleteGroupsResponse(results=outcomes))


def _delete(shard: ShardOffsets, group_id: str, at: Moment, cause: Cause, effects: Effects) -> ErrorCode:
    consumer_group = shard.consumer_group(group_id)
    if consumer_group is not None:
        if consumer_group.members:
            return ErrorCode.NON_EMPTY_GROUP
        remove_consumer_group(shard.consumers, shard.offsets, consumer_group, at, cause, effects)
        return ErrorCode.NONE
    group = shard.groups.get(group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else DELETE_ANSWER[group.state]
    if group is not None and error is ErrorCode.NONE:
        remove_group(shard.groups, shard.offsets, group, at, cause, effects)
    return error
