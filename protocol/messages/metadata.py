"""Metadata (key 3): the brokers, the topics, and who leads each partition.

Asking for a topic may create it. A null list of topics asks for all; before version 1, where the
list could not be null, the empty list did.

| version | what is new |
|---|---|
| 1 | racks, the controller, internal topics; null means all topics, empty means none |
| 2 | the cluster id (KIP-78) |
| 3 | throttle time in the answer |
| 4 | the client says whether a topic may be created |
| 5 | replicas that are offline (KIP-112) |
| 6 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 7 | the leader epoch (KIP-320) |
| 8 | authorised operations (KIP-430) |
| 9 | flexible |
| 10 | topic ids in the answer (KIP-516); asking by id is not yet to be relied on |
| 11 | the cluster's operations leave, DescribeCluster has them (KIP-700) |
| 12 | topics may be asked for by id |
| 13 | an error for the whole answer (KIP-1102) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int16, Int32, Uuid
from protocol.messages.authorized_operations import OPERATIONS_NOT_ASKED_FOR


@struct
class MetadataRequestTopic:
    """One topic; a null name goes with a topic id."""

    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    name: str | None = since(0, default="", nullable="10+")


@request(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """The topics asked for, and what else the client wants to know."""

    topics: list[MetadataRequestTopic] | None = since(0, nullable="1+", default_factory=list)
    allow_auto_topic_creation: bool = since(4, default=True)
    include_cluster_authorized_operations: bool = since(8, until=10, default=False)
    include_topic_authorized_operations: bool = since(8, default=False)


@struct
class MetadataResponseBroker:
    """One broker, at the address of the listener that was asked."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = since(1, default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    """One partition; leader -1 means that there is none."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = since(5, default_factory=list, ignorable=True)


@struct
class MetadataResponseTopic:
    """One topic. Asked for by an unknown id its name is null; by an unknown name its id is zero."""

    error_code: Int16 = 0
    name: str | None = since(0, default="", nullable="12+")
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    is_internal: bool = since(1, default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = since(8, default=OPERATIONS_NOT_ASKED_FOR)


@response(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    """The cluster as the asker may see it."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)

    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(default_factory=list)

    cluster_authorized_operations: Int32 = since(8, until=10, default=OPERATIONS_NOT_ASKED_FOR)
    error_code: Int16 = since(13, default=0, ignorable=True)
