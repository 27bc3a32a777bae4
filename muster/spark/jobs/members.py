"""The job `members`: every session of a member that has ended, and members that came and went per hour and client.

A session gets its row in the batch that has its end; an hour gets its row when an event of any group is a
watermark's delay past its end.
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
    """The plan of a pass, with the rows of all the job's tables as `aggregate_events` returns them."""
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
