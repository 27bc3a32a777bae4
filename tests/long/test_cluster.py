"""Jobs on a standalone cluster whose workers have nothing of the driver: neither its Python, nor its folders.

The workers run in an environment of their own: another Spark (a copy of PySpark's), another virtual environment
with what executors need and no Muster, another HOME, another current folder, no PYTHONPATH. Two workers of two
cores, so that four members fit.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from harness.daemon import ROOT, MusterDaemon
from harness.observer import unique
from muster.spark import executors, members
from muster.spark.decoding import offsets as decoding
from muster.spark.decoding import reading
from muster.spark.executors import CLIENTS_NEED, require_on_executors
from muster.spark.java import SparkUnavailableError
from muster.spark.session import spark_session
from muster.spark.standalone import StandaloneCluster

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(1200)]

WORKERS = 2
CORES = 2
MEMBERS = 4
PARTITIONS = 12
ROWS = 6_000
GROUPS = 20
COMMITS = 15
INSTALL_TIMEOUT_S = 600
JOB_TIMEOUT_S = 600  # A busy machine was seen to take five minutes.
EXECUTORS_NEED = ("pyarrow", "pandas", "numpy", "confluent-kafka")
SMALL = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.cores.max": str(WORKERS * CORES),
}
CLUSTER_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "6"}


@pytest.fixture(scope="module")
def workers_home(java: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a worker's machine has: `spark`, `python` (a virtual environment), `home`."""
    folder = tmp_path_factory.mktemp("workers")
    shutil.copytree(Path(pyspark.__file__).parent, folder / "spark")
    (folder / "home").mkdir()
    subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True, timeout=INSTALL_TIMEOUT_S)
    install = [str(folder / "python/bin/python"), "-m", "pip", "install", "--quiet"]
    install += ["--constraint", str(ROOT / "constraints.txt"), *EXECUTORS_NEED]
    subprocess.run(install, check=True, timeout=INSTALL_TIMEOUT_S)
    return folder


@pytest.fixture(scope="module")
def cluster(workers_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(workers_home / "home"),
        "SPARK_HOME": str(workers_home / "spark"),
        "PYSPARK_PYTHON": str(workers_home / "python/bin/python"),
    }
    if home := os.environ.get("JAVA_HOME"):
        environment["JAVA_HOME"] = home
    folder = tmp_path_factory.mktemp("cluster")
    with StandaloneCluster(
        folder, workers=WORKERS, cores=CORES, memory="1g", environment=environment
    ) as running:
        yield running


@pytest.fixture
def start(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., SparkSession]]:
    """Starts a session on the cluster, in a driver whose own settings of Python would be wrong there."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    with ExitStack() as sessions:

        def started(**settings: str) -> SparkSession:
            named = {name.replace("_", "."): value for name, value in settings.items()}
            session = spark_session("muster: long tests", {**SMALL, **named}, master=cluster.master)
            sessions.callback(session.stop)
            return session

        yield started


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path_factory.mktemp("muster"), CLUSTER_SETTINGS) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def topic(broker: MusterDaemon) -> str:
    """A topic of PARTITIONS partitions with ROWS records, each with its number as value."""
    name = unique("rows")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic(name, PARTITIONS)]).values()
    created.result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(ROWS):
        producer.produce(name, value=str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return name


@pytest.fixture(scope="module")
def committed(broker: MusterDaemon, topic: str) -> dict[str, int]:
    """Commits of GROUPS groups, each COMMITS times for every partition; offset records per group."""
    for number in range(GROUPS):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"group-{number:02d}"})
        for offset in range(COMMITS):
            positions = [TopicPartition(topic, partition, offset) for partition in range(PARTITIONS)]
            consumer.commit(offsets=positions, asynchronous=False)
        consumer.close()
    return {f"group-{number:02d}": COMMITS * PARTITIONS for number in range(GROUPS)}


def test_executors_import_muster_from_the_zip_and_know_no_folder_of_the_driver(
    start: Callable[..., SparkSession], cluster: StandaloneCluster, workers_home: Path
) -> None:
    spark = start()

    def sights(_: Iterable[int]) -> Iterator[dict[str, Any]]:
        import os
        import sys

        import coordinator.history.events
        import muster
        import muster.spark.java

        yield {
            "muster": [muster.__file__, muster.spark.java.__file__, coordinator.history.events.__file__],
            "path": [os.path.abspath(entry) for entry in sys.path],
            "folder": os.getcwd(),
            "python": sys.executable,
            "environment": dict(os.environ),
        }

    slots = WORKERS * CORES
    seen = spark.sparkContext.parallelize(range(slots), slots).mapPartitions(sights).collect()
    assert len({sight["folder"] for sight in seen}) == WORKERS, "each worker's executor was asked"
    for sight in seen:
        work = Path(sight["folder"])
        assert work.parent.parent.parent.parent == cluster.folder
        for module in sight["muster"]:
            archive = (work / module).relative_to(work).parts[0]
            assert (work / archive).is_file()
            assert archive.startswith("muster-")
            assert archive.endswith(".zip")
        assert sight["python"] == str(workers_home / "python/bin/python")
        assert sight["environment"]["HOME"] == str(workers_home / "home")
        for foreign in (str(ROOT), sys.prefix, str(Path(pyspark.__file__).parent)):
            assert not [entry for entry in sight["path"] if entry.startswith(foreign)]
            assert not [value for value in sight["environment"].values() if foreign in value]


def test_executors_decode_what_was_committed(
    start: Callable[..., SparkSession], broker: MusterDaemon, committed: dict[str, int]
) -> None:
    spark = start()
    # Spark's newer way of finding offsets passes over internal topics in silence.
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    partitions = list(range(int(CLUSTER_SETTINGS["offsets.topic.num.partitions"])))
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("assign", json.dumps({"__consumer_offsets": partitions}))
        .load()
    )
    decode = decoding.minutes("__consumer_offsets", time.time_ns() // 1000)
    rows = records.select(*reading.SCHEMA.names).mapInArrow(decode, decoding.DDL)
    found = rows.where("group_id like 'group-%'").groupBy("group_id").sum("commits").collect()
    assert {row["group_id"]: row["sum(commits)"] for row in found} == committed
    assert rows.where("about.reason is not null").count() == 0


def test_a_job_runs_on_the_cluster_from_the_command_line(
    cluster: StandaloneCluster, broker: MusterDaemon, committed: dict[str, int], tmp_path: Path
) -> None:
    """Run once the minute of the commits is over: its figures are all that was committed."""
    time.sleep(60 - time.time() % 60)  # The time of day itself is what is waited for.
    command = [sys.executable, "-m", "muster", "spark", "run", "commits", "--json", "--watermark", "0s"]
    command += ["--bootstrap", broker.bootstrap, "--master", cluster.master, "--out", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["records"] >= sum(committed.values())
    assert report["dead_letters"] == 0
    table = pd.read_parquet(tmp_path / "out" / "commits")
    assert table.groupby("group_id")["commits"].sum().filter(like="group-").to_dict() == committed


def test_four_members_on_two_workers_read_every_row_once(
    start: Callable[..., SparkSession], broker: MusterDaemon, topic: str, tmp_path: Path
) -> None:
    spark = start()
    require_on_executors(spark, CLIENTS_NEED)
    out = tmp_path / "rows"
    out.mkdir()

    def keep(batch: pa.RecordBatch, context: members.MemberContext) -> None:
        import uuid

        rows = batch.column("value").to_pylist()
        lines = "".join(f"{context.member} {value.decode()}\n" for value in rows)
        (out / uuid.uuid4().hex).write_text(lines)

    report = members.run(spark, broker.bootstrap, unique("readers"), [topic], MEMBERS, keep)
    lines = [line.split() for path in out.iterdir() for line in path.read_text().splitlines()]
    assert sorted(int(number) for _, number in lines) == list(range(ROWS))
    assert report.failures == ()
    # On a busy machine one may join when the others have read all.
    assert len({member.member_id for member in report.members}) == MEMBERS
    assert {member.member: member.rows for member in report.members if member.rows} == dict(
        Counter(int(member) for member, _ in lines)
    )


def test_a_python_without_the_packages_is_refused_by_name(
    start: Callable[..., SparkSession], tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60)
    bare = str(tmp_path / "bare/bin/python")
    with pytest.raises(SparkUnavailableError) as refused:
        start(spark_pyspark_python=bare)
    for package in ("pyarrow", "pandas", "numpy"):
        assert f"has no {package} for {bare}" in str(refused.value)


def test_a_python_that_is_not_there_is_refused_by_name(start: Callable[..., SparkSession]) -> None:
    with pytest.raises(SparkUnavailableError, match=r"127\.0\.0\.1 has no Python called /nowhere"):
        start(spark_pyspark_python="/nowhere/python")


def test_executors_that_never_come_are_reported(
    start: Callable[..., SparkSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More memory is asked for than any worker has: Spark itself would wait for ever."""
    monkeypatch.setattr(executors, "EXECUTOR_WAIT_S", 5)
    with pytest.raises(SparkUnavailableError, match=r"no executor of spark://.* came in 5 s: has it workers"):
        start(spark_executor_memory="8g")
