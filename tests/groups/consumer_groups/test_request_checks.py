"""What is wrong with a ConsumerGroupHeartbeat whatever its group: each row is a check, in Kafka's order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.request_checks import check_request
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)

ASSIGNORS = ("uniform", "range")
JOIN = ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=1000,
    subscribed_topic_names=["t"],
    topic_partitions=[],
)
BEAT = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=5)
OWNED = [ConsumerGroupHeartbeatTopicPartitions(topic_id=bytes(16), partitions=[0])]
NO_MEMBER, NO_GROUP = "MemberId can't be empty.", "GroupId can't be empty."
NO_SUBSCRIPTION = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."

WRONG: list[tuple[ConsumerGroupHeartbeatRequest, int, dict[str, Any], str]] = [
    (JOIN, 1, {"member_id": ""}, NO_MEMBER),
    (JOIN, 1, {"member_id": "\t \n\x1f"}, NO_MEMBER),
    (BEAT, 0, {"member_id": ""}, NO_MEMBER),
    (BEAT, 0, {"member_id": "", "member_epoch": -1}, NO_MEMBER),
    (BEAT, 1, {"member_id": "", "member_epoch": -2}, NO_MEMBER),
    (JOIN, 0, {"group_id": " "}, NO_GROUP),
    (JOIN, 1, {"group_id": "", "instance_id": ""}, NO_GROUP),
    (JOIN, 1, {"instance_id": " ", "rack_id": ""}, "InstanceId can't be empty."),
    (JOIN, 1, {"rack_id": "", "rebalance_timeout_ms": -1}, "RackId can't be empty."),
    (
        JOIN,
        1,
        {"rebalance_timeout_ms": -1, "topic_partitions": None},
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    (
        JOIN,
        1,
        {"topic_partitions": None, "subscribed_topic_names": None},
        "TopicPartitions must be empty when (re-)joining.",
    ),
    (JOIN, 1, {"topic_partitions": OWNED}, "TopicPartitions must be empty when (re-)joining."),
    (JOIN, 1, {"subscribed_topic_names": None, "server_assignor": "x"}, NO_SUBSCRIPTION),
    (BEAT, 1, {"member_epoch": -2}, "InstanceId can't be null."),
    (BEAT, 1, {"member_epoch": -3, "server_assignor": "x"}, "MemberEpoch is invalid."),
]


@pytest.mark.parametrize(("request_", "version", "changes", "message"), WRONG)
def test_a_request_that_is_wrong(
    request_: ConsumerGroupHeartbeatRequest, version: int, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused) as refused:
        check_request(replace(request_, **changes), version, ASSIGNORS)
    assert (refused.value.error, refused.value.message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("request_", "version", "changes"),
    [
        (JOIN, 1, {}),
        (JOIN, 0, {"member_id": ""}),
        (JOIN, 1, {"subscribed_topic_names": []}),
        (JOIN, 1, {"subscribed_topic_names": None, "subscribed_topic_regex": ""}),
        (JOIN, 1, {"member_id": "\u2003"}),  # A space to Python, not to Java's trim.
        (BEAT, 1, {"topic_partitions": OWNED}),
        (BEAT, 0, {"member_id": "", "member_epoch": -2, "instance_id": "i"}),
        (BEAT, 1, {"member_epoch": -1}),
        (BEAT, 1, {"server_assignor": "range"}),
    ],
)
def test_a_request_that_is_right(
    request_: ConsumerGroupHeartbeatRequest, version: int, changes: dict[str, Any]
) -> None:
    check_request(replace(request_, **changes), version, ASSIGNORS)


def test_an_assignor_that_is_not_offered() -> None:
    with pytest.raises(Refused) as refused:
        check_request(replace(BEAT, server_assignor="sticky"), 1, ASSIGNORS)
    message = "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    assert (refused.value.error, refused.value.message) == (ErrorCode.UNSUPPORTED_ASSIGNOR, message)
