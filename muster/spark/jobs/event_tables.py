"""Writes a batch of aggregated rows into its tables, for the two jobs on `__group_events`."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from muster.spark.batch_files import write_batch
from muster.spark.events.stateful import rows_of
from muster.spark.jobs.job import Step, StepResult, write_dead_letters
from muster.spark.tables import DEAD_LETTERS


def writer(job: str, *tables: str) -> Callable[[DataFrame, Step], StepResult]:
    """A job's `write` for these tables. It evaluates the batch once: its state must not be written twice."""

    def write(aggregated: DataFrame, step: Step) -> StepResult:
        aggregated.persist()
        try:
            for table in tables:
                write_batch(rows_of(aggregated, table), step.options.out, table, step.batch_id, job=job)
            return StepResult(write_dead_letters(rows_of(aggregated, DEAD_LETTERS.name), step, job))
        finally:
            aggregated.unpersist()

    return write
