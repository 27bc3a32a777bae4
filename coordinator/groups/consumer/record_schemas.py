"""The records of consumer groups (KIP-848): the shape of every key and value, types 3 to 8 and 16.

As in `groups.record_schemas`, of which they are the second half: the classes are the bodies, all of version 0.
Times are ms since the epoch.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from protocol.codec.codec import data, since, struct
from protocol.codec.primitives import Int8, Int32, Int64, Uuid

CONSUMER_GROUP_METADATA: Final = 3
CONSUMER_GROUP_PARTITION_METADATA: Final = 4
CONSUMER_GROUP_MEMBER_METADATA: Final = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Final = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = 8
CONSUMER_GROUP_REGULAR_EXPRESSION: Final = 16


@data(versions="0", flexible="none")
class ConsumerGroupMetadataKey:
    """Key of type 3: one consumer group."""

    group_id: str


@data(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """Value of type 3: the group's epoch, and the hash of its topics (`metadata_hash`) in that epoch."""

    epoch: Int32
    metadata_hash: Int64 = since(0, tag=0, default=0)


@data(versions="0", flexible="none")
class ConsumerGroupPartitionMetadataKey:
    """Key of type 4: the topics of one group, before Kafka 4.1."""

    group_id: str


@struct
class PartitionRacks:
    """The racks of a partition's replicas."""

    partition: Int32
    racks: list[str]


@struct
class TopicMetadata:
    """A topic as the group knew it."""

    topic_id: Uuid
    topic_name: str
    num_partitions: Int32
    partition_metadata: list[PartitionRacks]


@data(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """Value of type 4: never written; where one was read, it is removed with the next epoch."""

    topics: list[TopicMetadata]


@data(versions="0", flexible="none")
class ConsumerGroupMemberMetadataKey:
    """Key of type 5: one member of one group."""

    group_id: str
    member_id: str


@struct
class ClassicProtocol:
    """A protocol that a classic member offers."""

    name: str
    metadata: bytes


@struct
class ClassicMemberMetadata:
    """What only a member has that uses the classic protocol, and so at least one protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@data(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """Value of type 5: a member, as it described itself. The names are sorted; no regular expression is "".

    Where the last field is missing a broker reads an empty one, and takes the member for a classic one: that a
    member has none is written as a null.
    """

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = since(
        0, tag=0, default_factory=ClassicMemberMetadata
    )


@data(versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMetadataKey:
    """Key of type 6: the target of one group."""

    group_id: str


@data(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """Value of type 6: the epoch for which the target was computed, and when (ms since the epoch)."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = since(0, tag=0, default=0, ignorable=True)


@data(versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMemberKey:
    """Key of type 7: the target of one member."""

    group_id: str
    member_id: str


@struct
class TargetTopicPartitions:
    """Partitions of one topic that a member is to have."""

    topic_id: Uuid
    partitions: list[Int32]


@data(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """Value of type 7: what the member is to have."""

    topic_partitions: list[TargetTopicPartitions]


@data(versions="0", flexible="none")
class ConsumerGroupCurrentMemberAssignmentKey:
    """Key of type 8: what one member has."""

    group_id: str
    member_id: str


@struct
class CurrentTopicPartitions:
    """Partitions of one topic that a member has, with the epochs of their assignment (null before Kafka 4.3)."""

    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = since(0, tag=0, default=None)


@data(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """Value of type 8: the member's epochs and state, what it has and what it has to give up."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentTopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[CurrentTopicPartitions] = field(default_factory=list)


@data(versions="0", flexible="none")
class ConsumerGroupRegularExpressionKey:
    """Key of type 16: one regular expression that members of one group subscribe by."""

    group_id: str
    regular_expression: str


@data(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """Value of type 16: the topics that matched, sorted; of which version of the metadata, and when."""

    topics: list[str]
    version: Int64
    timestamp: Int64


CONSUMER_GROUP_SCHEMAS: Final[Mapping[int, tuple[type, type]]] = MappingProxyType(
    {
        CONSUMER_GROUP_METADATA: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        CONSUMER_GROUP_PARTITION_METADATA: (
            ConsumerGroupPartitionMetadataKey,
            ConsumerGroupPartitionMetadataValue,
        ),
        CONSUMER_GROUP_MEMBER_METADATA: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupTargetAssignmentMetadataValue,
        ),
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupTargetAssignmentMemberValue,
        ),
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupCurrentMemberAssignmentValue,
        ),
        CONSUMER_GROUP_REGULAR_EXPRESSION: (
            ConsumerGroupRegularExpressionKey,
            ConsumerGroupRegularExpressionValue,
        ),
    }
)
"""The classes of key and value by record type."""
