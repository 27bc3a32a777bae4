"""The job `lag`: how far each group was behind in each partition at the end of each minute.

A group stands where it last committed until it commits again, however long that takes: so one that has stopped
is seen falling behind. Where it stands is carried from batch to batch in the job's state, which has a row for
each partition of each group, until a tombstone takes it away (the group or topic was deleted, or its offsets
expired) or nothing was committed for FORGOTTEN_DAYS. Log ends are asked of the cluster that the offsets are of,
when a minute is over (`ends`). Where a topic is not there any more they are null, and so is the lag.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from muster.spark.batch_files import write_batch
from muster.spark.decoding import lag
from muster.spark.decoding.offsets import MINUTE_US
from muster.spark.jobs.ends import LogEnds, MinuteEnds
from muster.spark.jobs.job import Step
from muster.spark.jobs.marks import frame_of, marks_of
from muster.spark.jobs.minute_job import minute_job
from muster.spark.jobs.minutes import KEY, MinutesSnapshot, SnapshotStore, merged
from muster.spark.tables import LAG, LOG_ENDS
from protocol.topic_partition import TopicPartition

NAME: Final = "lag"
FORGOTTEN_DAYS: Final = 30
"""A group that has not committed for longer gets no rows; Kafka has expired its offsets long before."""
LOOK_BACK_MINUTES: Final = 60  # Log ends before the job's first minute, for its seconds of lag.
_DAY_US: Final = 24 * 60 * MINUTE_US
NAMES_SHOWN_MAX: Final = 5


def _finish(
    states: SnapshotStore, rows: DataFrame, before: MinutesSnapshot, after: MinutesSnapshot, step: Step
) -> tuple[str, ...]:
    known = merged(rows).persist()
    try:
        notes: tuple[str, ...] = ()
        if after.closed_until_us > before.closed_until_us:
            spans = spans_of(known, before.closed_until_us, after.closed_until_us)
            notes = _write_minutes(spans, before, after, step)
        states.save(after, carried(known, after.closed_until_us))
    finally:
        known.unpersist()
    return notes


def spans_of(rows: DataFrame, from_us: int, until_us: int) -> DataFrame:
    """Rows per key and minute as `decoding.lag.SPANS` from `from_us` to `until_us`, none for tombstones."""
    minute_us = F.unix_micros("minute")
    by_key = Window.partitionBy(*KEY).orderBy("minute")
    spans = rows.where(minute_us < until_us).select(
        *KEY,
        "committed_offset",
        F.greatest(minute_us, F.lit(from_us)).alias("from_us"),
        F.least(
            F.coalesce(F.lead(minute_us).over(by_key), F.lit(until_us)), minute_us + FORGOTTEN_DAYS * _DAY_US
        ).alias("until_us"),
        (minute_us >= from_us).alias("is_commit"),
    )
    return spans.where((F.col("until_us") > F.col("from_us")) & F.col("committed_offset").isNotNull())


def carried(rows: DataFrame, until_us: int) -> DataFrame:
    """The rows for the next step: all of minutes that are not over, and the newest older one of each key."""
    minute_us = F.unix_micros("minute")
    is_open = minute_us >= until_us
    newest_first = Window.partitionBy(*KEY, is_open).orderBy(F.desc("newest_offset"))
    ranked = rows.withColumn("rank", F.row_number().over(newest_first))
    stands = F.col("committed_offset").isNotNull() & (minute_us >= until_us - FORGOTTEN_DAYS * _DAY_US)
    return ranked.where(is_open | ((F.col("rank") == 1) & stands)).drop("rank")


def _write_minutes(
    spans: DataFrame, before: MinutesSnapshot, after: MinutesSnapshot, step: Step
) -> tuple[str, ...]:
    spans = spans.persist()
    try:
        wanted = spans.groupBy("topic", "partition").agg(F.min("from_us").alias("from_us")).collect()
        if not wanted:
            return ()
        first_us = min(row.from_us for row in wanted)
        if before.sequence < 0:
            first_us -= LOOK_BACK_MINUTES * MINUTE_US
        partitions = [TopicPartition(row.topic, row.partition) for row in wanted]
        found = _ends(step, first_us, after.closed_until_us, partitions)
        marks = marks_of(step, found, first_us, after)
        figures = spans.select(*lag.SPANS).mapInArrow(lag.rows(marks), lag.DDL)
        write_batch(figures, step.options.out, LAG.name, after.sequence, job=NAME)
        write_batch(frame_of(step.spark, found), step.options.out, LOG_ENDS.name, after.sequence, job=NAME)
    finally:
        spans.unpersist()
    return _notes(found)


def _ends(step: Step, first_us: int, until_us: int, wanted: list[TopicPartition]) -> MinuteEnds:
    """The log ends at the end of each minute from `first_us` to `until_us`."""
    times_ms = range((first_us + MINUTE_US) // 1000, until_us // 1000 + 1, MINUTE_US // 1000)
    return LogEnds(step.options.bootstrap, step.options.kafka).at(times_ms, wanted)


def _notes(found: MinuteEnds) -> tuple[str, ...]:
    notes = []
    if found.missing:
        names = sorted(found.missing)
        more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
        notes.append(f"no log ends of topics that are not there: {', '.join(names[:NAMES_SHOWN_MAX])}{more}")
    if found.skipped:
        notes.append(f"{found.skipped:,} log ends were not asked for: too many at once")
    return tuple(notes)


JOB = minute_job(
    NAME,
    (LAG.name, LOG_ENDS.name),
    "lag in records and seconds per group, topic, partition and minute",
    _finish,
    late=None,
)
