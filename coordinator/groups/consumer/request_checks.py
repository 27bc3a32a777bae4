"""What a ConsumerGroupHeartbeat has to be whatever its group is: the first checks (docs/kafka.md 9.1)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from coordinator.groups.consumer.group import LEFT_EPOCH, LEFT_FOR_NOW_EPOCH
from coordinator.groups.consumer.refusal import Refused
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

JOIN_EPOCH: Final = 0
UNCHANGED_TIMEOUT: Final = -1
CLIENTS_MAKE_IDS_SINCE: Final = 1  # KIP-1082.
_TRIMMED: Final = "".join(map(chr, range(0x21)))


def check_request(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str]
) -> None:
    """Raise Refused for the first check that fails. `assignors` are named in their order."""
    epoch = request.member_epoch
    if api_version >= CLIENTS_MAKE_IDS_SINCE or epoch > JOIN_EPOCH or epoch == LEFT_EPOCH:
        _check_not_blank(request.member_id, "MemberId")
    _check_not_blank(request.group_id, "GroupId")
    _check_not_blank(request.instance_id, "InstanceId")
    _check_not_blank(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEFT_FOR_NOW_EPOCH:
        _check(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _check(epoch >= LEFT_EPOCH, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        supported = ", ".join(assignors)
        message = (
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
        )
        raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def refusal_of(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str]
) -> ConsumerGroupHeartbeatResponse | None:
    """The answer to a request that fails `check_request`; None if it does not."""
    try:
        check_request(request, api_version, assignors)
    except Refused as refused:
        return ConsumerGroupHeartbeatResponse(error_code=refused.error, error_message=refused.message)
    return None


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _check(
        request.rebalance_timeout_ms != UNCHANGED_TIMEOUT,
        "RebalanceTimeoutMs must be provided in first request.",
    )
    _check(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
    _check(
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _check_not_blank(text: str | None, name: str) -> None:
    _check(text is None or bool(java_trimmed(text)), f"{name} can't be empty.")


def java_trimmed(text: str) -> str:
    """`String.trim`: without the characters up to the space at both ends. Python strips others."""
    return text.strip(_TRIMMED)


def _check(is_right: bool, message: str) -> None:
    if not is_right:
        raise Refused(ErrorCode.INVALID_REQUEST, message)
