"""Checks that a cluster's executors have what our jobs need, by a tiny job at the start.

On a cluster the executors' Python is the workers' own: Muster itself is sent to them (`packages`), but not
what it is built on. What is missing is better reported once and by name than by a stack trace of some task. The
questions (`findings`) run on executors and import nothing that may be missing there. Executors that join
later are not asked.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from muster.spark.java import PYSPARK_VERSION, SparkUnavailableError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JOBS_NEED: Final[Mapping[str, str]] = {"pyarrow": "17", "pandas": "2.2", "numpy": "1.26"}
"""The oldest accepted release of each package that every job needs, as in pyproject.toml."""
CLIENTS_NEED: Final[Mapping[str, str]] = {**JOBS_NEED, "confluent-kafka": "2.6"}
"""The packages for jobs whose executors are clients of a cluster, with their oldest accepted releases."""

EXECUTOR_WAIT_S: Final = 60  # An executor starts in seconds; without any there is nothing to check.
_ROUNDS: Final = 5  # Each round has a task per core, which usually meets every executor.
_JOB_GROUP: Final = "muster: what executors have"


@dataclass(frozen=True, slots=True)
class Findings:
    """One executor's host and folder, its Python, and the version of each package; None for a missing one."""

    host: str
    folder: str
    python: str
    versions: Mapping[str, str | None]


def require_on_executors(spark: SparkSession, needs: Mapping[str, str] = JOBS_NEED) -> tuple[Findings, ...]:
    """Check all executors that are there now; return the findings of each, sorted by host.

    Raises SparkUnavailableError in a sentence that names hosts and what they lack: a package or a release
    of it, this driver's minor version of Python or its PySpark; or that no executor came in EXECUTOR_WAIT_S.
    """
    context = spark.sparkContext
    found: dict[tuple[str, str], Findings] = {}
    for _ in range(_ROUNDS):
        answers = _ask_executors(context, tuple(needs))
        found.update({(answer.host, answer.folder): answer for answer in answers})
        if len(found) >= _registered(context):
            break
    problems = sorted({problem for answer in found.values() for problem in unmet_needs(answer, needs)})
    if problems:
        raise SparkUnavailableError(f"the executors cannot run the job: {'; '.join(problems)}")
    return tuple(found[key] for key in sorted(found))


def unmet_needs(found: Findings, needs: Mapping[str, str]) -> list[str]:
    """The packages that an executor lacks or has too old, and a wrong PySpark, each as part of a sentence."""
    problems = []
    for package, minimum in needs.items():
        has = found.versions[package]
        if has is None:
            problems.append(f"{found.host} has no {package} for {found.python}")
        elif _release(has) < _release(minimum):
            problems.append(f"{found.host} has {package} {has}, and {minimum} or newer is needed")
    if (has := found.versions["pyspark"]) != PYSPARK_VERSION:
        problems.append(f"{found.host} has pyspark {has}, and {PYSPARK_VERSION} is needed")
    return problems


def findings(packages: Iterable[str]) -> Findings:
    """The versions of `packages` in this process, and of the PySpark it runs in, be it installed or Spark's."""
    import pyspark

    versions: dict[str, str | None] = {"pyspark": pyspark.__version__}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return Findings(socket.gethostname(), os.getcwd(), sys.executable, versions)


def _ask_executors(context: SparkContext, packages: tuple[str, ...]) -> list[Findings]:
    """The findings of one task per core. Raises SparkUnavailableError if no executor comes in EXECUTOR_WAIT_S."""

    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    def answer(_: Iterable[int]) -> Iterable[Findings]:
        yield findings(packages)

    given_up = threading.Event()

    def give_up() -> None:
        if _registered(context) == 0:
            given_up.set()
            context.cancelJobGroup(_JOB_GROUP)

    tasks = context.defaultParallelism
    timer = threading.Timer(EXECUTOR_WAIT_S, give_up)
    timer.start()
    context.setJobGroup(_JOB_GROUP, "muster: are Python and its packages there?")
    try:
        return context.parallelize(range(tasks), tasks).mapPartitions(answer).collect()
    except (Py4JJavaError, PySparkException) as error:
        if given_up.is_set():
            raise SparkUnavailableError(
                f"no executor of {context.master} came in {EXECUTOR_WAIT_S} s: has it workers, with free "
                f"cores and with memory for spark.executor.memory?"
            ) from None
        raise SparkUnavailableError(f"the executors cannot run the job: {why(str(error))}") from None
    finally:
        timer.cancel()
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # PySpark's way to unset one.


def why(error: str) -> str:
    """The reason in a failed job's long message: another Python, none at all, or the task's last exception."""
    lost = re.search(r"\(TID \d+\) \((\S+) executor [^)]*\): (.*)", error)
    host, said = (lost[1], lost[2]) if lost else ("an executor", error.partition("\n")[0])
    if minor := re.search(r"has different version: (\S+) than that in driver: (\S+),", error):
        return f"{host} has Python {minor[1]}, and the driver's {minor[2]} is needed"
    if program := re.search(r'Cannot run program "([^"]*)"', error):
        return f"{host} has no Python called {program[1]}"
    # At a line's start, as Python prints it.
    raised = re.findall(r"^[\w.]*(?:Error|Exception): .*", error, re.MULTILINE)
    return f"{host}: {raised[-1] if raised else said}"


def _registered(context: SparkContext) -> int:
    """The number of executors now. Spark counts the driver, which is an executor only in local mode."""
    known = int(context._jsc.sc().getExecutorMemoryStatus().size())
    return known if context._jsc.isLocal() else known - 1


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
