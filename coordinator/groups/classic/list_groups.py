"""ListGroups (key 16): the groups of one shard; the server asks all shards and joins their responses."""

from __future__ import annotations

from typing import Final

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.groups.classic.shard_groups import ShardGroups
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUP_TYPE: Final = "classic"


def list_groups(
    shard: ShardGroups, request: ListGroupsRequest, context: RequestContext, at: Moment
) -> Result:
    """List the groups that pass both filters; a state or type that does not exist matches nothing."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=GROUP_TYPE,
        )
        for group in shard.groups.values()
        if (not states or group.state.value.lower() in states) and (not types or GROUP_TYPE in types)
    ]
    return Result(replies=(Reply(context.reply_to, ListGroupsResponse(groups=listed)),))
