"""The job `rebalances`: every rebalance that has ended, with its cause, and windows spent mostly on rebalances.

A rebalance gets its row in the batch that has its end; a storm gets its row when an event of any group is a
watermark's delay past its window's end.
"""

from __future__ import annotations

from typing import Final

from coordinator.history.events import TOPIC
from muster.spark.events.aggregators import RebalanceAggregatorFactory
from muster.spark.events.stateful import aggregate_events
from muster.spark.events.storms import StormRule
from muster.spark.jobs.event_tables import writer
from muster.spark.jobs.job import Job, PassPlan, Step
from muster.spark.jobs.kafka_source import read_topic
from muster.spark.tables import DEAD_LETTERS, REBALANCES, STORMS


def build(step: Step) -> PassPlan:
    """The plan of a pass, with the rows of all the job's tables as `aggregate_events` returns them."""
    rule = StormRule(step.options.storm_window_ms, step.options.storm_share)
    return PassPlan(
        aggregate_events(
            read_topic(step), RebalanceAggregatorFactory(rule), step.topic, step.options.watermark_ms
        )
    )


JOB: Final = Job(
    name="rebalances",
    topic=TOPIC,
    tables=(REBALANCES.name, STORMS.name, DEAD_LETTERS.name),
    says="rebalances with their causes, and storms of them",
    build=build,
    write=writer("rebalances", REBALANCES.name, STORMS.name),
)
