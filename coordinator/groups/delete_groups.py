"""DeleteGroups (key 42): remove groups without members, and every offset they hold.

Each tombstone stands alone, so that a group of any size can be deleted: a crash half-way leaves a group
with fewer offsets, and nobody was told that it is gone. The group's own tombstone comes last.
"""

from __future__ import annotations

from coordinator.effects import NOTHING, Moment, Reply, RequestContext, Result
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.group import Group
from coordinator.groups.records import new_group_tombstone, new_offset_commit_tombstone
from coordinator.groups.states import DELETE_ANSWER, Trigger, transition
from coordinator.offsets.committed import CommittedOffsets
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(
    groups: dict[str, Group],
    offsets: CommittedOffsets,
    request: DeleteGroupsRequest,
    context: RequestContext,
    at: Moment,
) -> Result:
    """Delete each group that has no members; the others stay untouched.

    Errors, per group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    cause = Cause(CauseKind.GROUP_DELETED, client_id=context.client_id, client_host=context.client_host)
    result = NOTHING
    outcomes: list[DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        group = groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else DELETE_ANSWER[group.state]
        outcomes.append(DeletableGroupResult(group_id=group_id, error_code=error))
        if group is not None and error is ErrorCode.NONE:
            result += remove_group(groups, offsets, group, at, cause)
    return Result(replies=(Reply(context.reply_to, DeleteGroupsResponse(results=outcomes)),)) + result


def remove_group(
    groups: dict[str, Group], offsets: CommittedOffsets, group: Group, at: Moment, cause: Cause
) -> Result:
    """Take an empty group away: tombstones for its offsets, then for itself (3.74, O25)."""
    event = transition(group, Trigger.GROUP_REMOVED, at, cause)
    del groups[group.group_id]
    records = [
        new_offset_commit_tombstone(group.group_id, topic, partition)
        for topic, partition, _ in offsets.of_group(group.group_id)
    ]
    records += [
        new_offset_commit_tombstone(group.group_id, topic, partition)
        for topic, partition in offsets.undecided(group.group_id)
    ]
    records.append(new_group_tombstone(group.group_id))
    return Result(records=tuple(records), history=(event,), atomic=False)
