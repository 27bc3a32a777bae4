"""The jobs `lag` and `commits` over a history, against figures of pandas' and plain loops over the raw log.

The history is twelve minutes long and over: who commits what when is written record by record, at times of our
own.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from harness.messages import partition_of
from harness.processes import ServerProcess
from harness.spark_tables import read_arrow
from muster.spark.jobs.job import Step, StepResult, load_job
from muster.spark.jobs.options import RunOptions
from muster.spark.jobs.runner import JobFailedError, RunProgress, run
from tests.spark.conftest import SETTINGS, TARGETS
from tests.spark.offsets_records import (
    MINUTE_MS,
    PARTITIONS,
    TOPIC,
    Commit,
    OffsetsTopic,
    make_topic,
    read_all,
    write_at,
)

pytestmark = pytest.mark.xdist_group("spark")

FIRST_MS = (time.time_ns() // 1_000_000 - 15 * MINUTE_MS) // MINUTE_MS * MINUTE_MS
MINUTES = 12
SOURCE = "orders"
SOURCE_PARTITIONS = 2
EVERY_MS = 1_700  # A record in each partition of the source.
BATCH = 250
JUNK = (
    (b"\0\x63what", b"is this", "unknown record type 99"),
    (
        b"\0\1\0\4junk\0\6orders\0\0\0\0",
        b"\0\x09",
        "the value does not decode: OffsetCommitValue of version 9",
    ),
    (b"\0\1\x7f\xffjunk", b"\0\4", "the key does not decode"),
)


def at(minute: float) -> int:
    return FIRST_MS + int(minute * MINUTE_MS)


def written_by(at_ms: int) -> int:
    """Records in a partition of the source that are older than that."""
    return max(0, -(-(min(at_ms, at(MINUTES)) - FIRST_MS) // EVERY_MS))


def write_history(topic: OffsetsTopic) -> None:
    make_topic(topic.bootstrap, SOURCE, SOURCE_PARTITIONS)
    for partition in range(SOURCE_PARTITIONS):
        write_at(topic.bootstrap, SOURCE, partition, list(range(FIRST_MS, at(MINUTES), EVERY_MS)))
    for second in range(3, MINUTES * 60, 10):
        at_ms = FIRST_MS + second * 1000
        for partition in range(SOURCE_PARTITIONS):
            topic.commit("steady", SOURCE, partition, written_by(at_ms), at_ms)
            if second < 150:
                topic.commit("stopped", SOURCE, partition, written_by(at_ms) - 5, at_ms)
            if second < 90:
                topic.commit("deleted", SOURCE, partition, 10, at_ms)
        topic.commit("of-what-is-gone", "no-such-topic", 0, 7, at_ms)
    for partition in range(SOURCE_PARTITIONS):
        topic.commit("deleted", SOURCE, partition, None, at(4.2))
    for number in range(130):
        topic.commit("noisy", SOURCE, 0, number, at(6) + number * 400)
    for group, (key, value, _) in zip(("steady", "stopped", "noisy"), JUNK, strict=True):
        topic.put(group, key, value, at(7))
    topic.put("steady", b"\0\2\0\6steady", None, at(7))
    topic.flush()


@pytest.fixture(scope="module")
def server(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {**SETTINGS, "offsets.topic.num.partitions": str(PARTITIONS)}
    with TARGETS[target](tmp_path_factory.mktemp("offsets"), settings) as found:
        yield found


@pytest.fixture(scope="module")
def history(server: ServerProcess) -> OffsetsTopic:
    topic = OffsetsTopic(server.bootstrap)
    write_history(topic)
    return topic


@pytest.fixture(scope="module")
def commits(history: OffsetsTopic) -> list[Commit]:
    """Every commit of the history, by a plain consumer and the coordinator's own decoder."""
    found = [commit for commit in history.commits() if commit.at_ms < at(MINUTES)]
    assert {each.group_id for each in found} == {"steady", "stopped", "deleted", "of-what-is-gone", "noisy"}
    return found


class Ran(NamedTuple):
    """Where a job has written, and how much it has read, both of its runs together."""

    out: Path
    records: int
    dead_letters: int


def run_all(spark: SparkSession, name: str, topic: OffsetsTopic, out: Path) -> Ran:
    """Run the job in small batches, of which the second fails, and again to the end."""
    options = RunOptions(topic.bootstrap, str(out), max_offsets_per_batch=BATCH)
    job = load_job(name)
    seen: list[RunProgress] = []

    def write(batch: DataFrame, step: Step) -> StepResult:
        if step.batch_id == 1:
            raise RuntimeError("the second batch fails")
        return job.write(batch, step)

    with pytest.raises(JobFailedError, match="Spark gave up: the second batch fails"):
        run(spark, replace(job, write=write), options, seen.append)
    (first,) = seen
    second = run(spark, job, options, lambda progress: None)
    assert first.batches == 1
    assert 0 < first.records <= BATCH
    assert second.batches >= 1
    return Ran(out, first.records + second.records, first.dead_letters + second.dead_letters)


def rows_of(out: Path, table: str) -> list[dict[str, Any]]:
    return [each for each in read_arrow(out, table).to_pylist() if minute_ms(each) < at(MINUTES)]


def minute_ms(row: dict[str, Any]) -> int:
    return int(row["minute"].timestamp() * 1000)


@pytest.fixture(scope="module")
def commits_run(spark: SparkSession, history: OffsetsTopic, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_all(spark, "commits", history, tmp_path_factory.mktemp("commits"))


@pytest.fixture(scope="module")
def lag_run(spark: SparkSession, history: OffsetsTopic, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_all(spark, "lag", history, tmp_path_factory.mktemp("lag"))


def test_commits_are_counted_as_pandas_counts_them(commits: list[Commit], commits_run: Ran) -> None:
    assert commits_run.records >= len(commits) + len(JUNK)
    frame = pd.DataFrame(
        [(each.minute_ms, each.group_id, *each.key[1:]) for each in commits if each.offset is not None],
        columns=["minute", "group_id", "topic", "partition"],
    )
    per_partition = frame.groupby(["minute", "group_id", "topic", "partition"]).size().reset_index(name="n")
    expected = {
        (minute, group): (int(some.n.sum()), len(some), some.n.sum() / 60, bool(some.n.max() > 60))
        for (minute, group), some in per_partition.groupby(["minute", "group_id"])
    }
    found = {
        (minute_ms(row), row["group_id"]): (
            row["commits"],
            row["partitions"],
            row["per_second"],
            row["noisy"],
        )
        for row in rows_of(commits_run.out, "commits")
    }
    assert found == expected
    assert len(rows_of(commits_run.out, "commits")) == len(expected), "a row is there twice"
    assert {group for (_, group), figures in found.items() if figures[3]} == {"noisy"}


def log_end(times_ms: list[int], until_ms: int) -> int:
    return sum(each < until_ms for each in times_ms)


def expected_lag(
    commits: list[Commit], times_ms: dict[int, list[int]]
) -> dict[tuple[int, str, str, int], tuple[int, int | None, int | None, float | None]]:
    """Row by row: who stood where at the end of each minute, and how far behind that was."""
    by_key: dict[tuple[str, str, int], list[Commit]] = defaultdict(list)
    for commit in commits:
        by_key[commit.key].append(commit)
    rows: dict[tuple[int, str, str, int], tuple[int, int | None, int | None, float | None]] = {}
    for (group, topic, partition), all_of_key in by_key.items():
        for minute in range(FIRST_MS, at(MINUTES), MINUTE_MS):
            so_far = [each for each in all_of_key if each.at_ms < minute + MINUTE_MS]
            newest = max(so_far, key=lambda each: each.place, default=None)
            if newest is None or newest.offset is None:
                continue
            is_commit = newest.minute_ms == minute
            if topic != SOURCE:
                if is_commit:
                    rows[minute, group, topic, partition] = (newest.offset, None, None, None)
                continue
            end = log_end(times_ms[partition], minute + MINUTE_MS)
            if is_commit or end > newest.offset:
                behind = end > newest.offset
                since_ms = times_ms[partition][newest.offset] if behind else minute + MINUTE_MS
                seconds = (minute + MINUTE_MS - since_ms) / 1000
                rows[minute, group, topic, partition] = (
                    newest.offset,
                    end,
                    max(end - newest.offset, 0),
                    seconds,
                )
    return rows


def test_lag_is_what_a_loop_over_the_raw_logs_finds(
    history: OffsetsTopic, commits: list[Commit], lag_run: Ran
) -> None:
    times_ms: dict[int, list[int]] = defaultdict(list)
    for message in read_all(history.bootstrap, SOURCE):
        times_ms[partition_of(message)].append(message.timestamp()[1])
    expected = expected_lag(commits, times_ms)
    found = {
        (minute_ms(row), row["group_id"], row["topic"], row["partition"]): row
        for row in rows_of(lag_run.out, "lag")
    }
    assert found.keys() == expected.keys()
    assert len(found) == len(rows_of(lag_run.out, "lag")), "a row is there twice"
    for key, (offset, end, records, seconds) in expected.items():
        row = found[key]
        assert (row["committed_offset"], row["log_end_offset"], row["lag_records"]) == (
            offset,
            end,
            records,
        ), key
        if seconds is None:
            assert row["lag_seconds"] is None, key
        else:  # Interpolation promises a minute; records that come evenly are found more closely.
            assert abs(row["lag_seconds"] - seconds) < 5, key
    last = at(MINUTES - 1)
    assert found[last, "stopped", SOURCE, 0]["lag_records"] > 200
    assert (at(3), "deleted", SOURCE, 0) in found
    assert (at(4), "deleted", SOURCE, 0) not in found
    for row in rows_of(lag_run.out, "log_ends"):
        assert row["log_end_offset"] == log_end(times_ms[row["partition"]], minute_ms(row) + MINUTE_MS)


def test_a_batch_that_spark_repeats_after_a_crash_leaves_the_tables_as_they_are(
    spark: SparkSession, history: OffsetsTopic, lag_run: Ran
) -> None:
    tmp_path = lag_run.out
    before = {table: rows_of_letters(tmp_path, table) for table in ("lag", "log_ends", "dead_letters")}
    # As after a kill when the tables were written and the checkpoint was not written: Spark plans the batch again.
    newest = max((tmp_path / "_checkpoints/lag/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()
    newest_state = max((tmp_path / "_state/lag").glob("*.json"))
    assert f'"batch_id": {newest.name}' in newest_state.read_text()
    options = RunOptions(history.bootstrap, str(tmp_path), max_offsets_per_batch=BATCH)
    again = run(spark, load_job("lag"), options, lambda progress: None)
    assert again.batches == 1
    assert again.records < lag_run.records
    assert {table: rows_of_letters(tmp_path, table) for table in before} == before


def rows_of_letters(out: Path, table: str) -> list[str]:
    """All rows, sorted; of the minutes of the history where they have one."""
    rows = read_arrow(out, table).to_pylist()
    return sorted(str(row) for row in rows if "minute" not in row or minute_ms(row) < at(MINUTES))


def test_what_cannot_be_used_is_in_dead_letters_once_with_its_bytes(
    history: OffsetsTopic, commits_run: Ran
) -> None:
    done, tmp_path = commits_run, commits_run.out
    letters = read_arrow(tmp_path, "dead_letters").to_pylist()
    assert done.dead_letters == len(JUNK)
    assert sorted((row["key"], row["value"]) for row in letters) == sorted(
        (key, value) for key, value, _ in JUNK
    )
    raw = {(each.partition(), each.offset()): each for each in history.messages()}
    for row in letters:
        message = raw[row["source_partition"], row["source_offset"]]
        assert (message.key(), message.value(), message.timestamp()[1]) == (
            row["key"], row["value"], row["seen_at"].timestamp() * 1000,
        )  # fmt: skip
        reason = next(reason for key, _, reason in JUNK if key == row["key"])
        assert row["reason"].startswith(reason)
        assert (row["job"], row["source_topic"]) == ("commits", TOPIC)


def test_a_commit_of_a_minute_that_is_over_is_reported_and_changes_no_figure(
    spark: SparkSession, history: OffsetsTopic, commits_run: Ran
) -> None:
    tmp_path = commits_run.out
    options = RunOptions(history.bootstrap, str(tmp_path))
    before = rows_of_letters(tmp_path, "commits")
    history.commit("late", SOURCE, 0, 5, at(13))
    history.flush()
    notes: list[str] = []
    run(spark, load_job("commits"), options, lambda progress: notes.extend(progress.notes))
    assert notes == ["1 commits came too late to be counted"]
    assert rows_of_letters(tmp_path, "commits") == before


def test_offsets_of_a_transaction_count_if_it_was_committed(
    spark: SparkSession, history: OffsetsTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also: the marker at the end of a partition is no record, and the minute ends nevertheless."""
    history.commit_in_transaction("aborted", SOURCE, 100, abort=True)
    history.commit_in_transaction("exact", SOURCE, 100, abort=False)
    now_ms = time.time_ns() // 1_000_000
    monkeypatch.setattr("muster.spark.jobs.runner.wall_ms", lambda: now_ms + 3 * MINUTE_MS)
    run(spark, load_job("commits"), RunOptions(history.bootstrap, str(tmp_path)), lambda progress: None)
    rows = read_arrow(tmp_path, "commits").to_pylist()
    fresh = {row["group_id"] for row in rows if minute_ms(row) >= at(MINUTES) + MINUTE_MS}
    assert "exact" in fresh
    assert "aborted" not in {row["group_id"] for row in rows}
