"""ConsumerGroupHeartbeat (key 68): a member joins, lives, confirms what it gave up, and leaves (KIP-848).

One API for all of it: the coordinator says in its answers which partitions the member has, and the member says
in its requests which it owns. Null, and -1 for the timeout, stand for "as before".

| version | what is new |
|---|---|
| 1 | a subscription by a regular expression; the client makes its member id itself (KIP-1082) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32, Uuid


@struct
class ConsumerGroupHeartbeatTopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[Int32] = field(default_factory=list)


@request(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """`member_epoch` is 0 to join, -1 to leave, -2 for a static member that will be back."""

    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = since(1, default=None)
    server_assignor: str | None = None
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] | None = None


@struct
class ConsumerGroupHeartbeatAssignment:
    """All partitions that the member may use now."""

    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions]


@response(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """Assignment null: as before. With an error all else but its message is empty."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupHeartbeatAssignment | None = None
