"""What a session is started with, by its master; and what keeps one from starting."""

from __future__ import annotations

import os
import socket
import sys

import pytest
from pyspark.sql import SparkSession

from muster.spark.java import SparkUnavailableError
from muster.spark.session import (
    LOOPBACK,
    address_towards,
    executor_python,
    is_local,
    settings_for,
    spark_session,
)


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[2]", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://127.0.0.1:7077", False),
        ("yarn", False),
    ],
)
def test_local_is_where_executors_are_threads_of_the_driver(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_local_mode_is_the_default_and_stays_on_loopback() -> None:
    settings = settings_for({}, LOOPBACK)
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == LOOPBACK
    assert settings["spark.sql.shuffle.partitions"] == "2"


@pytest.mark.parametrize("master", ["local[2]", "spark://10.0.0.1:7077"])
def test_what_the_kafka_source_has_read_is_soon_let_go(master: str) -> None:
    """Spark's own five minutes fill an executor's heap with all that a job has read in them."""
    settings = settings_for({"spark.master": master}, LOOPBACK)
    assert settings["spark.kafka.consumer.fetchedData.cache.timeout"] == "1s"
    assert settings["spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval"] == "1s"


def test_on_a_cluster_the_shuffles_follow_its_cores_and_the_driver_is_where_executors_reach_it() -> None:
    settings = settings_for({"spark.master": "spark://10.0.0.1:7077"}, "10.0.0.9")
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "10.0.0.9"
    assert "spark.sql.shuffle.partitions" not in settings


def test_masters_that_find_the_driver_by_themselves_are_left_to_it() -> None:
    assert address_towards("yarn") is None
    assert "spark.driver.host" not in settings_for({"spark.master": "yarn"}, None)


def test_the_users_settings_win() -> None:
    settings = settings_for({"spark.ui.enabled": "true", "spark.driver.host": "10.0.0.2"}, LOOPBACK)
    assert (settings["spark.ui.enabled"], settings["spark.driver.host"]) == ("true", "10.0.0.2")


def test_the_python_of_executors_is_this_one_only_in_local_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/the/drivers/python")
    for here in ("local[2]", "local-cluster[2,1,1024]"):
        assert executor_python({"spark.master": here}) == sys.executable
    assert executor_python({"spark.master": "spark://h:1"}) == "./muster-python"
    given = {"spark.master": "spark://h:1", "spark.pyspark.python": "/the/workers/python"}
    assert executor_python(given) == "/the/workers/python"


def test_the_address_is_the_one_by_which_the_master_is_reached() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        assert address_towards(f"spark://{LOOPBACK}:1,{LOOPBACK}:{port}") == LOOPBACK


@pytest.mark.parametrize("master", ["spark://127.0.0.1:9", "spark://127.0.0.1", "spark://127.0.0.1:x"])
def test_a_master_that_does_not_answer_is_reported_before_spark_starts(master: str) -> None:
    with pytest.raises(SparkUnavailableError, match=f"no Spark master answers at {master}"):
        address_towards(master)


@pytest.mark.xdist_group("spark")
def test_a_session_that_runs_is_the_session_that_one_gets(spark: SparkSession) -> None:
    assert spark_session("another") is spark
    assert spark_session("another", master="local[2]") is spark


@pytest.mark.xdist_group("spark")
def test_a_session_on_another_master_is_not_passed_off_for_the_one_asked_for(spark: SparkSession) -> None:
    with pytest.raises(SparkUnavailableError, match=r"a Spark session on local\[2\] runs already"):
        spark_session("another", master="spark://127.0.0.1:9")


@pytest.mark.xdist_group("spark")
def test_starting_spark_leaves_the_environment_as_it_was(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec == sys.executable
    assert not {"PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"} & set(os.environ)
