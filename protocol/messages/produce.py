"""Produce (key 0): append record batches to partitions.

With acks 0 there is no answer at all. Versions 0 to 2 carry older record formats and are refused
since Kafka 4.0; brokers still report the API from 0, since librdkafka would else switch off features
(KAFKA-18659).

| version | what is new |
|---|---|
| 3 | the baseline: the transactional id (KIP-98), record batches of magic 2 |
| 4 | clients understand KAFKA_STORAGE_ERROR (KIP-112) |
| 5 | the log start offset in the answer |
| 6 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 7 | batches may be compressed with zstd (KIP-110) |
| 8 | which records of a refused batch were at fault, and a message (KIP-467) |
| 9 | flexible |
| 10 | a wrong leader names the right one, and its address (KIP-951) |
| 11 | clients understand TRANSACTION_ABORTABLE (KIP-890) |
| 12 | producing adds the partition to the transaction (KIP-890) |
| 13 | topics go by id and no longer by name (KIP-516) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import ZERO_UUID, Int16, Int32, Int64, Records, Uuid
from protocol.messages.shared import LeaderIdAndEpoch, NodeEndpoint


@struct
class PartitionProduceData:
    """The records for one partition: exactly one batch, by Kafka's rule."""

    index: Int32
    records: Records


@struct
class TopicProduceData:
    """One topic: `name` up to version 12, `topic_id` after."""

    name: str = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


@request(key=0, versions="3-13", flexible="9+")
class ProduceRequest:
    """Batches to append. `acks`: 0 no answer, 1 the leader has it, -1 all in-sync replicas have it."""

    transactional_id: str | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    """One record that made its batch be refused, by its place in the batch."""

    batch_index: Int32
    batch_index_error_message: str | None = None


@struct
class PartitionProduceResponse:
    """Where the batch went, or why it was refused (base offset -1 then)."""

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = -1  # -1: the topic keeps the producer's timestamps.
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)

    record_errors: list[BatchIndexAndErrorMessage] = since(8, default_factory=list, ignorable=True)
    error_message: str | None = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = since(10, tag=0, default_factory=LeaderIdAndEpoch)


@struct
class TopicProduceResponse:
    """One topic, named as the request named it."""

    name: str = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


@response(key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    """One entry per partition of the request. Unlike elsewhere the throttle time comes last."""

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = since(10, tag=0, default_factory=list)
