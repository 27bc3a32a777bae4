"""ConsumerGroupDescribe (key 69): groups of the new protocol, what members have and are to have (KIP-848).

| version | what is new |
|---|---|
| 1 | whether a member uses the classic protocol (KIP-1099) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32, Uuid
from protocol.messages.authorized_operations import OPERATIONS_NOT_ASKED_FOR


@request(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """The ids of the groups asked for."""

    group_ids: list[str]
    include_authorized_operations: bool = False


@struct
class ConsumerGroupDescribeTopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: str
    partitions: list[Int32]


@struct
class ConsumerGroupDescribeAssignment:
    """What a member has, or is to have."""

    topic_partitions: list[ConsumerGroupDescribeTopicPartitions] = field(default_factory=list)


@struct
class ConsumerGroupDescribeMember:
    """One member; `assignment` includes what it has to give up. A classic one has type 0, others 1."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str  # With a leading slash, as in "/127.0.0.1".
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = None
    assignment: ConsumerGroupDescribeAssignment
    target_assignment: ConsumerGroupDescribeAssignment
    member_type: Int8 = since(1, default=-1, ignorable=True)


@struct
class ConsumerGroupDescribeGroup:
    """One group, or why it is not described: its state is "" then."""

    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[ConsumerGroupDescribeMember] = field(default_factory=list)
    authorized_operations: Int32 = OPERATIONS_NOT_ASKED_FOR


@response(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """One entry per group of the request."""

    throttle_time_ms: Int32 = 0
    groups: list[ConsumerGroupDescribeGroup] = field(default_factory=list)
