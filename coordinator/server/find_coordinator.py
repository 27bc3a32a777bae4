"""FindCoordinator (key 10): the node that leads the partition of a group or of a transactional id.

It is found at its endpoint of the listener that was asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.groups.partitioning import partition_for
from coordinator.server.pending import Pending
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.placement import Placement
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

TOPIC_OF: dict[int, str] = {
    CoordinatorType.GROUP: GROUP_METADATA_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
}
"""The topic whose partitions are the shards of a kind of coordinator."""
NOT_AVAILABLE_TEXT = "The coordinator is not available."
"""Kafka's text where no node leads the partition; without one where keys are batched."""
INVALID_REQUEST_TEXT = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent "
    "to an incompatible broker. See the broker logs for more details."
)
"""Kafka's text. Clients take INVALID_REQUEST as final; any retriable code would have them wait for ever."""
NO_TRANSACTIONS_TEXT = "Transactions are not served where the log of groups is on another Kafka."
BATCHED_SINCE = 4
SHARE_SINCE = 6
"""Kafka serves share groups from this version on; below it refuses them, without a text where keys are batched."""


class FindCoordinator:
    """The handler of FindCoordinator.

    Errors: INVALID_REQUEST for other kinds, COORDINATOR_NOT_AVAILABLE while no node leads the partition,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED where transactions are not served.
    """

    def __init__(self, placement: Placement, partitions: Mapping[str, int]) -> None:
        """`partitions` are the numbers of partitions of the internal topics, by name.

        Without that of transactions, no transactional id has a coordinator here, and none is authorized.
        """
        self._placement = placement
        self._partitions = partitions

    def __call__(self, request: FindCoordinatorRequest, pending: Pending) -> None:
        pending.reply(self.answer(request, pending.api_version, pending.listener))

    def answer(self, request: FindCoordinatorRequest, version: int, listener: str) -> FindCoordinatorResponse:
        """The answer to a client of `listener`."""
        if version >= BATCHED_SINCE:
            keys = request.coordinator_keys
            found = [self._find(key, request.key_type, version, listener) for key in keys]
            return FindCoordinatorResponse(coordinators=found)
        one = self._find(request.key, request.key_type, version, listener)
        message = one.error_message if one.error_code else ErrorCode.NONE.name  # Kafka's text for success.
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    def _find(self, key: str, key_type: int, version: int, listener: str) -> Coordinator:
        topic = TOPIC_OF.get(key_type)
        if topic is None:
            return _none(key, ErrorCode.INVALID_REQUEST, _text_of_refusal(key_type, version))
        if topic not in self._partitions:
            return _none(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS_TEXT)
        leader_id = self._placement.leader_of(topic, partition_for(key, self._partitions[topic]))
        node = self._placement.node(leader_id)
        if node is None or not node.is_on(listener):
            text = "" if version >= BATCHED_SINCE else NOT_AVAILABLE_TEXT
            return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        host, port = node.endpoint_for(listener)
        return Coordinator(key=key, node_id=leader_id, host=host, port=port)


def _none(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)


def _text_of_refusal(key_type: int, version: int) -> str:
    if key_type != CoordinatorType.SHARE:
        return INVALID_REQUEST_TEXT
    if version >= SHARE_SINCE:
        return "This coordinator does not serve share groups."
    return "" if version >= BATCHED_SINCE else INVALID_REQUEST_TEXT
