"""The job `commits`: how often each group commits, by the minute, and who does so more often than anybody needs.

Every commit is a record for each of its partitions in `__consumer_offsets`. A group is noisy in a minute in which
one of its partitions is committed more than `--noisy-per-second` times a second on average: a client that commits
after every record. A compacted history has fewer commits than there were; a running job sees all of them.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muster.spark.batch_files import write_batch
from muster.spark.jobs.job import Job, Step, Wrote, write_dead_letters
from muster.spark.jobs.minutes import (
    TOPIC,
    Snapshot,
    States,
    advance,
    build,
    figures_of,
    merged,
    read_up_to,
    seen_in,
)
from muster.spark.tables import COMMITS, DEAD_LETTERS

NAME = "commits"


def write(batch: DataFrame, step: Step) -> Wrote:
    """Add a batch's commits to the open minutes, and write those that are over by it."""
    states = States(step.spark, step.options.out, NAME)
    before = states.before(step.batch_id)
    batch = batch.persist()
    try:
        seen = seen_in(batch, before)
        after = advance(before, step, seen.newest_us, read_up_to(step, NAME))
        letters = 0
        if seen.dead_letters:
            letters = write_dead_letters(batch, replace(step, batch_id=after.sequence), NAME)
        _close(states, figures_of(batch).unionByName(states.rows(before)), before, after, step)
    finally:
        batch.unpersist()
    notes = (f"{seen.late:,} commits came too late to be counted",) if seen.late else ()
    return Wrote(letters, max(seen.newest_us.values(), default=0) // 1000 or None, notes)


def close(step: Step) -> Wrote:
    """Write the minutes that are over though nothing more was committed."""
    states = States(step.spark, step.options.out, NAME)
    before = states.before(step.batch_id + 1)
    after = advance(before, step, {}, step.log_ends)
    if before.sequence >= 0 and after.closed_until_us > before.closed_until_us:
        _close(states, states.rows(before), before, after, step)
    return Wrote()


def _close(states: States, rows: DataFrame, before: Snapshot, after: Snapshot, step: Step) -> None:
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


def by_group(rows: DataFrame, noisy_per_second: float) -> DataFrame:
    """Rows per key and minute to rows of the table."""
    per_minute = merged(rows).where(F.col("commits") > 0).groupBy("minute", "group_id")
    return per_minute.agg(
        F.sum("commits").alias("commits"),
        F.count("*").alias("partitions"),
        (F.sum("commits") / 60).alias("per_second"),
        (F.max("commits") / 60 > noisy_per_second).alias("noisy"),
    )


JOB = Job(
    NAME,
    TOPIC,
    (COMMITS.name, DEAD_LETTERS.name),
    "commits per group and minute, and the noisy groups",
    build,
    write,
    close,
)
