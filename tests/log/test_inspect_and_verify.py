"""`muster log inspect` and `verify`: what is there and what is wrong; nothing is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.cli import run
from protocol.records.batch import walk
from storage.log.sealed_segments import SEALED_SEGMENTS
from tests.log.directories import (
    ALIVE,
    OFFSETS,
    TOPIC,
    commit,
    everything_in,
    first_segment,
    flip,
    history,
    make_directory,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "logs", history())


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    status = run(["log", *map(str, arguments)])
    return status, capsys.readouterr().out.splitlines()


def entries_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    status, lines = lines_of(capsys, *arguments, "--json")
    assert status == 0
    return [json.loads(line) for line in lines]


def test_every_record_of_the_offsets_topic_is_shown_decoded(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything_in(directory)
    found = entries_of(capsys, "inspect", directory)
    assert len(found) == len(history())
    assert {entry["kind"] for entry in found} == {"record"}
    (note,) = [entry for entry in found if entry["group"] == "группа"]
    assert note["type"] == "OffsetCommit"
    assert note["key"] == {"group": "группа", "topic": TOPIC, "partition": 0}
    assert note["value"]["offset"] == 77
    assert note["value"]["metadata"] == "note 😀"
    tombstones = [entry["type"] for entry in found if entry["value"] is None]
    assert tombstones == ["OffsetCommit", "GroupMetadata"]
    assert everything_in(directory) == before


def test_records_can_be_chosen_by_group_and_number(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = entries_of(capsys, "inspect", directory, "--group", "group-3", "--group", ALIVE)
    assert [entry["group"] for entry in found].count("group-3") == 4
    assert {entry["group"] for entry in found} == {"group-3", ALIVE}
    assert len(entries_of(capsys, "inspect", directory, "--limit", "7")) == 7
    status, (line,) = lines_of(capsys, "inspect", directory, "--group", "группа")
    assert status == 0
    assert "OffsetCommit group=группа topic=orders partition=0 | offset=77" in line


def test_other_topics_are_shown_as_batches(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = entries_of(capsys, "inspect", directory, "--topic", TOPIC)
    assert [(entry["offset"], entry["last_offset"], entry["records"]) for entry in found] == [
        (number, number, 1) for number in range(40)
    ]
    alone = entries_of(capsys, "inspect", directory / f"{TOPIC}-0")
    assert alone == found


def test_damage_is_shown_where_it_is_and_reading_goes_on(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(first_segment(directory, f"{TOPIC}-0"), 70)
    status, lines = lines_of(capsys, "inspect", directory, "--topic", TOPIC)
    assert status == 1
    assert len(lines) == 40
    assert lines[0].startswith("orders-0 0 DAMAGED 00000000000000000000.log bytes 0-")


def test_what_is_not_there_is_reported_with_what_is(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "inspect", str(directory), "--topic", "nothing"]) == 2
    assert f"there are: {OFFSETS}, {TOPIC}" in capsys.readouterr().err
    assert run(["log", "verify", str(directory / "nowhere")]) == 2
    assert "is not there" in capsys.readouterr().err
    (directory.parent / "empty").mkdir()
    assert run(["log", "verify", str(directory.parent / "empty")]) == 2
    assert "neither a log directory nor a partition's" in capsys.readouterr().err


def test_a_directory_that_was_closed_is_well(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything_in(directory)
    status, lines = lines_of(capsys, "verify", directory, "--strict")
    assert (status, len(lines)) == (0, 1)
    assert lines[0].endswith("0 errors, 0 notes")
    assert everything_in(directory) == before


def test_a_flipped_bit_is_found_with_file_byte_and_offset(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = first_segment(directory, f"{TOPIC}-0")
    flip(path, 70)
    status, (error, _) = lines_of(capsys, "verify", directory)
    assert status == 1
    assert error.startswith(f"error: {path}, byte 0, offset 0: damaged, offsets 0-0 lost; bytes 0-")
    status, lines = lines_of(capsys, "verify", directory, "--json")
    (finding,) = json.loads("\n".join(lines))["findings"]
    assert (status, finding["severity"], finding["byte"], finding["offset"]) == (1, "error", 0, 0)


def test_an_orphan_is_a_note_which_counts_only_when_asked(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / f"{TOPIC}-0" / "00000000000000000999.index").write_bytes(b"")
    status, (note, _) = lines_of(capsys, "verify", directory)
    assert status == 0
    assert "an orphan: there is no 00000000000000000999.log" in note
    assert lines_of(capsys, "verify", directory, "--strict")[0] == 1


def test_a_group_in_a_partition_that_is_not_its_own_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a change of the number of partitions, which must never be."""
    directory = make_directory(tmp_path / "logs", [commit("group-1", 0, 1)])
    (home,) = directory.glob(f"{OFFSETS}-*")
    wrong = (int(home.name[-1]) + 1) % 4
    home.rename(directory / f"{OFFSETS}-{wrong}")
    checkpoint = directory / "recovery-point-offset-checkpoint"
    checkpoint.write_text(
        checkpoint.read_text().replace(f"{OFFSETS} {home.name[-1]} ", f"{OFFSETS} {wrong} ")
    )
    status, (error, _) = lines_of(capsys, "verify", directory)
    assert status == 1
    assert f"group group-1 belongs to partition {home.name[-1]} of 4" in error


def test_missing_offsets_are_an_error_where_nothing_is_compacted(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, doomed, *_ = sorted((directory / f"{TOPIC}-0").glob("*.log"))
    for suffix in (".log", ".index", ".timeindex"):
        doomed.with_suffix(suffix).unlink()
    (directory / SEALED_SEGMENTS).unlink()  # Which would show it as well.
    status, (error, _) = lines_of(capsys, "verify", directory)
    assert status == 1
    missing = int(doomed.stem)
    assert error.startswith(f"error: {directory}/{TOPIC}-0, offset 0: {missing} offsets are missing")
    assert int(first.stem) == 0


def test_a_sealed_segment_that_was_cut_where_a_batch_ends_is_an_error(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a compacted topic too, whose gaps prove nothing; a list of other recovery points is not asked."""
    partition = max(directory.glob(f"{OFFSETS}-*"), key=lambda path: len(list(path.glob("*.log"))))
    cut, gone, *_ = sorted(partition.glob("*.log"))[:-1]
    data = cut.read_bytes()
    length = [batch.position for batch in walk(data)][-1]
    cut.write_bytes(data[:length])
    gone.unlink()
    status, lines = lines_of(capsys, "verify", directory)
    assert status == 1
    errors = [line for line in lines if line.startswith("error: ") and "index" not in line]
    assert [str(cut) in line or str(gone) in line for line in errors] == [True, True]
    assert f"{length} bytes long, {len(data)} bytes were synced" in errors[0]
    assert f"byte {length}," in errors[0]
    assert "it is gone" in errors[1]

    points = directory / "recovery-point-offset-checkpoint"
    version, count, *entries = points.read_text().splitlines()
    points.write_text("\n".join([version, count, *reversed(entries)]) + "\n")
    _, lines = lines_of(capsys, "verify", directory)
    assert not [line for line in lines if "were synced (" in line]


def test_a_garbled_list_of_sealed_segments_is_an_error(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(directory / SEALED_SEGMENTS, -20)
    status, (error, _) = lines_of(capsys, "verify", directory)
    assert status == 1
    assert error.startswith(f"error: {directory / SEALED_SEGMENTS}, byte 0: ")


def test_a_partition_that_vanished_is_an_error(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (directory / f"{TOPIC}-0").iterdir():
        path.unlink()
    (directory / f"{TOPIC}-0").rmdir()
    status, (error, _) = lines_of(capsys, "verify", directory)
    assert status == 1
    assert "orders-0 is not there, but was synced up to 40" in error
