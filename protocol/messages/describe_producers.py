"""DescribeProducers (key 61): which producers a partition knows, and whose transactions are open there (KIP-664).

There is one version, and it is flexible.
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int16, Int32, Int64


@struct
class DescribeProducersTopicRequest:
    """Partitions of one topic."""

    name: str
    partition_indexes: list[Int32]


@request(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    """The partitions whose producers are asked for."""

    topics: list[DescribeProducersTopicRequest]


@struct
class DescribedProducer:
    """One producer. The epochs have 32 bits here, whatever they have elsewhere; -1 stands for none."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse:
    """One partition."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: list[DescribedProducer] = field(default_factory=list)


@struct
class TopicResponse:
    """One topic and its partitions."""

    name: str
    partitions: list[PartitionResponse] = field(default_factory=list)


@response(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    """One entry per topic, in the order of the request."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
