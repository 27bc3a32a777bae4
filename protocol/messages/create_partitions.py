"""CreatePartitions (key 37): give topics more partitions (KIP-195). They can never have fewer.

| version | what is new |
|---|---|
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | flexible |
| 3 | clients understand THROTTLING_QUOTA_EXCEEDED (KIP-599) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int16, Int32


@struct
class CreatePartitionsAssignment:
    """The brokers of one new partition, the leader to be first."""

    broker_ids: list[Int32]


@struct
class CreatePartitionsTopic:
    """One topic and how many partitions it shall have in all; null assignments leave the placing."""

    name: str
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@request(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Topics to widen, or only to check whether they could be."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: bool = False


@struct
class CreatePartitionsTopicResult:
    """The result for one topic."""

    name: str
    error_code: Int16 = 0
    error_message: str | None = None


@response(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """One entry per topic of the request."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
