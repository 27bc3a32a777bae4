"""Real queries whose progress a group follows: at their end, after restarts, and where it is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from harness.observer import Observer, unique
from harness.processes import ServerProcess, wait_until
from muster.spark import progress
from muster.spark.progress import Follower
from muster.spark.progress.checkpoint import Checkpoint
from muster.spark.progress.checkpoint_files import CheckpointFiles
from muster.spark.progress.positions import ConflictError, LiveMembersError, OffsetConflict, ProgressError
from protocol.topic_partition import TopicPartition
from tests.spark.conftest import SETTINGS, TARGETS
from tests.spark.members.member_threads import CONSUMER
from tests.spark.topics import PARTITIONS, Topic, run_to_end

pytestmark = pytest.mark.xdist_group("spark")

DEADLINE_S = 60.0
CLASSIC: Mapping[str, str] = {}
SILENT_S = 3_600.0


class Job:
    """A query on a topic, and the group that follows it."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.checkpoint = folder / "checkpoint"
        self.group = unique("job")

    def follow(self, **options: Any) -> Follower:
        """Options may be wrong ones."""
        given: dict[str, Any] = {"checkpoint": self.checkpoint, "bootstrap": self.bootstrap}
        return progress.follow(self.spark, **{"group_id": self.group, **given, **options})

    def run(self, table: DataFrame) -> int:
        """Read what is there now, to the end; returns the rows."""
        return run_to_end(self._writer(table).trigger(availableNow=True).start())

    @contextmanager
    def running(self, table: DataFrame) -> Iterator[StreamingQuery]:
        """The query runs on, until the end of the block."""
        query = self._writer(table).trigger(processingTime="100 milliseconds").start()
        try:
            yield query
        finally:
            query.stop()

    def _writer(self, table: DataFrame) -> DataStreamWriter:
        return table.writeStream.format("noop").option("checkpointLocation", str(self.checkpoint))


@pytest.fixture
def job(spark: SparkSession, broker: ServerProcess, tmp_path: Path) -> Job:
    return Job(spark, broker.bootstrap, tmp_path)


def values(count: int) -> list[str]:
    return [f"a-{number}" for number in range(count)]


def plain(offsets: Mapping[TopicPartition, int], topic: str) -> dict[int, int]:
    return {where.partition: offset for where, offset in offsets.items() if where.topic == topic}


def end(count: int) -> dict[int, int]:
    """The offsets behind `count` rows, written round the partitions."""
    return dict.fromkeys(range(PARTITIONS), count // PARTITIONS)


def wait_for_group(observer: Observer, group: str, topic: str, rows: int) -> None:
    """Wait until the group is behind so many rows of the topic."""
    wait_until(lambda: observer.committed(group, topic) == end(rows), f"{group} at {rows} rows", DEADLINE_S)


def test_the_group_is_at_the_end_of_the_last_batch_when_the_follower_is_closed(
    job: Job, topic: Topic, observer: Observer
) -> None:
    topic.write(*values(60))
    with job.follow() as follower:
        assert (follower.state, follower.committed) == ("following", {})
        job.run(topic.stream(maxOffsetsPerTrigger="15"))
        wait_until(lambda: plain(follower.committed, topic.name), "a first commit", DEADLINE_S)
    assert observer.committed(job.group, topic.name) == end(60)
    assert plain(follower.committed, topic.name) == end(60)
    assert (follower.state, follower.error, follower.pending) == ("closed", None, {})


@pytest.mark.parametrize("client", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_batches_move_the_group_while_the_query_runs(
    job: Job, topic: Topic, observer: Observer, client: Mapping[str, str]
) -> None:
    with job.follow(client=client), job.running(topic.stream()):
        for count in (30, 60):
            topic.write(*values(30))
            wait_for_group(observer, job.group, topic.name, count)


def test_a_restart_makes_good_what_no_event_reported(
    job: Job, topic: Topic, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener is deaf and the follower is never closed: as if the driver had died after its last batch."""
    topic.write(*values(30))
    with job.follow():
        job.run(topic.stream())
    topic.write(*values(30))
    with monkeypatch.context() as deaf:
        deaf.setattr(Follower, "wake", lambda *_, **__: None)
        deaf.setattr("muster.spark.progress.follower.LOOK_EVERY_S", SILENT_S)
        crashed = job.follow()
        wait_until(lambda: crashed._answered >= 1, "the look at the start", DEADLINE_S)
        job.run(topic.stream())
        assert observer.committed(job.group, topic.name) == end(30)
    with job.follow() as restarted:
        assert observer.committed(job.group, topic.name) == end(60)
        assert plain(restarted.committed, topic.name) == end(60)
    assert crashed.close()


def test_a_dropped_event_is_made_good_by_a_look_now_and_then(
    job: Job, topic: Topic, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Follower, "wake", lambda *_, **__: None)
    monkeypatch.setattr("muster.spark.progress.follower.LOOK_EVERY_S", 0.2)
    topic.write(*values(30))
    follower = job.follow()
    job.run(topic.stream())
    wait_for_group(observer, job.group, topic.name, 30)
    assert follower.close()


def test_a_checkpoint_behind_the_group_is_refused_before_the_query_starts_and_may_reset_it(
    job: Job, topic: Topic, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    topic.write(*values(30))
    job.run(topic.stream())
    ahead = {0: 10, 1: 25, 2: 3}
    observer.commit(job.group, topic.name, ahead)
    with pytest.raises(ConflictError) as refused:
        job.follow()
    assert refused.value.conflicts == (OffsetConflict(topic.name, 1, 10, 25),)
    assert f"{topic.name}-1 (checkpoint: 10, group: 25)" in str(refused.value)
    assert observer.committed(job.group, topic.name) == ahead
    with job.follow(on_conflict="reset"):
        assert observer.committed(job.group, topic.name) == end(30)
    assert "set back" in caplog.text


def test_a_lost_checkpoint_is_refused_before_the_first_batch(
    job: Job, topic: Topic, other_topic: Topic, observer: Observer
) -> None:
    topic.write(*values(30))
    observer.commit(job.group, topic.name, {0: 7})
    with pytest.raises(ConflictError, match=rf"{topic.name}-0 \(checkpoint: nothing yet, group: 7\)"):
        job.follow()
    with job.follow(topics=[other_topic.name]) as follower:
        job.run(topic.stream())
    assert follower.committed == {}
    assert observer.committed(job.group, topic.name) == {0: 7}


@pytest.mark.parametrize("client", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_a_group_with_live_members_is_refused(
    job: Job, topic: Topic, observer: Observer, client: Mapping[str, str]
) -> None:
    with member_of(job, topic.name, observer, client), pytest.raises(LiveMembersError, match="a-member at"):
        job.follow()


def test_a_member_that_comes_later_ends_the_following_and_not_the_query(
    job: Job, topic: Topic, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    follower = job.follow()
    topic.write(*values(30))
    with member_of(job, topic.name, observer), job.running(topic.stream()) as query:
        wait_until(lambda: follower.state == "stopped", "the follower stops", DEADLINE_S)
        assert query.isActive
    assert "1 live member: a-member at" in (follower.error or "")
    assert plain(follower.pending, topic.name) == end(30)
    assert "is followed no longer" in caplog.text
    assert observer.committed(job.group, topic.name) == {}
    assert not follower.close()


def test_the_query_is_stopped_with_its_follower_if_that_was_asked(
    job: Job, topic: Topic, observer: Observer
) -> None:
    follower = job.follow(stop_query=True)
    with job.running(topic.stream()) as query:
        topic.write(*values(30))
        wait_until(lambda: plain(follower.committed, topic.name) == end(30), "a first commit", DEADLINE_S)
        observer.commit(job.group, topic.name, {0: 1_000})
        topic.write(*values(30))
        wait_until(lambda: not query.isActive, "the query stops", DEADLINE_S)
    assert re.search(rf"{topic.name}-0 \(checkpoint: \d+, group: 1000\)", follower.error or "")
    assert not follower.close()


def test_several_sources_and_topics_are_followed_and_others_left_out(
    job: Job, topic: Topic, other_topic: Topic, observer: Observer, spark: SparkSession, tmp_path: Path
) -> None:
    topic.write(*values(30))
    other_topic.write(*values(60))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines.txt").write_text("hello\n")
    both = topic.stream().union(other_topic.stream()).selectExpr("CAST(value AS STRING)")
    table = both.union(spark.readStream.text(str(tmp_path / "in")))
    table = table.union(spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING)"))
    with job.follow() as follower, job.running(table):
        wait_until(lambda: plain(follower.committed, other_topic.name) == end(60), "both topics", DEADLINE_S)
    assert {where.topic for where in follower.committed} == {topic.name, other_topic.name}
    assert observer.committed(job.group, topic.name) == end(30)
    assert observer.committed(job.group, other_topic.name) == end(60)


def test_a_checkpoint_is_read_through_hadoop_and_survives_that_spark_deletes_old_entries(
    job: Job, topic: Topic, spark: SparkSession
) -> None:
    topic.write(*values(45))
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    try:
        job.run(topic.stream(maxOffsetsPerTrigger="6"))
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    files = CheckpointFiles(spark, job.checkpoint.as_uri())
    assert "0" not in files.names("commits")
    assert files.names("no-such-folder") == []
    assert files.read("no-such-file") is None
    found = Checkpoint(files).standing()
    assert found.batch_id is not None
    assert plain(found.offsets, topic.name) == end(45)
    assert Checkpoint(files).query_id() == json.loads((job.checkpoint / "metadata").read_text())["id"]


def test_a_deleted_topic_is_left_out_and_reported(
    job: Job, topic: Topic, other_topic: Topic, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    topic.write(*values(30))
    other_topic.write(*values(30))
    job.run(topic.stream().union(other_topic.stream()))
    observer.delete_topic(other_topic.name)
    wait_until(lambda: observer.partition_count(other_topic.name) == 0, "the topic is gone", DEADLINE_S)
    with job.follow() as follower:
        assert {where.topic for where in follower.missing} == {other_topic.name}
        assert plain(follower.committed, topic.name) == end(30)
    assert f"does not have them: {other_topic.name}-0" in caplog.text


def test_a_broker_that_comes_back_gets_the_newest_offsets(
    target: str, topic: Topic, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is of a cluster of its own, so that the query reads on while that is away."""
    monkeypatch.setattr("muster.spark.progress.group_offsets.ANSWER_TIMEOUT_S", 1.0)
    with TARGETS[target](tmp_path / "other", SETTINGS) as other:
        observer = Observer(other.bootstrap)
        observer.create_named_topic(topic.name, PARTITIONS)
        job = Job(spark, other.bootstrap, tmp_path)
        follower = job.follow()
        with job.running(topic.stream()):
            topic.write(*values(30))
            wait_until(lambda: plain(follower.committed, topic.name) == end(30), "a commit", DEADLINE_S)
            other.kill()
            topic.write(*values(30))
            wait_until(lambda: plain(follower.pending, topic.name) == end(60), "a commit waits", DEADLINE_S)
            wait_until(lambda: follower.error, "the error is reported", DEADLINE_S)
            assert not follower.flush(1.0)
            assert (follower.state, plain(follower.committed, topic.name)) == ("following", end(30))
            other.start()
            wait_until(lambda: plain(follower.committed, topic.name) == end(60), "the group", DEADLINE_S)
        assert follower.close(DEADLINE_S)
        assert follower.error is None
        observer.connect()
        assert observer.committed(job.group, topic.name) == end(60)


def test_settings_of_the_client_are_passed_on(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.spark.progress.group_offsets.ANSWER_TIMEOUT_S", 1.0)
    with pytest.raises(ProgressError, match=r'No such configuration property: "no\.such\.setting"'):
        job.follow(client={"no.such.setting": "1"})
    with pytest.raises(ProgressError, match="cannot be followed: "):
        job.follow(
            client={"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                    "sasl.username": "a", "sasl.password": "b"},
            start_timeout_s=0.0,
        )  # fmt: skip


@pytest.mark.parametrize(
    "wrong", [{"checkpoint": ""}, {"group_id": ""}, {"topics": []}, {"on_conflict": "perhaps"}]
)
def test_wrong_arguments_are_refused(job: Job, wrong: dict[str, object]) -> None:
    with pytest.raises(ProgressError, match=r"follow\(\) takes"):
        job.follow(**wrong)


def test_a_file_system_that_spark_does_not_know_is_refused(job: Job) -> None:
    with pytest.raises(ProgressError, match='No FileSystem for scheme "nosuch"'):
        job.follow(checkpoint="nosuch://somewhere/checkpoint")


def test_a_checkpoint_that_no_query_has_used_is_reported_at_the_end(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    with job.follow():
        pass
    assert "no query has used the checkpoint" in caplog.text


@contextmanager
def member_of(
    job: Job, topic: str, observer: Observer, client: Mapping[str, str] = CLASSIC
) -> Iterator[Consumer]:
    """A live member of the job's group, that commits nothing."""
    settings = {"bootstrap.servers": job.bootstrap, "group.id": job.group, "client.id": "a-member"}
    consumer = Consumer({**settings, **client, "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        wait_until(lambda: consumer.poll(0.1) or observer.owned(job.group), "the member owns", DEADLINE_S)
        yield consumer
    finally:
        consumer.close()
