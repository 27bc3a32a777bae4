"""The request of DescribeQuorum (key 55). The answer, with parts of the same names, is in `describe_quorum`."""

from dataclasses import field

from protocol.codec.codec import request, struct
from protocol.codec.primitives import Int32


@struct
class PartitionData:
    """One partition asked about."""

    partition_index: Int32


@struct
class TopicData:
    """One topic asked about: only the metadata log has a quorum."""

    topic_name: str
    partitions: list[PartitionData] = field(default_factory=list)


@request(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """The partitions to describe."""

    topics: list[TopicData] = field(default_factory=list)
