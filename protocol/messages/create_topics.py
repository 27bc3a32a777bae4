"""CreateTopics (key 19): make topics, or only check whether they could be made.

Versions 0 and 1 are gone since Kafka 4.0.

| version | what is new |
|---|---|
| 2 | the baseline: a dry run, a message per topic, throttle time in the answer |
| 3 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 4 | partitions and replication factor may be left to the broker (KIP-464) |
| 5 | flexible; the answer says what was made, with its settings (KIP-525) |
| 6 | clients understand THROTTLING_QUOTA_EXCEEDED (KIP-599) |
| 7 | the new topic's id in the answer (KIP-516) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int8, Int16, Int32, Uuid


@struct
class CreatableReplicaAssignment:
    """The brokers of one partition, the leader to be first, where the asker places them itself."""

    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreatableTopicConfig:
    """One setting; null stands for the default."""

    name: str
    value: str | None


@struct
class CreatableTopic:
    """One topic to create. With assignments the two numbers must be -1; without, -1 is the broker's default."""

    name: str
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@request(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    """Topics to make, and how long the asker waits for it."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


@struct
class CreatableTopicConfigs:
    """One setting of a new topic, and where its value comes from."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False


@struct
class CreatableTopicResult:
    """The result for one topic."""

    name: str
    topic_id: Uuid = since(7, default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = ""

    # What was made. Settings are null, with the error here, if the asker may not see them.
    topic_config_error_code: Int16 = since(5, tag=0, default=0, ignorable=True)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = since(5, default_factory=list, ignorable=True)


@response(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    """One entry per topic of the request."""

    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
