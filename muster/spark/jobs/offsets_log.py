"""`__consumer_offsets` for the jobs by the minute: what a pass is to read, and where a batch of it ends."""

from __future__ import annotations

import time
from typing import Final

from pyspark.sql import SparkSession

from muster.spark.decoding.log_source import NAME, REACH, OffsetsLog, Reach
from muster.spark.executors import CLIENTS_NEED, require_on_executors
from muster.spark.jobs.job import PassPlan, Step
from muster.spark.jobs.source import find_reach
from muster.spark.progress.checkpoint import batch_ids, is_whole_commit, parse_offsets
from muster.spark.progress.checkpoint_files import CheckpointFiles
from muster.spark.progress.positions import CheckpointError
from muster.spark.session import install_python_shim, is_local
from muster.spark.tables import checkpoint_path

TOPIC: Final = "__consumer_offsets"
BATCH_OFFSETS: Final = 10_000_000
"""The default size of a batch. Its offsets become a million rows; a batch by itself costs some seconds of CPU."""


def prepare(spark: SparkSession) -> None:
    """Prepare a session to read the log. Raises SparkUnavailableError if its executors lack what that needs."""
    if not is_local(str(spark.sparkContext.master)):
        require_on_executors(spark, CLIENTS_NEED)
        install_python_shim(spark)
    spark.dataSource.register(OffsetsLog)
    spark.conf.set("spark.sql.streaming.pollingDelay", "1s")  # Otherwise Spark asks a source every 10 ms.
    # A batch is in memory only while its tables are written, so compressing it does not pay.
    spark.conf.set("spark.sql.inMemoryColumnarStorage.compressed", "false")


def read_figures(step: Step, job: str) -> PassPlan | None:
    """The plan to read rows of `decoding.offsets` up to now; None if nothing is new. Raises PassingError."""
    begins, ends = find_reach(step.options.bootstrap, step.topic, step.log_ends, step.options.kafka)
    planned, is_done = _planned(step, job)
    at = {each: max(planned.get(each, 0), begin) for each, begin in begins.items()}
    if is_done and all(at[each] >= end for each, end in ends.items()):
        return None
    ends = {each: max(at[each], end) for each, end in ends.items()}
    reach = Reach(
        bootstrap=step.options.bootstrap,
        kafka=step.options.kafka,
        topic=step.topic,
        begins=begins,
        planned=at,
        ends=ends,
        batch_offsets=step.options.max_offsets_per_batch or BATCH_OFFSETS,
        tasks=step.spark.sparkContext.defaultParallelism,
        now_us=time.time_ns() // 1000,
    )
    rows = step.spark.readStream.format(NAME).option(REACH, reach.to_json()).load()
    return PassPlan(rows, ends)


def read_up_to(step: Step, job: str) -> dict[int, int]:
    """The end offset of the batch in each partition, from Spark's plan of it in the checkpoint."""
    return _ends_of(_checkpoint(step, job), step.batch_id)


def _planned(step: Step, job: str) -> tuple[dict[int, int], bool]:
    """The end offsets of the newest planned batch, and whether that batch is done."""
    files = _checkpoint(step, job)
    newest = max(batch_ids(files.names("offsets")), default=None)
    if newest is None:
        return {}, True
    where = f"commits/{newest}"
    commit = files.read(where)
    return _ends_of(files, newest), commit is not None and is_whole_commit(commit, where)


def _checkpoint(step: Step, job: str) -> CheckpointFiles:
    return CheckpointFiles(step.spark, checkpoint_path(step.options.out, job))


def _ends_of(files: CheckpointFiles, batch_id: int) -> dict[int, int]:
    where = f"offsets/{batch_id}"
    plan = files.read(where)
    if plan is None:
        raise CheckpointError(f"the checkpoint is damaged: it has no {where}")
    return {at.partition: end for at, end in parse_offsets(plan, where).items()}
