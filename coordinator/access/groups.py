"""The checks of the APIs of groups, in Kafka's order: FindCoordinator, members, descriptions, lists, deletions."""

from __future__ import annotations

from typing import Final

from coordinator.access.asker import Asker
from coordinator.access.refusals import words_of
from coordinator.access.verdict import Verdict, interleaved, passes, refused
from coordinator.security.acls import Operation, ResourceType
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.sync_group import SyncGroupRequest

PROTOCOL_REQUIRED_SINCE: Final = 5  # Of SyncGroup (KIP-559).
KEYS_SINCE: Final = 4  # Of FindCoordinator.
SHARE_SINCE: Final = 6  # Of FindCoordinator.
HIDDEN_TOPIC: Final = "The group has described topic(s) that the client is not authorized to describe."


def check_member(request: JoinGroupRequest | HeartbeatRequest | LeaveGroupRequest, asker: Asker) -> Verdict:
    """JoinGroup, Heartbeat, LeaveGroup: READ of the group, before its id is looked at.

    Where JoinGroup leads to a consumer group, expressions of its members may be resolved by it.
    """
    if asker.may_group(Operation.READ, request.group_id):
        resolves = isinstance(request, JoinGroupRequest) and asker.facts.has_consumer_groups
        return Verdict(request, asks=resolves)
    return refused(error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, asker.version))


def check_sync_group(request: SyncGroupRequest, asker: Asker) -> Verdict:
    """SyncGroup: that it names its protocol, then as `check_member`."""
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if asker.version >= PROTOCOL_REQUIRED_SINCE and not is_named:
        return refused(error_response(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, asker.version))
    if asker.may_group(Operation.READ, request.group_id):
        return passes(request)
    return refused(error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, asker.version))


# The coordinator.


def check_find_coordinator(request: FindCoordinatorRequest, asker: Asker) -> Verdict:
    """FindCoordinator: DESCRIBE of each group or transactional id; CLUSTER_ACTION for share groups."""
    if request.key_type == CoordinatorType.SHARE:
        return _check_share_coordinator(request, asker)
    keys = request.coordinator_keys if asker.version >= KEYS_SINCE else [request.key]
    denied = {key: error for key in keys if (error := _find_error(request.key_type, key, asker))}
    if not denied:
        return passes(request)
    if asker.version < KEYS_SINCE:
        return refused(_not_found(denied[request.key]))

    def complete(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        rows = interleaved(keys, lambda key: _no_coordinator(key, denied.get(key)), response.coordinators)
        return FindCoordinatorResponse(coordinators=list(rows))

    allowed = FindCoordinatorRequest(
        key_type=request.key_type, coordinator_keys=[key for key in keys if key not in denied]
    )
    return Verdict(allowed, complete=complete)


def _check_share_coordinator(request: FindCoordinatorRequest, asker: Asker) -> Verdict:
    """Below the version of share groups all is refused whoever asks; from it on one error is that of all keys."""
    if asker.version < SHARE_SINCE or asker.may_cluster(Operation.CLUSTER_ACTION):
        return passes(request)
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    rows = [_refused_key(key, error, words_of(error)) for key in request.coordinator_keys]
    return refused(FindCoordinatorResponse(coordinators=rows))


def _find_error(key_type: int, key: str, asker: Asker) -> ErrorCode:
    if key_type == CoordinatorType.GROUP and not asker.may_group(Operation.DESCRIBE, key):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if key_type == CoordinatorType.TRANSACTION and not asker.may_transaction(Operation.DESCRIBE, key):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _not_found(error: ErrorCode) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=error, error_message=words_of(error), node_id=-1, host="", port=-1
    )


def _no_coordinator(key: str, error: ErrorCode | None) -> Coordinator | None:
    return None if error is None else _refused_key(key, error, "")


def _refused_key(key: str, error: ErrorCode, words: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=words)


# Descriptions and lists.


def check_describe_groups(request: DescribeGroupsRequest, asker: Asker) -> Verdict:
    """DescribeGroups: DESCRIBE of each group; those refused come first."""
    denied, allowed = _by_right(request.groups, Operation.DESCRIBE, asker)
    with_operations = request.include_authorized_operations
    if not denied and not with_operations:
        return passes(request)
    rows = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in denied
    ]

    def complete_part(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        _set_operations(response, asker)
        return response

    def complete(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[*rows, *response.groups])

    return Verdict(
        DescribeGroupsRequest(groups=allowed, include_authorized_operations=with_operations),
        complete=complete if denied else None,
        complete_part=complete_part if with_operations else None,
    )


def _by_right(group_ids: list[str], operation: Operation, asker: Asker) -> tuple[list[str], list[str]]:
    """Return the groups that `operation` is denied for, and the others, in their order."""
    denied = {group_id for group_id in set(group_ids) if not asker.may_group(operation, group_id)}
    return (
        [group_id for group_id in group_ids if group_id in denied],
        [group_id for group_id in group_ids if group_id not in denied],
    )


def _set_operations(response: DescribeGroupsResponse | ConsumerGroupDescribeResponse, asker: Asker) -> None:
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = asker.operations(ResourceType.GROUP, group.group_id)


def check_consumer_group_describe(request: ConsumerGroupDescribeRequest, asker: Asker) -> Verdict:
    """ConsumerGroupDescribe: as DescribeGroups; but no group that has a topic without DESCRIBE."""
    if not asker.facts.has_consumer_groups:
        return passes(request)
    denied, allowed = _by_right(request.group_ids, Operation.DESCRIBE, asker)
    with_operations = request.include_authorized_operations
    rows = [
        ConsumerGroupDescribeGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in denied
    ]

    def complete_part(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        if with_operations:
            _set_operations(response, asker)
        return ConsumerGroupDescribeResponse(groups=[_if_shown(group, asker) for group in response.groups])

    def complete(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(groups=[*rows, *response.groups])

    return Verdict(
        ConsumerGroupDescribeRequest(group_ids=allowed, include_authorized_operations=with_operations),
        complete=complete if denied else None,
        complete_part=complete_part,
    )


def _if_shown(group: ConsumerGroupDescribeGroup, asker: Asker) -> ConsumerGroupDescribeGroup:
    """Return `group`, or where a topic that a member has or is to have may not be seen, the error in its place."""
    if all(asker.may_topic(Operation.DESCRIBE, name) for name in _topics_of(group)):
        return group
    return ConsumerGroupDescribeGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=HIDDEN_TOPIC,
    )


def _topics_of(group: ConsumerGroupDescribeGroup) -> set[str]:
    """Names of the topics of all assignments; a group whose members are described later has a quicker answer."""
    topic_names = getattr(group.members, "topic_names", None)
    if topic_names is not None:
        names: set[str] = topic_names()
        return names
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


def check_list_groups(request: ListGroupsRequest, asker: Asker) -> Verdict:
    """ListGroups: with DESCRIBE of the cluster all groups, otherwise those with DESCRIBE; never an error."""
    if asker.permits_cluster(Operation.DESCRIBE):
        return passes(request)

    def complete_part(response: ListGroupsResponse) -> ListGroupsResponse:
        shown = [
            group for group in response.groups if asker.permits_group(Operation.DESCRIBE, group.group_id)
        ]
        return ListGroupsResponse(error_code=response.error_code, groups=shown)

    return Verdict(request, complete_part=complete_part)


def check_delete_groups(request: DeleteGroupsRequest, asker: Asker) -> Verdict:
    """DeleteGroups: DELETE of each group; those refused come last, each once."""
    denied, allowed = _by_right(request.groups_names, Operation.DELETE, asker)
    if not denied:
        return passes(request)
    rows = [
        DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in dict.fromkeys(denied)
    ]
    return Verdict(
        DeleteGroupsRequest(groups_names=allowed),
        complete=lambda response: DeleteGroupsResponse(results=[*response.results, *rows]),
    )


# Consumer groups (KIP-848).


def check_consumer_heartbeat(request: ConsumerGroupHeartbeatRequest, asker: Asker) -> Verdict:
    """ConsumerGroupHeartbeat: READ of the group; DESCRIBE of all topics that it names, or nothing changes.

    Of the topics that an expression matches those that the client may not DESCRIBE are left out where the
    expression is resolved.
    """
    if not asker.facts.has_consumer_groups:
        return passes(request)
    error = ErrorCode.NONE
    if not asker.may_group(Operation.READ, request.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif asker.denied_topics(Operation.DESCRIBE, request.subscribed_topic_names or ()):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return refused(ConsumerGroupHeartbeatResponse(error_code=error)) if error else Verdict(request, asks=True)
