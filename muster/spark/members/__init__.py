"""Spark's executors as members of a consumer group.

`run` starts a barrier stage, so all of its tasks run at once: each is a stock consumer and a real member of the
group on the coordinator, for lag tools and for other members alike. What they promise is in docs/spark-members.md.
`driver` is what runs here, `member` what runs in the executors. It works on any Kafka cluster.
"""

from muster.spark.members.driver import run, stop
from muster.spark.members.plan import MemberContext, MembersError, SupersededError
from muster.spark.members.report import (
    MemberRebalance,
    MemberReport,
    OffsetRange,
    RebalanceKind,
    RunReport,
)
from protocol.topic_partition import TopicPartition

__all__ = [
    "MemberContext",
    "MemberRebalance",
    "MemberReport",
    "MembersError",
    "OffsetRange",
    "RebalanceKind",
    "RunReport",
    "SupersededError",
    "TopicPartition",
    "run",
    "stop",
]
