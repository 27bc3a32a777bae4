"""One Spark session, on this machine or on a cluster, with Spark's own Kafka source and our packages sent along.

A session starts from jars that were resolved once (`jars`), on the one release of Spark that they fit. Our
packages go to its executors by Spark's own file server (`packages`). On a cluster the executors' Python is
the workers' own, never a path of this machine, and is asked at the start for what it lacks (`executors`).
Nothing listens beyond the address by which this machine reaches the master: loopback in local mode.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.core.files import SparkFiles
from pyspark.sql import SparkSession

from muster.spark.executors import require_on_executors
from muster.spark.jars import kafka_source_jars
from muster.spark.java import PYSPARK_VERSION, SparkUnavailableError, require_spark
from muster.spark.packages import ship_packages

LOOPBACK: Final = "127.0.0.1"
LOCAL_MASTER: Final = "local[2]"
MASTER_TIMEOUT_S: Final = 5

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Spark keeps what a consumer has polled for minutes after the task that read it, for each partition all of it:
    # with the large polls of our jobs that filled an executor's heap with records that were not needed any more.
    "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
}
LOCAL_DEFAULTS: Final[Mapping[str, str]] = {
    **DEFAULTS,
    "spark.sql.shuffle.partitions": "2",  # Spark's 200 are for clusters: here each costs more than its work.
}
CLUSTER_DEFAULTS: Final[Mapping[str, str]] = {
    **DEFAULTS,
    # Where `spark.cores.max` says how many are wanted, wait for all of them, half a minute at most.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}

# Spark starts executors' Python by a program's name, and would take this machine's. This script, which is sent
# as a file into the executor's work folder, takes the one in the environment that the worker was started in.
EXECUTOR_PYTHON: Final = "muster-python"
_ASK_THE_WORKER: Final = '#!/bin/sh\nexec "${PYSPARK_PYTHON:-python3}" "$@"\n'


def spark_session(
    app_name: str, settings: Mapping[str, str] | None = None, master: str | None = None
) -> SparkSession:
    """Start Spark on `master` (`local[2]`, `spark://host:port`), or get the session that runs already.

    `settings` are Spark's own and win over ours; `spark.pyspark.python` is a path on the executors, which
    otherwise run on PYSPARK_PYTHON of the worker's environment, or its `python3`. End it by `stop()`. Spark
    resolves relative paths where this process was when the first session started, and leaves a folder
    `artifacts` there. Raises SparkUnavailableError, a sentence, if Java, PySpark, the jars of the Kafka
    source or the master is missing, or the executors lack what jobs need; else what PySpark raises.
    """
    chosen = {**(settings or {}), **({"spark.master": master} if master else {})}
    if SparkContext._active_spark_context is None:
        require_spark()
        chosen = settings_for(chosen, address_towards(chosen.get("spark.master", LOCAL_MASTER)))
        chosen["spark.jars"] = ",".join(
            filter(None, [*map(str, kafka_source_jars()), chosen.get("spark.jars")])
        )
    elif master not in (None, SparkContext._active_spark_context.master):
        running = SparkContext._active_spark_context.master
        raise SparkUnavailableError(f"a Spark session on {running} runs already: stop it before {master}")
    session = _started(app_name, chosen)
    try:
        _ship_dependencies(session, chosen)
    except SparkUnavailableError:
        session.stop()
        raise
    return session


def is_local(master: str) -> bool:
    """Whether executors are threads in this process's JVM; `local-cluster` starts other processes."""
    return re.fullmatch(r"local(\[[^]]*\])?", master) is not None


def settings_for(settings: Mapping[str, str], address: str | None) -> dict[str, str]:
    """All settings of a new session but its jars: `settings` over our own defaults for their master.

    Executors connect to this machine at `address`; None leaves its choice to Spark.
    """
    master = settings.get("spark.master", LOCAL_MASTER)
    defaults = dict(LOCAL_DEFAULTS if is_local(master) else CLUSTER_DEFAULTS)
    if address is not None:
        defaults |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    return {"spark.master": master, **defaults, **settings}


def address_towards(master: str) -> str | None:
    """This machine's address on the way to `master`; None unless `master` is local or `spark://`.

    Raises SparkUnavailableError if nothing listens there: Spark itself would try for a minute.
    """
    if master.startswith("local"):
        return LOOPBACK
    if not master.startswith("spark://"):
        return None
    for place in master.removeprefix("spark://").split(","):  # One of them leads, the others stand by.
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), MASTER_TIMEOUT_S) as connection:
                return str(connection.getsockname()[0])
        except (OSError, ValueError):
            continue
    raise SparkUnavailableError(f"no Spark master answers at {master}")


def executor_python(settings: Mapping[str, str]) -> str:
    """The program that executors start for Python: this process's own in local mode, else one of the worker's."""
    if settings["spark.master"].startswith("local"):
        return sys.executable
    return settings.get("spark.pyspark.python", f"./{EXECUTOR_PYTHON}")


def install_python_shim(session: SparkSession) -> None:
    """Let Spark start Python on this machine as well, as it does to plan a data source written in Python.

    It starts the program that executors use, which on a cluster is EXECUTOR_PYTHON in the folder where the process
    was started; so that script is put there. Raises SparkUnavailableError if it is a path that is not here.
    """
    context = session.sparkContext
    program = str(context.pythonExec)
    if is_local(str(context.master)):
        return
    if program == f"./{EXECUTOR_PYTHON}":
        jvm: Any = session._jvm
        own = Path(jvm.System.getProperty("user.dir"), EXECUTOR_PYTHON)
        own.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        own.chmod(0o755)
    elif shutil.which(program) is None:
        raise SparkUnavailableError(f"spark.pyspark.python={program} is not on this machine, and has to be")


def _started(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    environment = {}
    if SparkContext._active_spark_context is None:
        environment = {"PYSPARK_PYTHON": executor_python(settings), "PYSPARK_DRIVER_PYTHON": sys.executable}
        if address := settings.get("spark.driver.bindAddress"):
            # Otherwise Spark looks up the machine's own name.
            environment["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", address)
    with _in_environment(environment):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _ship_dependencies(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Send our packages and the Python script to the executors, and check that they have everything else."""
    context = session.sparkContext
    if session.version != PYSPARK_VERSION:
        home = os.environ.get("SPARK_HOME")
        raise SparkUnavailableError(
            f"Spark {PYSPARK_VERSION} is needed, and SPARK_HOME={home} is {session.version}"
        )
    ship_packages(session)
    if is_local(str(context.master)) or _has_file(context, EXECUTOR_PYTHON):
        return
    program = Path(SparkFiles.getRootDirectory(), "served", EXECUTOR_PYTHON)
    program.write_text(_ASK_THE_WORKER)
    context.addFile(str(program))
    require_on_executors(session)
    if "spark.sql.shuffle.partitions" not in settings:
        session.conf.set("spark.sql.shuffle.partitions", str(context.defaultParallelism))


def _has_file(context: SparkContext, name: str) -> bool:
    return name in {Path(added).name for added in context.listFiles}


@contextmanager
def _in_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, which PySpark reads at its start, while the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
