"""Job `members`: every session of a member that has ended, and how many came and went in each hour, by client.

A session gets its row in the batch that has its end, an hour when some event, of any group, is a watermark's delay
past it.
"""

from __future__ import annotations

from typing import Final

from coordinator.history.events import TOPIC
from muster.spark.events.aggregators import MemberAggregatorFactory
from muster.spark.events.stateful import aggregate_events
from muster.spark.jobs.event_tables import writer
from muster.spark.jobs.job import Job, PassPlan, Step
from muster.spark.jobs.kafka_source import read_topic
from muster.spark.tables import CHURN, DEAD_LETTERS, MEMBERS


def build(step: Step) -> PassPlan:
    """Rows of all its tables, as `aggregate_events` has them."""
    return PassPlan(
        aggregate_events(read_topic(step), MemberAggregatorFactory(), step.topic, step.options.watermark_ms)
    )


JOB: Final = Job(
    name="members",
    topic=TOPIC,
    tables=(MEMBERS.name, CHURN.name, DEAD_LETTERS.name),
    says="sessions of members, and churn by client",
    build=build,
    write=writer("members", MEMBERS.name, CHURN.name),
)
