"""FindCoordinator (key 10): this daemon coordinates every group and every transactional id.

It is found at the endpoint of the listener that was asked.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.server.pending import Pending
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

SERVED = frozenset({CoordinatorType.GROUP, CoordinatorType.TRANSACTION})
INVALID_REQUEST_TEXT = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent "
    "to an incompatible broker. See the broker logs for more details."
)
"""Kafka's text. Clients take INVALID_REQUEST as final; any retriable code would have them wait for ever."""
BATCHED_SINCE = 4
SHARE_SINCE = 6
"""Kafka serves share groups from this version on; below it refuses them, without a text where keys are batched."""


class FindCoordinator:
    """The handler of FindCoordinator; `endpoint_for(listener)` returns the listener's advertised (host, port)."""

    def __init__(self, node_id: int, endpoint_for: Callable[[str], tuple[str, int]]) -> None:
        self._node_id = node_id
        self._endpoint_for = endpoint_for

    def __call__(self, request: FindCoordinatorRequest, pending: Pending) -> None:
        if pending.api_version >= BATCHED_SINCE:
            found = [self._find(key, request.key_type, pending) for key in request.coordinator_keys]
            pending.reply(FindCoordinatorResponse(coordinators=found))
            return
        one = self._find(request.key, request.key_type, pending)
        message = one.error_message if one.error_code else ErrorCode.NONE.name  # Kafka's text for success.
        pending.reply(
            FindCoordinatorResponse(
                error_code=one.error_code,
                error_message=message,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
            )
        )

    def _find(self, key: str, key_type: int, pending: Pending) -> Coordinator:
        if key_type in SERVED:
            host, port = self._endpoint_for(pending.listener)
            return Coordinator(key=key, node_id=self._node_id, host=host, port=port)
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=_text_of_refusal(key_type, pending.api_version),
        )


def _text_of_refusal(key_type: int, version: int) -> str:
    if key_type != CoordinatorType.SHARE:
        return INVALID_REQUEST_TEXT
    if version >= SHARE_SINCE:
        return "This coordinator does not serve share groups."
    return "" if version >= BATCHED_SINCE else INVALID_REQUEST_TEXT
