"""`muster spark run`: what is refused before Spark starts, and in which words; what is claimed and held."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.observer import Observer
from harness.processes import ServerProcess
from muster.cli import run
from muster.spark.jobs.command import ProgressPrinter
from muster.spark.jobs.options import JOBS, RefusedRunError, parse_duration_ms
from muster.spark.jobs.runner import RunProgress
from muster.spark.jobs.source import TopicIdentity, claim

Say = Callable[..., str]
SOURCE = TopicIdentity("cluster-1", "__consumer_offsets", "id-1")


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Runs the command, which has to be refused without a Spark; returns the sentence."""

    def no_spark(*_: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("muster.spark.jobs.command.spark_session", no_spark)

    def say(*arguments: str) -> str:
        assert run(["spark", "run", *arguments]) == 1
        said = capsys.readouterr().err
        assert said.startswith("muster: ")
        assert said.count("\n") == 1, said
        return said.removeprefix("muster: ").strip()

    return say


def test_an_unknown_job_is_refused_with_those_there_are(refused: Say, tmp_path: Path) -> None:
    said = refused("lags", "--out", str(tmp_path))
    assert said == f"there is no job lags; there are {', '.join(sorted(JOBS))}"
    assert {"lag", "commits"} <= JOBS.keys()


def test_a_folder_that_cannot_be_written_is_refused(refused: Say, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = refused("lag", "--out", str(tmp_path / "file" / "tables"))
    assert said == f"--out {tmp_path}/file/tables cannot be written: Not a directory"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--watermark", "1"],
            "--watermark 1: a whole number with its unit is wanted, as 500ms, 90s, 1m, 2h",
        ),
        (["--watermark", "8d"], "--watermark 8d: it has to be between 0s and 7d"),
        (["--every", "1m"], "--every goes with --continuous"),
        (["--continuous", "--every", "10ms"], "--every 10ms: it has to be between 1s and 1d"),
        (["--max-offsets-per-batch", "0"], "--max-offsets-per-batch 0: it has to be above 0"),
        (["--noisy-per-second", "-1.0"], "--noisy-per-second -1.0: it has to be above 0"),
        (["--kafka-option", "security.protocol"], "--kafka-option security.protocol: NAME=VALUE is wanted"),
    ],
)
def test_wrong_options_are_refused(refused: Say, tmp_path: Path, options: list[str], said: str) -> None:
    assert refused("lag", "--out", str(tmp_path), *options) == said


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("90s", 90_000), ("2h", 7_200_000), ("1d", 86_400_000)]
)
def test_durations_have_units(text: str, ms: int) -> None:
    assert parse_duration_ms("every", text, "1ms", "1d") == ms


def test_a_bootstrap_that_does_not_answer_is_refused(
    refused: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_java: None
) -> None:
    monkeypatch.setattr("muster.spark.jobs.source.TIMEOUT_S", 0.5)
    said = refused("lag", "--out", str(tmp_path), "--bootstrap", "127.0.0.1:1")
    assert said.startswith("127.0.0.1:1 does not answer: ")


def test_a_topic_that_is_not_there_is_refused(
    refused: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_java: None, broker: ServerProcess
) -> None:
    from dataclasses import replace

    from muster.spark.jobs import commits

    monkeypatch.setattr(commits, "JOB", replace(commits.JOB, topic="never-made"))
    said = refused("commits", "--out", str(tmp_path), "--bootstrap", broker.bootstrap)
    assert said == f"there is no topic never-made on {broker.bootstrap}"


def test_jobs_of_events_read_the_topic_that_is_named_and_no_other_job_does(
    refused: Say, tmp_path: Path, spark_java: None, broker: ServerProcess
) -> None:
    """A store of `muster observe` is exported to one."""
    where = ("--out", str(tmp_path), "--bootstrap", broker.bootstrap, "--topic", "exported")
    for job in ("members", "rebalances"):
        assert refused(job, *where) == f"there is no topic exported on {broker.bootstrap}"
    for job in ("commits", "lag"):
        assert refused(job, *where) == "--topic goes with members and rebalances"


def test_a_second_run_of_the_same_job_is_refused(
    refused: Say,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark_java: None,
    broker: ServerProcess,
    observer: Observer,
) -> None:
    from dataclasses import replace

    from muster.spark.jobs import commits

    monkeypatch.setattr(commits, "JOB", replace(commits.JOB, topic=observer.create_topic("run", 1)))
    lock = tmp_path / "_checkpoints" / "commits.lock"
    lock.parent.mkdir()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = refused("commits", "--out", str(tmp_path), "--bootstrap", broker.bootstrap)
    assert said == f"another run of the job commits is writing to {tmp_path}"


def test_a_checkpoint_goes_on_with_its_own_topic_alone(tmp_path: Path) -> None:
    claim(str(tmp_path), "lag", SOURCE)
    (tmp_path / "_checkpoints" / "lag").mkdir()
    claim(str(tmp_path), "lag", SOURCE)
    with pytest.raises(RefusedRunError, match="of cluster cluster-1, and this is cluster cluster-2"):
        claim(str(tmp_path), "lag", TopicIdentity("cluster-2", SOURCE.topic, SOURCE.topic_id))
    with pytest.raises(RefusedRunError, match="it was deleted and created again since"):
        claim(str(tmp_path), "lag", TopicIdentity("cluster-1", SOURCE.topic, "id-2"))
    claim(str(tmp_path), "commits", TopicIdentity("cluster-2", SOURCE.topic, SOURCE.topic_id))


def test_tables_without_their_checkpoint_are_refused(tmp_path: Path) -> None:
    """A run from the beginning would write every row a second time, under other numbers."""
    (tmp_path / "_batches" / "lag").mkdir(parents=True)
    (tmp_path / "_batches" / "lag" / "lag.json").write_text("{}")
    with pytest.raises(RefusedRunError, match="has tables of the job lag and no checkpoint"):
        claim(str(tmp_path), "lag", SOURCE)


def test_progress_is_a_line_per_batch_or_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress(2, 1_500, 3, 1_767_225_600_000, ("this is a note",))
    ProgressPrinter(as_json=False).show(progress)
    said = capsys.readouterr()
    assert said.out.startswith("2 batches, 1,500 records, ")
    assert said.out.endswith(" a second, newest 2026-01-01T00:00:00Z, 3 dead letters\n")
    assert said.err == "muster: this is a note\n"
    ProgressPrinter(as_json=True).show(progress)
    found = json.loads(capsys.readouterr().out)
    assert found.pop("records_per_second") > 0
    assert found == {
        "batches": 2,
        "records": 1_500,
        "newest_event_time": "2026-01-01T00:00:00Z",
        "dead_letters": 3,
        "notes": ["this is a note"],
    }
