"""`muster log repair`: a new directory that a daemon can use, and a report of what was lost; never in place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from muster.cli import run
from muster.log.places import open_source
from muster.log.repair import UNFINISHED, repair
from protocol.records.batch import walk
from storage.directory.log_directory import LogDirectory
from storage.files import Files, StorageError
from storage.log.sealed_segments import SEALED_SEGMENTS
from tests.log.directories import (
    CONFIG,
    OFFSETS,
    TOPIC,
    everything_in,
    first_segment,
    flip,
    history,
    make_directory,
)
from tests.storage.logs import all_spans


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "logs", history())


def target_of(directory: Path) -> Path:
    return directory.with_name("repaired")


def offsets_of(directory: Path, topic: str = TOPIC, partition: int = 0) -> list[tuple[int, int]]:
    """What a daemon makes of one partition."""
    opened = LogDirectory.open(directory, Files(), node_id=0)
    log = opened.open_log(topic, partition, CONFIG)
    assert log.recovered.cut_bytes == 0
    spans = all_spans(log)
    assert opened.close() == []
    return spans


def test_a_sound_directory_is_copied_whole(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything_in(directory)
    assert run(["log", "repair", str(directory), str(target_of(directory))]) == 0
    assert "no ranges lost" in capsys.readouterr().out
    assert everything_in(directory) == before
    copied = everything_in(target_of(directory))
    # What records a shutdown and its segments says nothing about a copy, and the lock is not held.
    assert before.keys() - copied.keys() == {".lock", ".kafka_cleanshutdown", SEALED_SEGMENTS}
    assert copied.keys() - before.keys() == set()
    logs = [name for name in copied if name.endswith(".log")]
    assert len(logs) > 4
    assert all(copied[name] == before[name] for name in [*logs, "meta.properties", "topics.json"])
    assert run(["log", "verify", str(target_of(directory))]) == 0


def test_what_is_lost_is_reported_and_the_rest_is_served(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = first_segment(directory, f"{TOPIC}-0")
    flip(path, 70)
    before = everything_in(directory)
    assert run(["log", "repair", str(directory), str(target_of(directory)), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    (loss,) = report["partitions"][f"{TOPIC}-0"]["losses"]
    size = 12 + int.from_bytes(path.read_bytes()[8:12], "big")
    assert (loss["path"], loss["first_byte"], loss["end_byte"]) == (str(path), 0, size)
    assert (loss["first_offset"], loss["last_offset"]) == (0, 0)
    assert everything_in(directory) == before
    assert offsets_of(target_of(directory)) == [(offset, offset) for offset in range(1, 40)]
    assert run(["log", "verify", str(target_of(directory)), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]  # It is still true that one is gone.
    assert finding["what"].startswith("1 offsets are missing")


def test_what_was_cut_where_a_batch_ends_is_reported_as_lost(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, gone, following, *_ = sorted((directory / f"{TOPIC}-0").glob("*.log"))
    data, gone_bytes = cut.read_bytes(), gone.stat().st_size
    *_, last = walk(data)
    cut.write_bytes(data[: last.position])
    gone.unlink()
    assert run(["log", "repair", str(directory), str(target_of(directory)), "--json"]) == 1
    losses = json.loads(capsys.readouterr().out)["partitions"][f"{TOPIC}-0"]["losses"]
    fields = ("path", "first_byte", "end_byte", "first_offset", "last_offset")
    assert [tuple(loss[name] for name in fields) for loss in losses] == [
        (str(cut), last.position, len(data), last.base_offset, last.last_offset),
        (str(gone), 0, gone_bytes, int(gone.stem), int(following.stem) - 1),
    ]
    left = [offset for offset, _ in offsets_of(target_of(directory))]
    assert left == [*range(last.base_offset), *range(int(following.stem), 40)]


def test_one_partition_can_be_repaired_alone(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = directory.with_name(f"{TOPIC}-0")
    last = sorted((directory / f"{TOPIC}-0").glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-1])
    assert run(["log", "repair", str(directory / f"{TOPIC}-0"), str(target)]) == 1
    assert "offsets 39-39" in capsys.readouterr().out
    assert run(["log", "verify", str(target)]) == 0


def test_nothing_is_overwritten(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = target_of(directory)
    assert run(["log", "repair", str(directory), str(directory)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert run(["log", "repair", str(directory), str(directory / "inside")]) == 2
    assert "which is only read" in capsys.readouterr().err
    target.with_name(target.name + UNFINISHED).mkdir()
    assert run(["log", "repair", str(directory), str(target)]) == 2
    assert "is left from a repair that did not finish" in capsys.readouterr().err
    assert not target.exists()


def test_other_directories_are_left_behind_and_reported(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "backup").mkdir()
    assert run(["log", "repair", str(directory), str(target_of(directory))]) == 0
    assert f"left behind: {directory / 'backup'}" in capsys.readouterr().out


def test_a_failure_at_any_operation_leaves_the_source_and_no_target(tmp_path: Path) -> None:
    """Every seventh, as each costs a copy; a single log is swept whole in tests/storage/test_repair.py."""
    directory = make_directory(tmp_path / "logs", history()[:4])
    target, before = target_of(directory), everything_in(directory)
    files = FaultyFiles(tmp_path)
    repair(open_source(directory, files), directory.with_name("whole"), lambda _: None)
    renamed = next(
        n for n, done in enumerate(files.operations) if done.name == "rename" and done.path.name == "whole"
    )
    assert renamed > 30
    for number in [*range(0, renamed, 7), renamed]:
        files = FaultyFiles(tmp_path)
        files.fail(number)
        with pytest.raises(Exception, match="left unfinished") as raised:
            repair(open_source(directory, files), target, lambda _: None)
        assert isinstance(raised.value.__cause__, StorageError)
        assert everything_in(directory) == before
        assert not target.exists()
        draft = target.with_name(target.name + UNFINISHED)
        if draft.exists():
            draft.rename(tmp_path / f"attempt-{number}")
    assert OFFSETS in str(sorted(before))
