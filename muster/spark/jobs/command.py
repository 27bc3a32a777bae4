"""Runs `muster spark run`: checks its options, starts Spark, runs the job, and prints a line per batch."""

from __future__ import annotations

import fcntl
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

from rich.console import Console

from muster.sentences import say
from muster.spark.errors import PassingError
from muster.spark.jobs.job import load_job
from muster.spark.jobs.options import RefusedRunError, RunOptions
from muster.spark.jobs.runner import RunProgress, run
from muster.spark.jobs.source import claim, identify_topic
from muster.spark.session import spark_session
from muster.spark.tables import CHECKPOINTS

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class ProgressPrinter:
    """Prints a run's progress: a line per batch, in place on a terminal, or a JSON object per line."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False)
        self._began = time.monotonic()
        self._newest_line = ""

    def show(self, progress: RunProgress) -> None:
        per_second = round(progress.records / max(time.monotonic() - self._began, 0.001))
        if self._as_json:
            print(json.dumps(self._figures(progress, per_second)), flush=True)
            return
        for note in progress.notes:
            say(note)
        line = (
            f"{progress.batches:,} batches, {progress.records:,} records, {per_second:,} a second, "
            f"newest {shown(progress.newest_ms)}, {progress.dead_letters:,} dead letters"
        )
        if line != self._newest_line:
            end = "\r" if self._console.is_terminal else "\n"
            self._console.print(line, end=end, soft_wrap=True)
            self._newest_line = line

    def end(self) -> None:
        if self._console.is_terminal and not self._as_json and self._newest_line:
            self._console.print()

    def _figures(self, progress: RunProgress, per_second: int) -> dict[str, object]:
        return {
            "batches": progress.batches,
            "records": progress.records,
            "records_per_second": per_second,
            "newest_event_time": None if progress.newest_ms is None else shown(progress.newest_ms),
            "dead_letters": progress.dead_letters,
            "notes": list(progress.notes),
        }


def shown(wall_ms: int | None) -> str:
    """A time in UTC, to the second; for None a sign that there is none."""
    if wall_ms is None:
        return "none"
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_job(name: str, options: RunOptions, master: str | None, as_json: bool) -> None:
    """Run a job until it is done or a signal stops it.

    Raises RefusedRunError before Spark starts, JobFailedError after.
    """
    job = load_job(name)
    if options.topic is not None:
        job = replace(job, topic=options.topic)
    try:
        source = identify_topic(options.bootstrap, job.topic, options.kafka)
    except PassingError as error:
        raise RefusedRunError(str(error)) from None
    with _output_lock(options.out, name):
        claim(options.out, name, source)
        settings = {} if master is None else {"spark.master": master}
        # Spark 4.0 leaves a folder `artifacts` behind wherever its JVM was started (SPARK-52396).
        with TemporaryDirectory(prefix="muster-spark-") as scratch, chdir(scratch):
            spark = spark_session(f"muster: {name}", settings)
            printer = ProgressPrinter(as_json)
            try:
                with _stop_on_signal() as stopped:
                    run(spark, job, options, printer.show, stopped)
            finally:
                printer.end()
                spark.stop()


@contextmanager
def _output_lock(out: str, name: str) -> Iterator[None]:
    """Hold the job's lock on the folder: two runs with one checkpoint would overwrite each other."""
    lock = Path(out, CHECKPOINTS, f"{name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RefusedRunError(f"another run of the job {name} is writing to {out}") from None
        yield


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set. Enter it after Spark's start, which sets its own handler."""
    stopped = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, on_signal) for number in STOPPING}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
