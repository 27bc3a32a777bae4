"""ListOffsets (key 2): find an offset by timestamp, or by what the special timestamps stand for.

Version 0, which listed several offsets per partition, is gone since Kafka 4.0.

| version | what is new |
|---|---|
| 1 | the baseline: one offset per partition, and its timestamp (KIP-79) |
| 2 | the isolation level (KIP-98); throttle time in the answer |
| 3 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 4 | leader epochs (KIP-320) |
| 5 | clients understand OFFSET_NOT_AVAILABLE (KIP-207) |
| 6 | flexible |
| 7 | MAX_TIMESTAMP (KIP-734) |
| 8 | EARLIEST_LOCAL (KIP-405) |
| 9 | LATEST_TIERED (KIP-1005) |
| 10 | how long the broker may look into remote storage (KIP-1075) |
| 11 | EARLIEST_PENDING_UPLOAD (KIP-1023) |
"""

from dataclasses import field
from typing import Final

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32, Int64

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


@struct
class ListOffsetsPartition:
    """`timestamp` in ms since the epoch (the first record not older), or a special one from above."""

    partition_index: Int32
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64


@struct
class ListOffsetsTopic:
    """One topic and its partitions."""

    name: str
    partitions: list[ListOffsetsPartition]


@request(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    """The offsets asked for; under read committed LATEST is the last stable offset."""

    replica_id: Int32 = -1  # Kafka's schema has no default here; -1 is what consumers send.
    isolation_level: Int8 = since(2, default=0)  # 0 read uncommitted, 1 read committed.
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = since(10, default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    """The offset and timestamp found for one partition; -1 and -1 if no record is that young."""

    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1  # Known only where a timestamp was searched for.
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


@struct
class ListOffsetsTopicResponse:
    """One topic and its partitions."""

    name: str
    partitions: list[ListOffsetsPartitionResponse]


@response(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    """One entry per partition of the request."""

    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
