"""What an executor lacks is reported by name: its host, the package, the version that is needed."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from muster.spark import executors
from muster.spark.executors import (
    CLIENTS_NEED,
    JOBS_NEED,
    Findings,
    findings,
    require_on_executors,
    unmet_needs,
    why,
)
from muster.spark.java import SparkUnavailableError

WHOLE = {
    "pyspark": "4.0.0",
    "pyarrow": "17.0.0",
    "pandas": "2.2.3",
    "numpy": "2.1.0",
    "confluent-kafka": "2.6.1",
}
OTHER_PYTHON = """\
Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: Lost task 1.3 in stage \
0.0 (TID 7) (10.0.0.7 executor 0): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1982, in main
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different \
version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.
"""
NO_PYTHON = """\
most recent failure: Lost task 1.3 in stage 0.0 (TID 7) (10.0.0.7 executor 0): java.io.IOException: Cannot run \
program "/opt/python3": error=2, No such file or directory
"""
SOMETHING_ELSE = "(TID 7) (10.0.0.7 executor 0): java.io.IOException: something else\nDriver stacktrace:\n"


def found(**versions: str | None) -> Findings:
    changed = {name.replace("_", "-"): version for name, version in versions.items()}
    return Findings("w1", "/executor/0", "/opt/python3", {**WHOLE, **changed})


def test_an_executor_with_all_that_is_needed_has_no_problem() -> None:
    assert unmet_needs(found(), CLIENTS_NEED) == []


@pytest.mark.parametrize(
    ("has", "problem"),
    [
        (found(pyarrow=None), "w1 has no pyarrow for /opt/python3"),
        (found(confluent_kafka=None), "w1 has no confluent-kafka for /opt/python3"),
        (found(pandas="2.1.4"), "w1 has pandas 2.1.4, and 2.2 or newer is needed"),
        (found(pyarrow="9.0.0"), "w1 has pyarrow 9.0.0, and 17 or newer is needed"),
        (found(pyspark="4.0.1"), "w1 has pyspark 4.0.1, and 4.0.0 is needed"),
    ],
)
def test_what_is_missing_or_too_old_is_reported_with_its_host(has: Findings, problem: str) -> None:
    assert unmet_needs(has, CLIENTS_NEED) == [problem]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OTHER_PYTHON, "10.0.0.7 has Python 3.12, and the driver's 3.11 is needed"),
        (NO_PYTHON, "10.0.0.7 has no Python called /opt/python3"),
        (SOMETHING_ELSE, "10.0.0.7: java.io.IOException: something else"),
    ],
)
def test_an_executor_that_cannot_even_be_asked_is_reported_with_the_reason(error: str, sentence: str) -> None:
    assert why(error) == sentence


def test_what_executors_need_is_what_the_project_declares() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = " ".join(project["optional-dependencies"]["spark"])
    for package in ("pyarrow", "pandas", "confluent-kafka"):
        assert f"{package}>={CLIENTS_NEED[package]}" in declared


def test_this_process_has_what_it_has() -> None:
    answer = findings(["pyarrow", "no-such-package"])
    assert answer.versions["no-such-package"] is None
    assert answer.versions["pyspark"] == "4.0.0"
    assert unmet_needs(findings(CLIENTS_NEED), CLIENTS_NEED) == []
    assert answer.python == sys.executable


@pytest.mark.xdist_group("spark")
def test_executors_answer_for_themselves(spark: SparkSession) -> None:
    (answer, *_) = require_on_executors(spark)
    assert answer.python == sys.executable
    assert set(answer.versions) == {"pyspark", *JOBS_NEED}
    with pytest.raises(SparkUnavailableError, match=r"cannot run the job: .* has no no-such-package for /"):
        require_on_executors(spark, {"no-such-package": "1"})


@pytest.mark.xdist_group("spark")
def test_an_answer_that_fails_is_a_sentence(spark: SparkSession) -> None:
    unhashable: Any = [["unhashable"]]
    with pytest.raises(SparkUnavailableError, match=r"cannot run the job: \S+: TypeError: "):
        executors._ask_executors(spark.sparkContext, unhashable)
