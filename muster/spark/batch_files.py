"""Writes a micro-batch's rows of a table as files named by the batch's number, so that a repeat replaces them.

A day's rows of a batch are one file, `day=.../JOB-000000000042.parquet`. Spark writes the files under
`_staging`, where no reader looks; then each is moved into its place by one rename. So whatever reads a table
meanwhile

- sees no file that is not whole, and of one day either all rows of a batch or none. The days of a batch, of which
  there is one as a rule, and its tables come one after the other;
- sees no row twice: a batch that a crash makes Spark repeat has the same number, so its files take the places of
  those of the first time, and days that it now has nothing for are cleared (`_batches` remembers which they were).

On a file system with POSIX rename (any local one, NFS) the old file and the new change places in one step. HDFS
and object stores have no such step: there the old one is deleted first, and a reader may miss those rows for a
moment; on an object store a rename is a copy, which others see when it is whole. Hadoop's own rename of a
folder, on which Spark's writer relies, has none of this: a table would show half of a batch while it is
written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muster.spark.hadoop_files import HadoopFiles
from muster.spark.tables import DAY, TABLES, spark_schema

STAGING: Final = "_staging"
BATCHES: Final = "_batches"
DAYS_AT_ONCE: Final = 32  # An open Parquet file has some MB of buffers.
_DAY_US: Final = 86_400_000_000


def write_batch(frame: DataFrame, out: str | Path, table: str, batch_id: int, *, job: str) -> int:
    """Write the rows of `frame` as `job`'s batch `batch_id` of `table`; returns the number of files.

    `frame` has the table's columns, in any order and perhaps others beside them, and is evaluated once. If the
    batch was written before, wholly or in part, it is replaced. Only the job's newest batch may be written again,
    which is the one that Spark may repeat. Raises Spark's exceptions, and OSError for what the files refuse.
    """
    spark = frame.sparkSession
    files = HadoopFiles(spark, str(out).rstrip("/"))
    staged = f"{STAGING}/{job}/{table}"
    _stage(frame, files.url(staged), table)
    days = files.names(staged, "day=")
    ledger = f"{BATCHES}/{job}/{table}.json"
    before = files.read_json(ledger)
    old_days = set(before["days"]) if before and before["batch_id"] == batch_id else set()
    if days or old_days:
        files.write_json(ledger, {"batch_id": batch_id, "days": sorted(old_days | set(days))})
    name = f"{job}-{batch_id:012d}.parquet"
    for day in days:
        (part,) = files.names(f"{staged}/{day}", "part-")
        files.move(f"{staged}/{day}/{part}", f"{table}/{day}/{name}")
    files.remove(f"{table}/{day}/{name}" for day in old_days - set(days))
    files.remove([staged])
    return len(days)


def _stage(frame: DataFrame, url: str, table: str) -> None:
    """Write one file per day, with the declared columns."""
    fields = spark_schema(table).fields
    columns = [F.col(field.name).cast(field.dataType).alias(field.name) for field in fields]
    day_of = F.unix_micros(F.col(TABLES[table].day_of))
    day = F.date_from_unix_date(F.floor(day_of / _DAY_US).cast("int"))  # In UTC, whatever the session's is.
    # Readers then know the time zone and the unit; Spark's default, INT96, has neither.
    frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # One open file per day: otherwise Spark sorts the rows by day first, and millions of them spill to disk.
    frame.sparkSession.conf.set("spark.sql.maxConcurrentOutputFileWriters", DAYS_AT_ONCE)
    rows = frame.select(*columns, day.alias(DAY)).repartition(DAY)
    rows.write.mode("overwrite").partitionBy(DAY).parquet(url)
