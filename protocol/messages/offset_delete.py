"""OffsetDelete (key 47): forget a group's offsets for topics it no longer reads (KIP-496).

There is one version, and it is not flexible.
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int16, Int32


@struct
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    """One topic and its partitions."""

    name: str
    partitions: list[OffsetDeleteRequestPartition]


@request(key=47, versions="0", flexible="none")
class OffsetDeleteRequest:
    """The offsets to forget."""

    group_id: str
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    """The result for one partition; an offset that was not there is no error."""

    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    """One topic and its partitions."""

    name: str
    partitions: list[OffsetDeleteResponsePartition]


@response(key=47, versions="0", flexible="none")
class OffsetDeleteResponse:
    """One entry per topic; no entries with an error for the group, which comes before the throttle time."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
