"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, so that a reader sees a cut log.

Versions 0 and 1 are gone since Kafka 4.0.

| version | what is new |
|---|---|
| 2 | the baseline: the epoch the asker believes in, for fencing (KIP-320) |
| 3 | the asker's replica id |
| 4 | flexible |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32, Int64


@struct
class OffsetForLeaderPartition:
    """The epoch whose end is asked for."""

    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    """One topic and its partitions."""

    topic: str
    partitions: list[OffsetForLeaderPartition]


@request(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """The epochs asked about. Replica -1 is a consumer; -2, the default, may look past the high watermark."""

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    """The last epoch at or below the asked one and the offset after its last record; -1 if none."""

    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    """One topic and its partitions."""

    topic: str
    partitions: list[EpochEndOffset]


@response(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """One entry per partition of the request."""

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
