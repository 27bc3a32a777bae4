"""`muster spark`: jobs on a topic, run by a Spark of this machine. A failure is a sentence and status 1."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from muster.cluster import DEFAULT_BOOTSTRAP
from muster.spark.java import SparkUnavailableError, require_spark

app = App(
    name="spark", help="Run a Spark job on a topic: any Kafka cluster. Needs the extra `spark` and Java 17."
)

STATUS_FAILED = 1


@app.command
def flights(
    *,
    output: Annotated[Path, Parameter(help="folder for the result, as Parquet; replaced")],
    checkpoint: Annotated[Path, Parameter(help="folder in which Spark keeps how far it has read")],
    topic: Annotated[str, Parameter(help="topic of nycflights13's rows as JSON")] = "flights",
    bootstrap: Annotated[
        str, Parameter(name="--bootstrap", help="host:port of any broker")
    ] = DEFAULT_BOOTSTRAP,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="print a JSON line per batch")
    ] = False,
) -> int:
    """Compute the mean departure delay per airport and hour of all flights on a topic."""
    try:
        require_spark()
    except SparkUnavailableError as missing:
        print(f"muster: {missing}", file=sys.stderr)
        return STATUS_FAILED
    from pyspark.errors import PySparkException

    from muster.spark import flights as job
    from muster.spark.session import spark_session

    def tell(progress: job.Progress) -> None:
        done = {"batches": progress.batches, "rows": progress.rows}
        print(
            json.dumps(done) if as_json else f"{progress.rows:,} rows in {progress.batches} batches",
            flush=True,
        )

    spark = spark_session("muster: flights")
    try:
        job.finish(job.start(job.read_flights(spark, bootstrap, topic), output, checkpoint), tell)
    except PySparkException as error:
        print(f"muster: Spark gave up: {error}", file=sys.stderr)
        return STATUS_FAILED
    finally:
        spark.stop()
    return 0
