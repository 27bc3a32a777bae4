"""Values of the offsets topic's records that Muster does not keep: share and streams groups (docs/kafka.md 5).

For showing them alone: nothing of them is replayed. There is one version of each, 0, and it is flexible. A
value that these classes do not fit is shown as bytes.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final

from coordinator.groups.consumer.record_schemas import CurrentTopicPartitions
from protocol.codec.codec import data, decode, since, struct
from protocol.codec.primitives import Int8, Int16, Int32, Int64, Uint16, Uuid
from protocol.errors import DecodeError

VERSION_BYTES: Final = 2


@struct
class TaskIds:
    """Tasks of one subtopology, by the partitions that they read."""

    subtopology_id: str
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = since(0, tag=0, default=None)


@struct
class KeyValue:
    """A name and a value: of a topic's setting, or of a client's tag."""

    key: str
    value: str


@struct
class StreamsEndpoint:
    """The address at which a streams member answers queries."""

    host: str
    port: Uint16


@struct
class TopicInfo:
    """An internal topic of a topology."""

    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


@struct
class CopartitionGroup:
    """Topics that must be partitioned alike, by their index in the subtopology's lists."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology:
    """One subtopology of a streams group's topology."""

    subtopology_id: str
    source_topics: list[str]
    source_topic_regex: list[str]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[str]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@struct
class NamedTopicPartitions:
    """Partitions of one topic, which is given by id and name."""

    topic_id: Uuid
    topic_name: str
    partitions: list[Int32]


@struct
class NamedTopic:
    """A topic by id and name."""

    topic_id: Uuid
    topic_name: str


@data(versions="0", flexible="0+")
class TargetAssignmentMetadataValue:
    """The value of a record of type 12 or 20."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = since(0, tag=0, default=0)


@data(versions="0", flexible="0+")
class TargetAssignmentMemberValue:
    """The value of a record of type 13."""

    topic_partitions: list[CurrentTopicPartitions]


@data(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    """The value of a record of type 10."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]


@data(versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """The value of a record of type 11."""

    epoch: Int32
    metadata_hash: Int64


@data(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    """The value of a record of type 14."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentTopicPartitions]


@data(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """The value of a record of type 15."""

    initializing_topics: list[NamedTopicPartitions]
    initialized_topics: list[NamedTopicPartitions]
    deleting_topics: list[NamedTopic]


@data(versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    """The value of a record of type 17."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = since(0, tag=0, default=-1)
    last_assignment_configs: list[KeyValue] = since(0, tag=1, default_factory=list)


@data(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    """The value of a record of type 19."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Int32
    topology_epoch: Int32
    process_id: str
    user_endpoint: StreamsEndpoint | None
    client_tags: list[KeyValue]


@data(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    """The value of a record of type 21."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@data(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    """The value of a record of type 22."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]
    active_tasks_pending_revocation: list[TaskIds]
    standby_tasks_pending_revocation: list[TaskIds]
    warmup_tasks_pending_revocation: list[TaskIds]


@data(versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    """The value of a record of type 23."""

    epoch: Int32
    subtopologies: list[Subtopology] = field(default_factory=list)


VALUES: Final[Mapping[int, type]] = MappingProxyType(
    {
        10: ShareGroupMemberMetadataValue,
        11: ShareGroupMetadataValue,
        12: TargetAssignmentMetadataValue,
        13: TargetAssignmentMemberValue,
        14: ShareGroupCurrentMemberAssignmentValue,
        15: ShareGroupStatePartitionMetadataValue,
        17: StreamsGroupMetadataValue,
        19: StreamsGroupMemberMetadataValue,
        20: TargetAssignmentMetadataValue,
        21: StreamsGroupTargetAssignmentMemberValue,
        22: StreamsGroupCurrentMemberAssignmentValue,
        23: StreamsGroupTopologyValue,
    }
)
"""The schema of each record type's value."""


def decode_other(record_type: int, value: bytes) -> Any | None:
    """The decoded value of a record of this type; None if its type or version is not known here."""
    schema = VALUES.get(record_type)
    if schema is None or value[:VERSION_BYTES] != bytes(VERSION_BYTES):
        return None
    try:
        return decode(schema, 0, value, VERSION_BYTES)
    except DecodeError:
        return None
