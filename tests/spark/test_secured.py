"""Jobs, members and followed queries on a cluster that asks who is there: by each kind of client they have.

The broker is Apache Kafka; with MUSTER_TEST_TARGET=muster it is ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer, unique
from harness.secured import CANARY, SecuredBroker
from muster.cli import run as run_command
from muster.spark import members, progress
from muster.spark.connections import client_connection
from muster.spark.jobs.job import Step, load_job
from muster.spark.jobs.kafka_source import read_topic
from muster.spark.jobs.options import RunOptions
from muster.spark.jobs.runner import run
from muster.spark.jobs.source import log_ends
from muster.spark.members import MembersError
from muster.spark.progress.positions import ProgressError
from tests.spark.topics import run_to_end

pytestmark = pytest.mark.xdist_group("spark")

KIND = MusterDaemon if os.environ.get("MUSTER_TEST_TARGET") == "muster" else KafkaBroker
PARTITIONS = 2
ROWS = 60
QUICK = {"fetch.wait.max.ms": "50", "heartbeat.interval.ms": "300"}


@pytest.fixture(scope="module")
def secured(spark_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured"), KIND) as running:
        yield running


@pytest.fixture(scope="module")
def observer(secured: SecuredBroker) -> Observer:
    """Over the plain listener: what is tested is not what tells whether it worked."""
    return Observer(secured.bootstrap("PLAINTEXT"))


@pytest.fixture
def topic(observer: Observer) -> str:
    name = observer.create_topic("secured", PARTITIONS)
    observer.write(name, [f"row-{number}" for number in range(ROWS)])
    return name


@pytest.fixture(params=[("TLS", "java"), ("TLS", "librdkafka"), ("MTLS", "librdkafka")], ids="-".join)
def config(secured: SecuredBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    listener, dialect = request.param
    return secured.properties(listener, dialect, tmp_path / "client.properties")


def options_for(config: Path, out: Path) -> RunOptions:
    connection = client_connection(None, config)
    return RunOptions(connection.bootstrap, str(out), kafka=connection.librdkafka, source=connection.java)


def test_sparks_source_reads_a_topic(spark: SparkSession, topic: str, config: Path, tmp_path: Path) -> None:
    options = options_for(config, tmp_path / "out")
    ends = log_ends(options.bootstrap, topic, options.kafka)
    assert sum(ends.values()) == ROWS
    table = read_topic(Step(spark, topic, -1, options, 0, ends))
    writer = table.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert run_to_end(writer.trigger(availableNow=True).start()) == ROWS


def test_a_job_reads_the_log_of_offsets_in_its_workers(
    spark: SparkSession, observer: Observer, topic: str, config: Path, tmp_path: Path
) -> None:
    group = unique("reader")
    observer.commit(group, topic, {0: 3})
    seen: list[int] = []
    run(spark, load_job("commits"), options_for(config, tmp_path), lambda done: seen.append(done.records))
    assert seen
    assert seen[-1] > 0


def test_members_read_every_row_and_are_stopped(
    spark: SparkSession, secured: SecuredBroker, topic: str, config: Path
) -> None:
    def count(batch: Any, context: Any) -> None:
        return None

    bootstrap, group = client_connection(None, config).bootstrap, unique("members")
    report = members.run(spark, bootstrap, group, [topic], 2, count, settings=QUICK, command_config=config)
    assert report.rows == ROWS
    members.stop(bootstrap, group, topic, command_config=config)


def test_a_query_is_followed(
    spark: SparkSession, observer: Observer, topic: str, config: Path, tmp_path: Path
) -> None:
    connection, group, checkpoint = client_connection(None, config), unique("job"), tmp_path / "checkpoint"
    bootstrap = connection.bootstrap
    with progress.follow(
        spark, checkpoint=checkpoint, bootstrap=bootstrap, group_id=group, command_config=config
    ):
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        source = source.options(subscribe=topic, startingOffsets="earliest", **connection.source_options())
        writer = source.load().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        assert run_to_end(writer.trigger(availableNow=True).start()) == ROWS
    committed = observer.committed(group, topic)
    assert sum(committed.values()) == ROWS


def test_a_file_that_is_refused_is_a_sentence_of_each(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.password={CANARY}\n")
    said = f"{config}: sasl.mechanism must be one of"
    with pytest.raises(ProgressError, match=said):
        progress.follow(spark, checkpoint="c", bootstrap="b:1", group_id="g", command_config=config)
    with pytest.raises(MembersError, match=said):
        members.run(spark, "b:1", "g", ["t"], 1, print, command_config=config)
    with pytest.raises(MembersError, match=said):
        members.stop("b:1", "g", "t", command_config=config)
    for command in (["run", "lag", "--out", "o"], ["flights", "--output", "o", "--checkpoint", "c"]):
        assert run_command(["spark", *command, "--command-config", str(config)]) == 1
        assert said in capsys.readouterr().err
