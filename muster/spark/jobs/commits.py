"""The job `commits`: how often each group commits, by the minute, and which groups commit more often than useful.

Every commit is a record for each of its partitions in `__consumer_offsets`. A group is noisy in a minute in which
one of its partitions is committed more than `--noisy-per-second` times a second on average: a client that commits
after every record. A compacted history has fewer commits than there were; a running job sees all of them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muster.spark.batch_files import write_batch
from muster.spark.jobs.job import Step
from muster.spark.jobs.minute_job import minute_job
from muster.spark.jobs.minutes import MinutesSnapshot, SnapshotStore, merged
from muster.spark.tables import COMMITS

NAME: Final = "commits"


def _finish(
    states: SnapshotStore, rows: DataFrame, before: MinutesSnapshot, after: MinutesSnapshot, step: Step
) -> tuple[str, ...]:
    minute = F.unix_micros("minute")
    closed = rows.where((minute >= before.closed_until_us) & (minute < after.closed_until_us))
    write_batch(
        by_group(closed, step.options.noisy_per_second),
        step.options.out,
        COMMITS.name,
        after.sequence,
        job=NAME,
    )
    states.save(after, merged(rows.where(minute >= after.closed_until_us)))
    return ()


def by_group(rows: DataFrame, noisy_per_second: float) -> DataFrame:
    """Sum rows per key and minute up to rows of the table, per group and minute."""
    per_minute = merged(rows).where(F.col("commits") > 0).groupBy("minute", "group_id")
    return per_minute.agg(
        F.sum("commits").alias("commits"),
        F.count("*").alias("partitions"),
        (F.sum("commits") / 60).alias("per_second"),
        (F.max("commits") / 60 > noisy_per_second).alias("noisy"),
    )


JOB = minute_job(
    NAME,
    (COMMITS.name,),
    "commits per group and minute, and the noisy groups",
    _finish,
    late="commits came too late to be counted",
)
