"""The common part of the jobs by the minute: each batch of figures advances their state and closes minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from pyspark.sql import DataFrame

from muster.spark.jobs.job import Job, PassPlan, Step, StepResult, write_dead_letters
from muster.spark.jobs.minutes import MinutesSnapshot, SnapshotStore, advance, batch_totals, figures_of
from muster.spark.jobs.offsets_log import TOPIC, prepare, read_figures, read_up_to
from muster.spark.tables import DEAD_LETTERS

Finish: TypeAlias = Callable[
    [SnapshotStore, DataFrame, MinutesSnapshot, MinutesSnapshot, Step], tuple[str, ...]
]
"""Given all known rows, write the minutes that are over by the second snapshot and were not by the first, save the
second, and return sentences to print."""


def minute_job(name: str, tables: tuple[str, ...], says: str, finish: Finish, *, late: str | None) -> Job:
    """A job that calls `finish` for each batch, and after a pass in which time alone closes a minute.

    `late` is the note on commits of closed minutes, behind their number; None: such commits are used all the same.
    """

    def build(step: Step) -> PassPlan | None:
        return read_figures(step, name)

    def write(batch: DataFrame, step: Step) -> StepResult:
        states = SnapshotStore(step.spark, step.options.out, name)
        before = states.before(step.batch_id)
        batch = batch.persist()
        try:
            totals = batch_totals(batch, before)
            after = advance(before, step, totals.newest_us, read_up_to(step, name))
            dead_letters = 0
            if totals.dead_letters:
                dead_letters = write_dead_letters(
                    batch.select("about.*"), replace(step, batch_id=after.sequence), name
                )
            notes = finish(states, figures_of(batch).unionByName(states.rows(before)), before, after, step)
        finally:
            batch.unpersist()
        if late and totals.late:
            notes += (f"{totals.late:,} {late}",)
        return StepResult(
            dead_letters, totals.records, max(totals.newest_us.values(), default=0) // 1000 or None, notes
        )

    def close(step: Step) -> StepResult:
        states = SnapshotStore(step.spark, step.options.out, name)
        before = states.before(step.batch_id + 1)
        after = advance(before, step, {}, step.log_ends)
        if before.sequence < 0 or after.closed_until_us == before.closed_until_us:
            return StepResult()
        return StepResult(notes=finish(states, states.rows(before), before, after, step))

    return Job(name, TOPIC, (*tables, DEAD_LETTERS.name), says, build, write, close, prepare)
