"""The job on flights: its figures are those of pandas, also where it goes on after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from bench.demo.flights import differences, expected_delays, found_delays, load_flights
from bench.demo.produce import FlightProducer
from bench.demo.spark_job import run_job
from harness.processes import ServerProcess
from muster.spark import flights as job
from tests.spark.topics import Topic

pytestmark = pytest.mark.xdist_group("spark")

SAMPLE = 5_000
FIRST_PART = 4_000


class Job:
    """The job on one topic, with folders of its own."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
        self.output = folder / "delays.parquet"
        self._checkpoint = folder / "checkpoint"
        self._spark = spark
        self._bootstrap = bootstrap
        self._topic = topic

    def run(self, seen: list[job.FlightsProgress]) -> None:
        """Run over what the topic holds, in batches of a thousand; `seen` gathers the progress it reports."""
        flights = job.read_flights(self._spark, self._bootstrap, self._topic, max_offsets_per_batch=1_000)
        job.finish(job.start(flights, self.output, self._checkpoint), seen.append)


@pytest.fixture
def flights_job(spark: SparkSession, broker: ServerProcess, topic: Topic, tmp_path: Path) -> Job:
    return Job(spark, broker.bootstrap, topic.name, tmp_path)


def test_a_restarted_job_goes_on_and_its_figures_are_those_of_pandas(
    flights_job: Job, broker: ServerProcess, topic: Topic
) -> None:
    flights = load_flights(SAMPLE)
    for start, end in ((0, FIRST_PART), (FIRST_PART, SAMPLE)):
        producer = FlightProducer(broker.bootstrap, lambda _: None)
        assert producer.produce(topic.name, flights[start:end]) == end - start
        seen: list[job.FlightsProgress] = []
        flights_job.run(seen)
        assert seen[-1].rows == end - start
        assert differences(found_delays(flights_job.output), expected_delays(flights[:end])) == []


def test_a_value_that_is_no_flight_fails_the_job(flights_job: Job, topic: Topic) -> None:
    topic.write(
        json.dumps({"origin": "JFK", "time_hour": "2013-01-01T10:00:00Z", "dep_delay": 1}), "{no json"
    )
    with pytest.raises(StreamingQueryException, match="MALFORMED_RECORD"):
        flights_job.run([])
    assert not flights_job.output.exists()


def test_the_command_runs_the_job_in_a_process_of_its_own(
    spark_java: None, broker: ServerProcess, topic: Topic, tmp_path: Path
) -> None:
    flights = load_flights(SAMPLE)
    FlightProducer(broker.bootstrap, lambda _: None).produce(topic.name, flights)
    rows: list[int] = []
    parquet = run_job(broker.bootstrap, topic.name, tmp_path, rows.append)
    assert rows[-1] == SAMPLE
    assert differences(found_delays(parquet), expected_delays(flights)) == []
