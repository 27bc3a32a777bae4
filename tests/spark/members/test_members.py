"""`members.run` in the one Spark session of these tests: two members in its two slots, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupType
from pyspark.sql import SparkSession

from harness.observer import Observer, unique
from harness.processes import ServerProcess, wait_until
from harness.wire import WireClient
from muster.spark import members
from muster.spark.members import MembersError
from muster.spark.members.driver import failure_reason
from muster.spark.members.slots import slots_now
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.spark.members.member_threads import CONSUMER, group_type

pytestmark = pytest.mark.xdist_group("spark")
PARTITIONS = 12
ROWS = 600
TIMEOUT_S = 60
QUICK = {"fetch.wait.max.ms": "50", "heartbeat.interval.ms": "300"}
NEW = {"fetch.wait.max.ms": "50", **CONSUMER}


@pytest.fixture
def topic(observer: Observer) -> str:
    name = observer.create_topic("members", PARTITIONS)
    observer.write(name, [f"row-{number}" for number in range(ROWS)])
    return name


@pytest.fixture
def group() -> str:
    return unique("members")


def writing_to(folder: Path) -> Any:
    """A `process` that notes its rows in a file of its task's."""
    path = str(folder)

    def process(batch: Any, context: Any) -> None:
        with open(f"{path}/{context.task_attempt_id}", "a") as rows:
            rows.writelines(f"{value.decode()}\n" for value in batch.column("value").to_pylist())

    return process


def written_to(folder: Path) -> list[str]:
    return sorted(line for path in folder.iterdir() for line in path.read_text().splitlines())


def nothing(batch: Any, context: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("settings", "kind"),
    [(QUICK, ConsumerGroupType.CLASSIC), (NEW, ConsumerGroupType.CONSUMER)],
    ids=["classic", "consumer"],
)
def test_two_members_read_every_row_once_and_report(
    spark: SparkSession,
    observer: Observer,
    topic: str,
    tmp_path: Path,
    settings: Mapping[str, str],
    kind: ConsumerGroupType,
) -> None:
    group, process = unique("members"), writing_to(tmp_path)
    report = members.run(
        spark, observer.bootstrap, group, [topic], 2, process, batch_rows=50, settings=settings
    )
    assert written_to(tmp_path) == sorted(f"row-{number}" for number in range(ROWS))
    assert report.ends == {(topic, where): end for where, end in observer.log_ends(topic, PARTITIONS).items()}
    assert report.rows_by_partition() == {where: rows for where, rows in report.ends.items() if rows}
    assert observer.committed(group, topic) == observer.log_ends(topic, PARTITIONS)
    assert [member.member for member in report.members] == [0, 1]
    assert (report.attempts, report.failures, report.is_stopped) == (1, (), False)
    assert next(iter(report.lines())) == f"{group}: {ROWS} rows by 2 members, at the end"
    assert observer.state(group) == "EMPTY"
    assert group_type(observer.bootstrap, group) is kind


def test_an_attempt_that_fails_is_made_again_and_counted(
    broker: ServerProcess, spark: SparkSession, topic: str, group: str, tmp_path: Path
) -> None:
    flag, write = str(tmp_path / "has-failed"), writing_to(tmp_path)

    def fail_once(batch: Any, context: Any) -> None:
        import os

        if not os.path.exists(flag):
            open(flag, "w").close()
            raise ValueError("out of order")
        write(batch, context)

    report = members.run(spark, broker.bootstrap, group, [topic], 1, fail_once, settings=QUICK)
    assert report.failures == ("ValueError: out of order",)
    assert report.rows == ROWS
    assert len(written_to(tmp_path)) == ROWS


def test_the_last_attempt_says_why(
    broker: ServerProcess, spark: SparkSession, topic: str, group: str
) -> None:
    def fail(batch: Any, context: Any) -> None:
        raise ValueError("always")

    failed = f"the members of group {group} failed, in attempt 1 of 1: ValueError: always"
    with pytest.raises(MembersError, match=f"^{failed}$"):
        members.run(spark, broker.bootstrap, group, [topic], 1, fail, attempts=1, settings=QUICK)


def test_more_members_than_slots_are_refused_at_once_with_the_numbers(
    broker: ServerProcess, spark: SparkSession, topic: str, group: str
) -> None:
    started = time.monotonic()
    with pytest.raises(
        MembersError, match=r"3 members need 3 free slots at once, and local\[2\] has 2: 2 slots"
    ):
        members.run(spark, broker.bootstrap, group, [topic], 3, nothing)
    assert time.monotonic() - started < 60, "Spark's own check takes ten minutes"


def test_slots_that_another_job_takes_are_not_free(
    broker: ServerProcess, spark: SparkSession, topic: str, group: str, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    with busy_slot(spark, release), pytest.raises(MembersError, match="has 1: 2 slots, of which 1 are busy"):
        members.run(spark, broker.bootstrap, group, [topic], 2, nothing)


class busy_slot:
    """A job of one task that runs until it is released."""

    def __init__(self, spark: SparkSession, release: Path) -> None:
        self._spark, self._release = spark, release
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> None:
        path = str(self._release)

        def wait(_: int) -> int:
            import os
            import time

            while not os.path.exists(path):
                time.sleep(0.02)
            return 1

        context = self._spark.sparkContext
        self._job = self._pool.submit(lambda: context.parallelize([1], 1).map(wait).collect())
        wait_until(lambda: slots_now(context).busy == 1, "the other job runs", TIMEOUT_S)

    def __exit__(self, *_: object) -> None:
        self._release.touch()
        self._job.result(TIMEOUT_S)
        self._pool.shutdown()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "members": ({"members": 0}, "members must be a number from 1 on, not 0"),
    "no topics": ({"topics": []}, r"topics must be a list of at least one topic's name, not \[\]"),
    "one name": ({"topics": "orders"}, "topics must be a list of at least one topic's name, not 'orders'"),
    "twice": ({"topics": ["a", "b", "a"]}, "a topic is named twice among a, b, a"),
    "unknown topics": ({"topics": ["nope", "neither"]}, "has no topic neither and no topic nope"),
    "a pattern": ({"topics": ["^order.*"]}, r"has no topic \^order"),
    "group": ({"group_id": ""}, "bootstrap and group_id must not be empty"),
    "process": ({"process": "print"}, "process must be a function of a batch and a context"),
    "batch": ({"batch_rows": 0}, "batch_rows must be above zero, not 0"),
    "taken settings": ({"settings": {"group.id": "x"}}, "group.id cannot be given among the settings"),
    "wrong settings": ({"settings": {"fetch.wait": "1"}}, "the client refuses its settings: No such config"),
    "no broker": (
        {"bootstrap": "127.0.0.1:1", "settings": {"log_level": "0"}},
        "describing topics on 127.0.0.1:1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence_before_a_stage_starts(
    broker: ServerProcess,
    observer: Observer,
    spark: SparkSession,
    topic: str,
    group: str,
    case: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.spark.members.checks.TIMEOUT_S", 3.0)
    wrong, sentence = REFUSED[case]
    given: dict[str, Any] = {
        "bootstrap": broker.bootstrap,
        "group_id": group,
        "topics": [topic],
        "members": 1,
    }
    given["process"] = nothing
    with pytest.raises(MembersError, match=sentence):
        members.run(spark, **given | wrong)
    assert observer.state(group) in ("DEAD", "absent")
    assert observer.partition_count("nope") == 0, "asking for a topic has not made it"


def test_a_group_of_something_else_than_consumers_is_refused(
    broker: ServerProcess, spark: SparkSession, topic: str, group: str
) -> None:
    with WireClient(broker.bootstrap) as client:
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=60_000,  # It sends no heartbeats.
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="connect",
            protocols=[JoinGroupRequestProtocol(name="default", metadata=b"")],
        )
        assert client.ask(join, 2).error_code == 0
        with pytest.raises(MembersError, match=f"describing group {group} on .*not a consumer group"):
            members.run(spark, broker.bootstrap, group, [topic], 1, nothing)


def test_a_group_that_is_beyond_a_log_is_refused(
    broker: ServerProcess, observer: Observer, spark: SparkSession, topic: str, group: str
) -> None:
    observer.commit(group, topic, {3: 10_000})
    with pytest.raises(
        MembersError, match=rf"group {group} is on {topic}-3 at 10000, and the log ends at \d+"
    ):
        members.run(spark, broker.bootstrap, group, [topic], 1, nothing)


def test_the_reason_of_a_failure_is_the_exception_of_the_python_task() -> None:
    message = (
        "Job aborted due to stage failure: barrier task ResultTask(2, 0) finished unsuccessfully.\n"
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n    process()\n'
        "ValueError: no good\n\n\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:581)\n"
    )
    assert failure_reason(message) == "ValueError: no good"
    lost = "Job aborted due to stage failure: Executor 1 lost (exit code 137)\nDriver stacktrace:"
    assert failure_reason(lost) == "Job aborted due to stage failure: Executor 1 lost (exit code 137)"
