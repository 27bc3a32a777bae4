"""DescribeLogDirs (key 35): where partitions are kept, and how large they are (KIP-113).

Version 0 is gone since Kafka 4.0.

| version | what is new |
|---|---|
| 1 | the baseline |
| 2 | flexible |
| 3 | an error of the whole answer (KIP-784) |
| 4 | the size of the volume and what is free of it (KIP-827) |
| 5 | whether new partitions are kept out of a directory |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32, Int64


@struct
class DescribableLogDirTopic:
    """One topic and its partitions asked about."""

    topic: str
    partitions: list[Int32] = field(default_factory=list)


@request(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    """The partitions asked about; null asks for all."""

    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    """One partition as it lies in a directory."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64 = 0
    is_future_key: bool = False


@struct
class DescribeLogDirsTopic:
    """One topic and its partitions."""

    name: str
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@struct
class DescribeLogDirsResult:
    """One directory; its sizes are those of the volume it is on."""

    error_code: Int16 = 0
    log_dir: str
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: bool = since(5, default=False, ignorable=True)


@response(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    """One entry per directory."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = field(default_factory=list)
