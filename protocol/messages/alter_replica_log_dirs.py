"""AlterReplicaLogDirs (key 34): move replicas between the log directories of the broker that is asked (KIP-113).

| version | what is new |
|---|---|
| 2 | flexible |
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int16, Int32


@struct
class AlterReplicaLogDirTopic:
    """One topic and its partitions to move."""

    name: str
    partitions: list[Int32] = field(default_factory=list)


@struct
class AlterReplicaLogDir:
    """One log directory, by its absolute path, and the partitions to move there."""

    path: str
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@request(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """The log directories, each with the partitions to move there."""

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@struct
class AlterReplicaLogDirPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    """One topic and its partitions."""

    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


@response(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """One entry per topic of the request."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)
