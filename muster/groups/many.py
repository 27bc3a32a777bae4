"""Describes many groups by few requests: hundreds of groups in each, as far as a cluster's versions allow it.

A group for which such a request brings an error, or of which it cannot say what it is, is asked about alone as
`descriptions` does: there errors are sentences, and a coordinator that loads is waited for. So is each group where
brokers only take one group at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias, TypeVar

from muster.cluster import Cluster, UnspokenError
from muster.groups.descriptions import (
    DEAD,
    Described,
    GroupDescription,
    describe_members,
    of_classic,
    of_consumers,
    whole,
    with_progress,
)
from muster.groups.offsets import OFFSET_FETCH_BY_NAME, Committed, committed, committed_in
from muster.groups.running import each
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.topic_partition import TopicPartition

BATCH_GROUPS: Final = 500
"""Groups in a request: the answer about so many of a dozen members each is a few MB."""

BATCHES_AT_ONCE: Final = 4
_SEVERAL_COORDINATORS: Final = 4
_SEVERAL_OFFSETS: Final = 8
"""The first versions of FindCoordinator and OffsetFetch that take several groups."""

Offsets = dict[TopicPartition, Committed]
Batch = tuple[int, list[str]]
"""A coordinator, and groups of it."""

Answer = TypeVar("Answer")
_Ask: TypeAlias = Callable[[Cluster, int, list[str]], Awaitable[dict[str, Answer]]]


async def describe_groups(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """The members and progress of each group that is there, in the order given. Raises ClusterError."""
    wanted = list(dict.fromkeys(group_ids))
    batches = await _batches(cluster, wanted)
    members = await _asked(_members, cluster, batches)
    offsets = await _asked(_committed, cluster, batches)
    alone = [group_id for group_id in wanted if group_id not in members]
    members |= zip(
        alone, await each(lambda group_id: describe_members(cluster, group_id), alone), strict=True
    )
    alone = [group_id for group_id in wanted if group_id not in offsets]
    offsets |= zip(alone, await each(lambda group_id: committed(cluster, group_id), alone), strict=True)
    there = [each_id for each_id in wanted if members[each_id].state != DEAD or offsets[each_id]]
    found = await with_progress(cluster, [members[name] for name in there], [offsets[name] for name in there])
    return {group.group_id: group for group in found}


async def committed_of_each(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, Offsets]:
    """All that each group has committed, in the order given. Raises ClusterError."""
    found = await _asked(_committed, cluster, await _batches(cluster, group_ids))
    alone = [group_id for group_id in group_ids if group_id not in found]
    found |= zip(alone, await each(lambda group_id: committed(cluster, group_id), alone), strict=True)
    return {group_id: found[group_id] for group_id in group_ids}


async def _batches(cluster: Cluster, group_ids: Sequence[str]) -> list[Batch]:
    """The groups by their coordinators, as far as one request for several finds these."""
    if len(group_ids) < 2:
        return []  # Nothing to gain.
    by_node: defaultdict[int, list[str]] = defaultdict(list)
    for names in _parts(group_ids):
        request = FindCoordinatorRequest(coordinator_keys=names)
        try:
            answer = await cluster.send_to_any(request, min_version=_SEVERAL_COORDINATORS)
        except UnspokenError:
            return []
        for found in answer.coordinators:
            if found.error_code == ErrorCode.NONE:
                by_node[found.node_id].append(found.key)
    return [(node_id, names) for node_id, of_node in by_node.items() for names in _parts(of_node)]


async def _asked(ask: _Ask[Answer], cluster: Cluster, batches: Iterable[Batch]) -> dict[str, Answer]:
    """What is answered for each group of these batches, some of which are asked side by side."""
    answers = await each(lambda batch: ask(cluster, *batch), batches, at_once=BATCHES_AT_ONCE)
    return dict(chain.from_iterable(answer.items() for answer in answers))


async def _members(cluster: Cluster, node_id: int, names: list[str]) -> dict[str, GroupDescription]:
    """The groups without their progress. One that is of consumers and is not described is left out."""
    found = await _consumer_groups(cluster, node_id, names)
    is_asked = found is not None
    found = found or {}
    rest = [name for name in names if name not in found]
    if rest:
        answer = await cluster.send(node_id, DescribeGroupsRequest(groups=rest))
        for group in answer.groups:
            is_there = group.error_code == ErrorCode.NONE and group.group_state != DEAD
            is_gone = group.error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
            if is_there or (is_gone and is_asked):
                found[group.group_id] = of_classic(group)
    place = (node_id, cluster.address(node_id))
    return {name: whole(place, name, group) for name, group in found.items()}


async def _consumer_groups(cluster: Cluster, node_id: int, names: list[str]) -> dict[str, Described] | None:
    """Those of the groups that are consumer groups; None where the cluster describes none."""
    try:
        answer = await cluster.send(node_id, ConsumerGroupDescribeRequest(group_ids=names))
    except UnspokenError:
        return None
    if any(group.error_code == ErrorCode.UNSUPPORTED_VERSION for group in answer.groups):
        return None
    return {
        group.group_id: of_consumers(group) for group in answer.groups if group.error_code == ErrorCode.NONE
    }


async def _committed(cluster: Cluster, node_id: int, names: list[str]) -> dict[str, Offsets]:
    """What each of the groups has committed; those whose offsets are refused are left out."""
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    request = OffsetFetchRequest(groups=groups)
    try:
        answer = await cluster.send(node_id, request, OFFSET_FETCH_BY_NAME, _SEVERAL_OFFSETS)
    except UnspokenError:
        return {}
    return {
        group.group_id: committed_in(group.topics)
        for group in answer.groups
        if group.error_code == ErrorCode.NONE
    }


def _parts(group_ids: Sequence[str]) -> Iterator[list[str]]:
    return (list(group_ids[at : at + BATCH_GROUPS]) for at in range(0, len(group_ids), BATCH_GROUPS))
