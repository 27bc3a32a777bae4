"""DeleteTopics (key 20): remove topics, by name or by id.

Version 0 is gone since Kafka 4.0.

| version | what is new |
|---|---|
| 1 | the baseline: throttle time in the answer |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | clients understand TOPIC_DELETION_DISABLED (KIP-322) |
| 4 | flexible |
| 5 | a message per topic; clients understand THROTTLING_QUOTA_EXCEEDED (KIP-599) |
| 6 | topics by id as well (KIP-516): a list of pairs takes the place of the names |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int16, Int32, Uuid


@struct
class DeleteTopicState:
    """One topic: either a name, or null and an id."""

    name: str | None = None
    topic_id: Uuid = ZERO_UUID


@request(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    """Topics to remove: `topic_names` up to version 5, `topics` after."""

    topics: list[DeleteTopicState] = since(6, default_factory=list)
    topic_names: list[str] = since(0, until=5, default_factory=list, ignorable=True)
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    """The result for one topic; the name is null where only an id was given and it is unknown."""

    name: str | None = since(0, default="", nullable="6+")
    topic_id: Uuid = since(6, default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = since(5, default=None, ignorable=True)


@response(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    """One entry per topic of the request."""

    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
