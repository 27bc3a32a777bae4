"""Members in Spark sessions of their own: two and four of them, and an executor process that is killed.

Against Muster and against Apache Kafka. Executors write what they are given to files of this machine, one for
each task attempt, so that rows that were seen twice are known, and by which members.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest
from pyspark.sql import SparkSession

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer, unique
from harness.processes import ServerProcess, wait_until
from muster.spark import members
from muster.spark.members.slots import slots_now
from muster.spark.session import spark_session

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 12
ROWS = 12_000
KILL_AT = 3_000
DEADLINE_S = 240  # Executors' JVMs have been seen to take half a minute to start.
BROKERS = {"muster": MusterDaemon, "kafka": KafkaBroker}
BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "500", "auto.create.topics.enable": "false"}
SMALL_DRIVER = {"spark.driver.memory": "512m", "spark.jars.packages": ""}

Record = Callable[[str, object], None]


@pytest.fixture(scope="module", params=BROKERS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    if request.param == "kafka":
        request.getfixturevalue("java")
    with BROKERS[request.param](tmp_path_factory.mktemp("broker"), BROKER_SETTINGS) as server:
        yield server


@pytest.fixture
def observer(broker: ServerProcess) -> Observer:
    return Observer(broker.bootstrap)


@pytest.fixture
def start_spark(java: None, tmp_path: Path) -> Iterator[Callable[..., SparkSession]]:
    """Starts the test's session: one at a time, as Spark has it."""
    sessions: dict[str, SparkSession] = {}

    def start(master: str, **settings: str) -> SparkSession:
        with chdir(tmp_path):  # Spark 4.0 leaves folders behind where it starts.
            session = spark_session("muster: members", {**SMALL_DRIVER, "spark.master": master, **settings})
        sessions[session.sparkContext.applicationId] = session
        return session

    yield start
    for application, session in sessions.items():
        session.stop()
        # Workers of a local cluster keep the logs of their executors within PySpark itself.
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


@dataclass
class Sink:
    """A folder that `process` writes to: a file for each task attempt, a line for each row."""

    folder: Path
    pause_s: float = 0.0

    def process(self) -> Callable[[Any, Any], None]:
        """To be sent to executors: it needs nothing of these tests there."""
        folder, pause_s = str(self.folder), self.pause_s

        def write(batch: Any, context: Any) -> None:
            import time

            from muster.spark.members import member

            here = member.__file__
            time.sleep(pause_s)  # Stands for the work.
            with open(f"{folder}/{context.task_attempt_id}", "a") as rows:
                rows.writelines(
                    f"{row['partition']} {row['offset']} {row['value'].decode()} {here}\n"
                    for row in batch.to_pylist()
                )

        return write

    def rows(self) -> list[Seen]:
        """Everything that was written so far, by the order of the task attempts."""
        found = []
        for path in sorted(self.folder.iterdir(), key=lambda path: int(path.name)):
            for line in path.read_text().splitlines():
                partition, offset, value, source = line.split()
                found.append(Seen(int(path.name), int(partition), int(offset), value, source))
        return found


@dataclass(frozen=True)
class Seen:
    task_attempt_id: int
    partition: int
    offset: int
    value: str
    source: str


@dataclass
class Source:
    """A topic of PARTITIONS with ROWS rows, and a group that has not been used."""

    observer: Observer
    topic: str = field(init=False)
    group: str = field(default_factory=lambda: unique("members"))

    def __post_init__(self) -> None:
        self.topic = self.observer.create_topic("source", PARTITIONS)
        self.values = [f"row-{number}" for number in range(ROWS)]
        self.observer.write(self.topic, self.values)

    def is_committed(self) -> bool:
        return self.observer.committed(self.group, self.topic) == self.observer.log_ends(
            self.topic, PARTITIONS
        )


@pytest.mark.parametrize("count", [2, 4])
def test_members_read_every_row_exactly_once(
    broker: ServerProcess,
    observer: Observer,
    start_spark: Callable[..., SparkSession],
    tmp_path: Path,
    record_property: Record,
    count: int,
) -> None:
    spark = start_spark(f"local[{count}]", **{"spark.executorEnv.PYTHONPATH": str(ROOT)})
    # Slow enough for one that comes late to have work.
    source, sink = Source(observer), Sink(tmp_path / "rows", pause_s=0.1)
    sink.folder.mkdir()
    report = members.run(
        spark, broker.bootstrap, source.group, [source.topic], count, sink.process(), batch_rows=100
    )
    assert sorted(row.value for row in sink.rows()) == sorted(source.values)
    assert source.is_committed()
    assert observer.state(source.group) == "EMPTY", "no member has stayed behind"
    assert (report.attempts, report.rows, len(report.members)) == (1, ROWS, count)
    assert {where[1]: rows for where, rows in report.rows_by_partition().items()} == dict(
        Counter(row.partition for row in sink.rows())
    )
    shares = sorted(member.rows for member in report.members)
    assert shares[0] > 0, "every member had its share"
    record_property("figure", f"members: {count} on {broker}: {ROWS:,} rows, {shares} each, all once")


def test_no_row_is_lost_when_an_executor_is_killed(
    broker: ServerProcess,
    observer: Observer,
    start_spark: Callable[..., SparkSession],
    tmp_path: Path,
    record_property: Record,
) -> None:
    """Two executors with two members each; `muster` comes to them as a zip, and no path of the driver does."""
    spark = start_spark("local-cluster[2,2,1024]")
    context = spark.sparkContext
    wait_until(lambda: slots_now(context).total == 4, "executors", DEADLINE_S)
    context.addPyFile(str(zip_muster(tmp_path / "muster.zip")))
    source, sink = Source(observer), Sink(tmp_path / "rows", pause_s=0.02)
    sink.folder.mkdir()
    killer = Killer(source)
    killer.start()
    report = members.run(
        spark,
        broker.bootstrap,
        source.group,
        [source.topic],
        4,
        sink.process(),
        batch_rows=20,
        settings={"session.timeout.ms": "6000"},
    )
    killer.join(DEADLINE_S)
    assert killer.error is None
    seen = sink.rows()
    assert {row.value for row in seen} == set(source.values), "a row is lost"
    assert source.is_committed()
    assert {".zip" in row.source for row in seen} == {True}, "members came from the zip"
    assert (report.attempts, len(report.failures)) == (2, 1)
    repeated = len(seen) - ROWS
    explain_repeats(seen, killer.committed, first_task_attempt=min(m.task_attempt_id for m in report.members))
    outcome = f"an executor killed at {sum(killer.committed.values()):,} committed rows: none lost"
    record_property("figure", f"members: 4 on {broker}, {outcome}, {repeated} seen twice")


def explain_repeats(seen: list[Seen], committed: dict[int, int], first_task_attempt: int) -> None:
    """A row is seen twice if, and only if, the first attempt saw it behind its partition's last commit.

    `committed` are the group's offsets just before the kill: the last commit is there or further on. It is where
    the second attempt begins. Within an attempt no row is seen twice.
    """
    before: dict[int, list[int]] = defaultdict(list)
    after: dict[int, list[int]] = defaultdict(list)
    for row in seen:
        (after if row.task_attempt_id >= first_task_attempt else before)[row.partition].append(row.offset)
    repeated = 0
    for partition in range(PARTITIONS):
        assert len(set(before[partition])) == len(before[partition])
        assert len(set(after[partition])) == len(after[partition])
        twice = set(before[partition]) & set(after[partition])
        last_commit = min(after[partition], default=len(before[partition]))
        assert last_commit >= committed.get(partition, 0)
        assert twice == {offset for offset in before[partition] if offset >= last_commit}
        repeated += len(twice)
    assert repeated == len(seen) - ROWS
    assert repeated > 0, "the kill came just after all commits: nothing is shown"


class Killer(threading.Thread):
    """Kills one executor process when the group has committed KILL_AT rows, and knows what was committed."""

    def __init__(self, source: Source) -> None:
        super().__init__(daemon=True)
        self._source = source
        self.committed: dict[int, int] = {}
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            wait_until(self._is_midway, f"{KILL_AT} rows committed", DEADLINE_S)
            time.sleep(0.5)  # Half of the interval of commits: there are rows behind the last one.
            self.committed = self._source.observer.committed(self._source.group, self._source.topic)
            executor_processes()[0].kill()
        except Exception as error:  # Raised where the test is.
            self.error = error

    def _is_midway(self) -> bool:
        committed = self._source.observer.committed(self._source.group, self._source.topic)
        return sum(committed.values()) >= KILL_AT


def executor_processes() -> list[psutil.Process]:
    """The executors that this process' Spark has started."""
    children = psutil.Process(os.getpid()).children(recursive=True)
    alive = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in alive if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())]


def zip_muster(path: Path) -> Path:
    """The package alone: what runs in the executors needs nothing else of ours."""
    with zipfile.ZipFile(path, "w") as archive:
        for source in sorted((ROOT / "muster").rglob("*.py")):
            archive.write(source, source.relative_to(ROOT))
    return path
