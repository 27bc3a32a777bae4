"""Reads a topic by Spark's own Kafka source, for the jobs whose state Spark keeps, group by group."""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import DataFrame

from muster.spark.jobs.job import Step

BATCH_OFFSETS: Final = 2_000_000
# After each poll Spark asks for the log's begin and end, which drops what its consumer has fetched beyond the 500
# records of a default poll: the same bytes are fetched again and again. So polls are few and large.
_FETCHING: Final = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(2 << 20)}


def read_topic(step: Step) -> DataFrame:
    """All columns of the source, from the earliest record on; records that are already deleted are skipped.

    Spark finds the offsets through an admin client that drops internal topics without a word, `__group_events`
    among them; its older way, through a consumer, does not. The partitions are assigned, so there is no group.
    """
    options = step.options
    step.spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    source = step.spark.readStream.format("kafka").option("kafka.bootstrap.servers", options.bootstrap)
    source = source.options(**_FETCHING)
    source = source.options(**{f"kafka.{name}": value for name, value in options.source.items()})
    return source.options(
        **{
            "assign": json.dumps({step.topic: sorted(step.log_ends)}),
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
            "kafka.isolation.level": "read_committed",
            "maxOffsetsPerTrigger": str(options.max_offsets_per_batch or BATCH_OFFSETS),
        }
    ).load()
