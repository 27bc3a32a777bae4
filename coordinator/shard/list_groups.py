"""ListGroups (key 16): all kinds of groups of one shard; the server asks all shards and joins their responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.offsets.shard_offsets import ShardOffsets
from protocol.consumer import PROTOCOL_TYPE
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


def list_groups(
    shard: ShardOffsets, request: ListGroupsRequest, context: RequestContext, at: Moment
) -> Result:
    """List the groups that pass both filters; a state or type that does not exist matches nothing."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    listed = [group for group in _of_types(shard, types) if not states or group.group_state.lower() in states]
    return Result(replies=(Reply(context.reply_to, ListGroupsResponse(groups=listed)),))


def _of_types(shard: ShardOffsets, types: set[str]) -> Iterator[ListedGroup]:
    if not types or CLASSIC in types:
        for group in shard.groups.values():
            yield ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
    if not types or CONSUMER in types:
        for consumer_group in shard.consumers.groups.values():
            yield ListedGroup(
                group_id=consumer_group.group_id,
                protocol_type=PROTOCOL_TYPE,
                group_state=consumer_group.state.value,
                group_type=CONSUMER,
            )
