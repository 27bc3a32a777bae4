"""Runs a job in passes over its topic, each a query from the checkpoint to the present end, until it is stopped.

A continuous run is a pass every so often rather than one endless query: at the end of a pass it is known that
everything written before it began has been read, so a minute can be over though no group commits any more, which
no watermark of Spark's can know. When a pass fails for a reason that passes (a broker that restarts), the next
one begins where the checkpoint is, after a wait that doubles; anything else ends the run with a sentence.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from muster.spark.errors import PassingError
from muster.spark.jobs.job import Job, PassPlan, Step, StepResult
from muster.spark.jobs.options import RunOptions
from muster.spark.jobs.source import log_ends
from muster.spark.progress.positions import CheckpointError
from muster.spark.tables import checkpoint_path

FIRST_RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 30.0
PATIENCE_S: Final = (
    180.0  # How long a single run retries a pass without progress; a continuous run always does.
)
STOP_PATIENCE_S: Final = 30.0  # A batch that takes longer after a stop is abandoned; the next run repeats it.
_POLL_S: Final = 1  # The interval in which a stop is noticed.
# Errors of Kafka's clients that a restart of a broker or a bad network brings.
_PASSING: Final = re.compile(
    r"(Timeout|Disconnect|Network|RetriableCommitFailed|NotLeaderOrFollower|LeaderNotAvailable"
    r"|BrokerNotAvailable|NotCoordinator|CoordinatorNotAvailable|CoordinatorLoadInProgress|NotEnoughReplicas"
    r"|KafkaStorage|OffsetNotAvailable|StaleBrokerEpoch)Exception"
    r"|Failed to create new KafkaAdminClient|PassingError"
)


class JobFailedError(Exception):
    """The job cannot continue; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The totals of a run over all its passes; `notes` are those of the newest step alone."""

    batches: int = 0
    records: int = 0
    dead_letters: int = 0
    newest_ms: int | None = None
    notes: tuple[str, ...] = ()


def run(
    spark: SparkSession,
    job: Job,
    options: RunOptions,
    on_progress: Callable[[RunProgress], None],
    stopped: threading.Event | None = None,
) -> RunProgress:
    """Run `job` once, or every `options.every_ms` until `stopped` is set; a batch under way is finished first.

    `on_progress` is called after each batch, and with a note when something is to be tried again.
    Raises JobFailedError.
    """
    return _Run(spark, job, options, on_progress, stopped or threading.Event()).run()


class _Run:
    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        options: RunOptions,
        on_progress: Callable[[RunProgress], None],
        stopped: threading.Event,
    ) -> None:
        self._spark = spark
        self._job = job
        self._options = options
        self._on_progress = on_progress
        self._stopped = stopped
        self._progress = RunProgress()
        self._wrote: dict[int, StepResult] = {}
        self._newest_batch = -1
        self._failure: Exception | None = None  # Raised by `write`; Spark shows it only as text.

    def run(self) -> RunProgress:
        if self._job.prepare is not None:
            self._job.prepare(self._spark)
        retry_s, gained_at = FIRST_RETRY_S, time.monotonic()
        while not self._stopped.is_set():
            began, batches = time.monotonic(), self._progress.batches
            try:
                self._run_pass()
            except PassingError as error:
                if self._progress.batches > batches:
                    retry_s, gained_at = FIRST_RETRY_S, time.monotonic()
                self._wait_before_retry(error, retry_s, gained_at)
                retry_s = min(retry_s * 2, MAX_RETRY_S)
                continue
            if self._options.every_ms is None:
                break
            retry_s, gained_at = FIRST_RETRY_S, time.monotonic()
            self._stopped.wait(max(0.0, began + self._options.every_ms / 1000 - time.monotonic()))
        return self._progress

    def _wait_before_retry(self, error: PassingError, retry_s: float, gained_at: float) -> None:
        if self._options.every_ms is None and time.monotonic() - gained_at > PATIENCE_S:
            raise JobFailedError(f"{error}; given up after {PATIENCE_S:.0f} s") from None
        self._report_step(StepResult(notes=(f"{error}; trying again in {retry_s:.0f} s",)))
        self._stopped.wait(retry_s)

    def _run_pass(self) -> None:
        """Read and write all that the topic holds now. Raises PassingError and JobFailedError."""
        as_of_ms = wall_ms()
        ends = log_ends(self._options.bootstrap, self._job.topic, self._options.kafka)
        step = Step(self._spark, self._job.topic, -1, self._options, as_of_ms, ends)
        try:
            reading = self._job.build(step)
            if reading is not None:
                self._await(self._start(reading, step), reading.until)
        except CheckpointError as error:
            raise JobFailedError(str(error)) from None
        except PySparkException as error:
            raise self._classified(error) from None
        if self._job.close is not None and not self._stopped.is_set():
            self._report_step(self._job.close(replace(step, batch_id=self._newest_batch)))

    def _start(self, reading: PassPlan, step: Step) -> StreamingQuery:
        def write(batch: DataFrame, batch_id: int) -> None:
            try:
                each = replace(step, spark=batch.sparkSession, batch_id=batch_id)
                self._wrote[batch_id] = self._job.write(batch, each)
            except Exception as error:  # Raised again; kept because Spark turns it into text.
                self._failure = error
                raise

        self._failure = None
        checkpoint = checkpoint_path(self._options.out, self._job.name)
        writer = reading.rows.writeStream.outputMode("append").option("checkpointLocation", checkpoint)
        # A source in Python ignores `availableNow`, and would give all there is in one batch.
        trigger = {"availableNow": True} if reading.until is None else {"processingTime": "0 seconds"}
        return writer.trigger(**trigger).foreachBatch(write).start()

    def _await(self, query: StreamingQuery, until: Mapping[int, int] | None) -> None:
        """Wait until the query ends, or stop it at `until`, or between two batches if the run is stopped."""
        counted: set[int] = set()
        stop_by: float | None = None
        over = False
        while not over:
            try:
                over = bool(query.awaitTermination(_POLL_S))
            finally:  # Also after the query has failed.
                fresh = [each for each in query.recentProgress if each["batchId"] not in counted]
                for batch in fresh:
                    counted.add(batch["batchId"])
                    self._count_batch(batch["batchId"], batch["numInputRows"], batch.get("eventTime") or {})
            if until is not None and any(_has_reached(batch, until) for batch in fresh):
                query.stop()
            elif self._stopped.is_set() and not over:
                stop_by = stop_by or time.monotonic() + STOP_PATIENCE_S
                if fresh or time.monotonic() > stop_by or not query.status["isTriggerActive"]:
                    query.stop()

    def _count_batch(self, batch_id: int, records: int, event_time: dict[str, str]) -> None:
        self._newest_batch = max(self._newest_batch, batch_id)
        wrote = self._wrote.pop(batch_id, None)
        if wrote is None:
            return  # A progress report without a batch: Spark found nothing new.
        now = self._progress
        read = records if wrote.records is None else wrote.records
        self._progress = replace(now, batches=now.batches + 1, records=now.records + read)
        self._report_step(wrote, event_time.get("max"))

    def _report_step(self, wrote: StepResult, newest_event_time: str | None = None) -> None:
        newest_ms = wrote.newest_ms if wrote.newest_ms is not None else _as_ms(newest_event_time)
        known = [each for each in (self._progress.newest_ms, newest_ms) if each is not None]
        self._progress = replace(
            self._progress,
            dead_letters=self._progress.dead_letters + wrote.dead_letters,
            newest_ms=max(known, default=None),
            notes=wrote.notes,
        )
        self._on_progress(self._progress)

    def _classified(self, error: PySparkException) -> PassingError | JobFailedError:
        """The error to raise: PassingError if `write` raised it or Kafka's error passes, else JobFailedError."""
        if isinstance(self._failure, PassingError):
            return self._failure
        first = str(self._failure or error).strip().partition("\n")[0]
        trace = str(getattr(error, "_stackTrace", "") or "") + str(error)
        if isinstance(error, StreamingQueryException) and _PASSING.search(trace):
            return PassingError(f"Spark's query failed: {first}")
        return JobFailedError(f"Spark gave up: {first}")


def wall_ms() -> int:
    """The time of day, in ms since 1970."""
    return time.time_ns() // 1_000_000


def _has_reached(progress: dict[str, Any], until: Mapping[int, int]) -> bool:
    """Whether the only source of a query has reached exactly the offsets `until`."""
    (source,) = progress["sources"]
    (at,) = json.loads(source["endOffset"]).values()
    return {int(partition): end for partition, end in at.items()} == until


def _as_ms(text: str | None) -> int | None:
    """The time in ms of a text in Spark's progress, as 2026-01-01T00:00:00.000Z; None for None."""
    from datetime import datetime

    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
