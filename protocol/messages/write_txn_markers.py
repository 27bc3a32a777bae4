"""WriteTxnMarkers (key 27): a transaction coordinator has the ends of transactions written to partitions (KIP-98).

Version 0 is gone since Kafka 4.0.

| version | what is new |
|---|---|
| 1 | the baseline: flexible |
| 2 | the transaction version of each marker (KIP-1228) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32, Int64


@struct
class WritableTxnMarkerTopic:
    """Partitions of one topic that the marker goes to."""

    name: str
    partition_indexes: list[Int32]


@struct
class WritableTxnMarker:
    """One marker; `transaction_result` True is a commit. From `transaction_version` 2 on the epoch was bumped."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = since(2, default=0, ignorable=True)


@request(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    """The markers to write."""

    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    """One topic and its partitions."""

    name: str
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@struct
class WritableTxnMarkerResult:
    """The results of one producer's markers."""

    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@response(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    """One entry per producer of the request; there is no throttle time."""

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
