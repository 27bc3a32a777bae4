"""One broker and one Spark for all tests of this folder, and what to do where Spark cannot run.

`--target kafka` beside tests/clients, or MUSTER_TEST_TARGET=kafka, runs the same tests against a real Apache
Kafka. With MUSTER_REQUIRE_JAVA=1 a missing Java fails, otherwise it skips.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import chdir
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from harness import java_tools
from harness.daemon import MusterDaemon
from harness.gateway import Gateway
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer
from harness.processes import ServerProcess
from muster.spark.jars import kafka_source_jars
from muster.spark.java import SparkUnavailableError
from muster.spark.session import spark_session
from tests.conftest import JAVA_IS_REQUIRED
from tests.spark.topics import Topic

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}
# With its jars in the cache a session needs no network: in this JVM every way out leads to a closed port.
NO_NETWORK = " ".join(
    f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=9" for scheme in ("http", "https")
)
# A JVM that runs many small queries once: compiling them better costs more than it saves.
QUICK_START = {
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {NO_NETWORK}",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.executorEnv.PYTHONPATH": str(ROOT),  # Python workers start elsewhere, and import `muster`.
}
TARGETS = {"muster": MusterDaemon, "kafka": KafkaBroker, "gateway": Gateway}


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail where Java is required."""
    if JAVA_IS_REQUIRED:
        pytest.fail(f"MUSTER_REQUIRE_JAVA=1: {reason}")
    pytest.skip(f"needs Java: {reason}")


@pytest.fixture(scope="session")
def spark_java() -> None:
    """The requirement of tests that start a Spark: without Java they are skipped, or fail."""
    try:
        java_tools.java()
    except java_tools.JavaUnavailable as missing:
        unavailable(str(missing))


@pytest.fixture(scope="session")
def spark(spark_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session: a JVM takes many seconds to start. The first start ever fetches the Kafka source."""
    try:
        kafka_source_jars()
    except SparkUnavailableError as missing:
        unavailable(str(missing))
    with chdir(tmp_path_factory.mktemp("spark")):  # Spark 4.0 leaves a folder behind where it starts.
        session = spark_session("muster: tests", QUICK_START)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def target(pytestconfig: pytest.Config) -> str:
    """The name of the broker under test: "muster" or "kafka"."""
    return str(pytestconfig.getoption("--target", os.environ.get("MUSTER_TEST_TARGET", "muster")))


@pytest.fixture(scope="session")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One broker for all tests; they keep apart by the names of their topics."""
    with TARGETS[target](tmp_path_factory.mktemp("broker"), SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def observer(broker: ServerProcess) -> Observer:
    return Observer(broker.bootstrap)


@pytest.fixture
def topic(broker: ServerProcess, observer: Observer, spark: SparkSession) -> Topic:
    return Topic(broker, observer, spark)


@pytest.fixture
def other_topic(broker: ServerProcess, observer: Observer, spark: SparkSession) -> Topic:
    return Topic(broker, observer, spark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test also shows the end of the broker's log."""
    report = yield
    server = getattr(item, "funcargs", {}).get("broker")
    if report.when == "call" and report.failed and server is not None:
        report.sections.append(("broker log", server.log_tail()))
    return report
