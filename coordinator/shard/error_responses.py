"""The error responses of a shard of groups: while it loads, and in place of a reply that failed.

What a response with an error looks like follows from the schema (`protocol.error_responses`). Nothing here looks
at a group.
"""

from __future__ import annotations

from typing import Any, Final

from coordinator.offsets.transactional_commit import TransactionalCommit
from protocol import error_responses
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest

LOADING_ANSWER: Final[dict[type, ErrorCode]] = {
    HeartbeatRequest: ErrorCode.NONE,  # The member need do nothing: its session begins again after the load.
    SyncGroupRequest: ErrorCode.REBALANCE_IN_PROGRESS,  # Error 14 is fatal here to Java's classic consumer.
}
"""The requests that are not answered COORDINATOR_LOAD_IN_PROGRESS (14) while the shard loads (3.69)."""


def loading_answer(request: Any) -> ErrorCode:
    """Return the error that answers `request` while its shard is loading; NONE for a Heartbeat."""
    return LOADING_ANSWER.get(type(request), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def error_response(request: Any, error: ErrorCode, api_version: int) -> Any:
    """Return the response with only `error` to `request`, any request that a shard of groups handles."""
    message = request.request if isinstance(request, TransactionalCommit) else request
    return error_responses.error_response(message, error, api_version)
