"""The state of the jobs by the minute: which minutes of a topic are over, and what is kept of the others.

Spark's watermark is the newest time of all partitions. Over a history of several partitions, which are read
side by side but not in step, it would call minutes over that one of them has not reached, and drop its records
in silence. Here a minute is over when every partition of the topic has passed it by the watermark's delay, and
a partition that has been read to its end has passed the time at which that was its end. So a minute ends also
when no group commits.

The state is a sequence of snapshots, `_state/JOB/000000000042`: rows as Parquet, and what else there is to know
as JSON beside them, which is written last. A step reads the newest one from before its batch, and writes the
next. Its tables carry the number of the snapshot: a step that is repeated comes from the same one, and replaces
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muster.spark.arrow_types import ddl_of
from muster.spark.decoding.offsets import FIGURES, MINUTE_US
from muster.spark.hadoop_files import HadoopFiles
from muster.spark.jobs.job import Step

STATE: Final = "_state"
KEY: Final = ("group_id", "topic", "partition")
ROWS: Final = ddl_of(FIGURES)
"""Columns of rows by key and minute: `commits` without tombstones, `committed_offset` null after a tombstone."""


@dataclass(frozen=True, slots=True)
class MinutesSnapshot:
    """The state after a step, without its rows. Minutes that begin before `closed_until_us` are over."""

    sequence: int = -1
    batch_id: int = -1
    closed_until_us: int = 0
    clocks_us: dict[str, int] = field(default_factory=dict)  # By partition: no older record will come.


class SnapshotStore:
    """The stored snapshots of a job. The newest two are kept, as Spark may repeat the newest batch."""

    def __init__(self, spark: SparkSession, out: str, job: str) -> None:
        self._spark = spark
        self._folder = f"{STATE}/{job}"
        self._files = HadoopFiles(spark, out)

    def before(self, batch_id: int) -> MinutesSnapshot:
        """The newest snapshot of a batch before `batch_id`; an empty one if there is none."""
        for name in reversed(self._files.names(self._folder)):
            if name.endswith(".json"):
                found = MinutesSnapshot(**self._files.read_json(f"{self._folder}/{name}"))
                if found.batch_id < batch_id:
                    return found
        return MinutesSnapshot()

    def rows(self, snapshot: MinutesSnapshot) -> DataFrame:
        if snapshot.sequence < 0:
            return self._spark.createDataFrame([], ROWS)
        return self._spark.read.schema(ROWS).parquet(self._files.url(self._name(snapshot.sequence)))

    def save(self, snapshot: MinutesSnapshot, rows: DataFrame) -> None:
        """Store `snapshot` and `rows` as the newest, and remove snapshots that no step can read any more."""
        name = self._name(snapshot.sequence)
        rows.write.mode("overwrite").parquet(self._files.url(name))
        self._files.write_json(f"{name}.json", asdict(snapshot))
        old = f"{snapshot.sequence - 1:012d}"
        names = self._files.names(self._folder)
        self._files.remove(f"{self._folder}/{each}" for each in names if each.partition(".")[0] < old)

    def _name(self, sequence: int) -> str:
        return f"{self._folder}/{sequence:012d}"


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Totals of one batch of `decoding.offsets`, apart from its figures."""

    newest_us: Mapping[str, int]  # Newest record's time by source partition.
    records: int
    dead_letters: int
    late: int  # Commits of minutes that were closed.


def batch_totals(batch: DataFrame, snapshot: MinutesSnapshot) -> BatchTotals:
    """Compute the totals in one pass over the batch, which should be persisted."""
    is_late = F.unix_micros("minute") < snapshot.closed_until_us
    found = batch.groupBy("about.source_partition").agg(
        F.max(F.when(F.col("about.reason").isNull(), F.unix_micros("about.seen_at"))).alias("newest"),
        F.sum("about.records").alias("records"),
        F.count("about.reason").alias("dead_letters"),
        F.sum(F.when(is_late, F.col("commits")).otherwise(0)).alias("late"),
    )
    rows = found.collect()
    newest = {str(row.source_partition): row.newest for row in rows if row.source_partition is not None}
    return BatchTotals(
        {partition: us for partition, us in newest.items() if us is not None},
        sum(row.records or 0 for row in rows),
        sum(row.dead_letters for row in rows),
        sum(row.late or 0 for row in rows),
    )


def advance(
    snapshot: MinutesSnapshot, step: Step, newest_us: Mapping[str, int], read: Mapping[int, int]
) -> MinutesSnapshot:
    """The next snapshot: each partition's clock as known now, and the minutes that are over by these clocks."""
    clocks = dict(snapshot.clocks_us)
    for partition, end in step.log_ends.items():
        name = str(partition)
        known = [us for us in (clocks.get(name), newest_us.get(name)) if us is not None]
        if read.get(partition, 0) >= end:
            known.append(step.as_of_ms * 1000)
        if known:
            clocks[name] = max(known)
    closed_until_us = snapshot.closed_until_us
    if clocks and all(str(partition) in clocks for partition in step.log_ends):
        passed_us = min(clocks.values()) - step.options.watermark_ms * 1000
        closed_until_us = max(closed_until_us, passed_us // MINUTE_US * MINUTE_US)
    return replace(
        snapshot,
        sequence=snapshot.sequence + 1,
        batch_id=step.batch_id,
        closed_until_us=closed_until_us,
        clocks_us=clocks,
    )


def merged(rows: DataFrame) -> DataFrame:
    """Merge rows of the same key and minute into one: the sum of the commits, the newest offset."""
    newest = F.max_by(F.struct("committed_offset"), "newest_offset")  # A struct, since max_by skips nulls.
    return (
        rows.groupBy("minute", *KEY)
        .agg(
            F.sum("commits").alias("commits"),
            newest.alias("at"),
            F.max("newest_offset").alias("newest_offset"),
        )
        .select(
            "minute", *KEY, "commits", F.col("at.committed_offset").alias("committed_offset"), "newest_offset"
        )
    )


def figures_of(batch: DataFrame) -> DataFrame:
    """The rows of a batch that have a group, in the columns of ROWS."""
    columns: list[Any] = FIGURES.names
    return batch.where(F.col("group_id").isNotNull()).select(*columns)
