"""What a job consists of: a topic, how its records become rows, and how a batch of rows is written to tables.

A job runs as a Structured Streaming query with a checkpoint: `build` makes the plan of a pass, `write` gets the
rows of each micro-batch. Spark repeats the newest batch after a crash, with the same records and number, so it
goes through `batch_files.write_batch` alone. A record that cannot be used is a row of the same plan, in the
columns of the table `dead_letters`: the topic is read once. A frame that goes to two tables is persisted by
`write`, or Spark reads the records twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muster.spark.batch_files import write_batch
from muster.spark.jobs.options import JOBS, RunOptions
from muster.spark.tables import DEAD_LETTERS


@dataclass(frozen=True, slots=True)
class Step:
    """The argument of `write` and `close`: the batch, and what was known of the topic before the pass began."""

    spark: SparkSession
    topic: str
    batch_id: int
    options: RunOptions
    as_of_ms: int  # Every record that was written before this time is below `log_ends`.
    log_ends: Mapping[int, int]  # By partition, open transactions included.


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of a step, for the line that is printed about it."""

    dead_letters: int = 0
    records: int | None = None  # Number of records; None: as many as Spark's source had rows.
    newest_ms: int | None = None  # Time of the newest record; None: as Spark's watermark has it.
    notes: tuple[str, ...] = ()  # Sentences to print.


@dataclass(frozen=True, slots=True)
class PassPlan:
    """The plan of a pass. Its query ends by itself if `until` is None; else it is stopped at these offsets."""

    rows: DataFrame
    until: Mapping[int, int] | None = None  # End offset by partition.


@dataclass(frozen=True, slots=True)
class Job:
    """A job. `build` returns the plan of a pass over the topic's committed records; None: there is nothing new.

    `write` is called with each micro-batch of its rows, in order. `close`, if there is one, is called when a pass
    has read all that was there as it began, with the number of the newest batch (-1: none yet).
    """

    name: str
    topic: str
    tables: tuple[str, ...]
    says: str
    build: Callable[[Step], PassPlan | None]
    write: Callable[[DataFrame, Step], StepResult]
    close: Callable[[Step], StepResult] | None = None
    prepare: Callable[[SparkSession], None] | None = None  # Called once per run, before the first pass.


def load_job(name: str) -> Job:
    """Import and return the job of that name. Raises KeyError if there is none."""
    job = import_module(JOBS[name]).JOB
    assert isinstance(job, Job), f"{JOBS[name]}.JOB is no Job"
    return job


def write_dead_letters(rows: DataFrame, step: Step, job: str) -> int:
    """Write the `rows` that have a `reason` to the table; return their number. `rows` should be persisted."""
    columns = [column.name for column in DEAD_LETTERS.columns if column.name != "job"]
    dead_letters = rows.where(F.col("reason").isNotNull()).select(F.lit(job).alias("job"), *columns)
    count = dead_letters.count()
    if count:
        write_batch(dead_letters, step.options.out, DEAD_LETTERS.name, step.batch_id, job=job)
    return count
