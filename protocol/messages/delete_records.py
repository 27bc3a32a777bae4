"""DeleteRecords (key 21): let the records below an offset go (KIP-107).

| version | what is new |
|---|---|
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | flexible |
"""

from dataclasses import field
from typing import Final

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int16, Int32, Int64

HIGH_WATERMARK: Final = -1
"""An offset that stands for the end of what may be read."""


@struct
class DeleteRecordsPartition:
    """One partition, and the first offset to keep."""

    partition_index: Int32
    offset: Int64


@struct
class DeleteRecordsTopic:
    """One topic and its partitions."""

    name: str
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@request(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """The new first offset of each partition; `timeout_ms` is how long to wait for other replicas."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult:
    """The partition's new first offset (`low_watermark`), or -1 and the error."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    """One topic of the request."""

    name: str
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@response(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """One entry per topic of the request."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)
