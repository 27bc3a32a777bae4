"""Answers to requests that no handler saw, or whose records the log would not take.

`error_response` builds, for any group API, the reply that says one error in the way the version has for
it. LOADING_ANSWER says which error that is while a shard reads its log. Nothing here looks at a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from coordinator.groups.append_errors import append_answer
from coordinator.groups.classic.answers import join_refusal, sync_refusal
from coordinator.offsets.error_responses import commit_refusal, fetch_refusal, txn_commit_refusal
from coordinator.offsets.transactional_commit import VerifiedCommit
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest

LOADING_ANSWER: Final[dict[type, ErrorCode]] = {
    HeartbeatRequest: ErrorCode.NONE,  # No reason to worry a member: its session starts anew after the load.
    SyncGroupRequest: ErrorCode.REBALANCE_IN_PROGRESS,  # Java's classic consumer takes 14 here for fatal.
}
"""What is not COORDINATOR_LOAD_IN_PROGRESS while the shard loads (3.69)."""


def loading_answer(request: Any) -> ErrorCode:
    """What to answer `request` while its shard is loading; NONE for a Heartbeat."""
    return LOADING_ANSWER.get(type(request), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def error_response(request: Any, error: ErrorCode, api_version: int) -> Any:
    """The reply to `request`, a message of any group API, that says `error` and nothing else."""
    return _SHAPES[type(request)](request, append_answer(error), api_version)


def _fetch(request: OffsetFetchRequest, error: ErrorCode, api_version: int) -> Any:
    """Clients do not expect COORDINATOR_NOT_AVAILABLE here, and take it for fatal; as in Kafka (2.1)."""
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode.NOT_COORDINATOR
    return fetch_refusal(request, error, api_version)


def _txn_commit(asked: VerifiedCommit, error: ErrorCode, api_version: int) -> Any:
    return txn_commit_refusal(asked.request, error, api_version)


def _join(request: JoinGroupRequest, error: ErrorCode, api_version: int) -> Any:
    return join_refusal(error, api_version)


def _sync(request: SyncGroupRequest, error: ErrorCode, api_version: int) -> Any:
    return sync_refusal(error)


def _heartbeat(request: HeartbeatRequest, error: ErrorCode, api_version: int) -> Any:
    return HeartbeatResponse(error_code=error)


def _leave(request: LeaveGroupRequest, error: ErrorCode, api_version: int) -> Any:
    return LeaveGroupResponse(error_code=error)


def _list(request: ListGroupsRequest, error: ErrorCode, api_version: int) -> Any:
    return ListGroupsResponse(error_code=error)


def _describe(request: DescribeGroupsRequest, error: ErrorCode, api_version: int) -> Any:
    groups = [DescribedGroup(group_id=group_id, error_code=error) for group_id in request.groups]
    return DescribeGroupsResponse(groups=groups)


def _delete(request: DeleteGroupsRequest, error: ErrorCode, api_version: int) -> Any:
    names = dict.fromkeys(request.groups_names)
    results = [DeletableGroupResult(group_id=group_id, error_code=error) for group_id in names]
    return DeleteGroupsResponse(results=results)


def _offset_delete(request: OffsetDeleteRequest, error: ErrorCode, api_version: int) -> Any:
    return OffsetDeleteResponse(error_code=error)


_SHAPES: Final[dict[type, Callable[[Any, ErrorCode, int], Any]]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: _leave,
    ListGroupsRequest: _list,
    DescribeGroupsRequest: _describe,
    DeleteGroupsRequest: _delete,
    OffsetCommitRequest: commit_refusal,
    VerifiedCommit: _txn_commit,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: _offset_delete,
}
