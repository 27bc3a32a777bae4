"""The tools on the directory of a server that was killed: what is in the journal alone is read like the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import encode_record
from coordinator.topics.catalogue import CatalogueEntry, write_catalogue
from harness.doubles.faulty_files import FaultyFiles
from muster.log.places import open_source
from muster.log.repair import repair
from protocol.records.records import Record as LogRecord
from protocol.records.records import encode_batch
from storage.directory.log_directory import LogDirectory, LogDirectoryError
from storage.files import Files
from storage.journal.files import DIRECTORY
from storage.journal.frames import decode_file_header, encode_file_header
from storage.log.staged_log import StagedLog
from tests.log.directories import (
    CONFIG,
    OFFSETS,
    OFFSETS_ID,
    PARTITIONS,
    TIME_MS,
    commit,
    flip,
    make_directory,
)
from tests.log.test_inspect_and_verify import lines_of

WRITTEN, ALONE = 5, 3
GROUP = "billing"
HOME = f"{OFFSETS}-{partition_for(GROUP, PARTITIONS)}"
NEW = next(name for name in map(str, range(99)) if partition_for(name, PARTITIONS) != int(HOME[-1]))
NEW_HOME = f"{OFFSETS}-{partition_for(NEW, PARTITIONS)}"
FIRST = f"{1:020d}.journal"


def put(log: StagedLog, group: str, offset: int) -> None:
    record = LogRecord(*encode_record(commit(group, 0, offset)), TIME_MS)
    log.append(encode_batch([record]), wall_ms=TIME_MS)


def crashed(path: Path) -> Path:
    """Eight commits of GROUP, a frame each, the last three of which are in the journal alone; one of NEW, too.

    NEW's partition has no directory yet.
    """
    make_directory(path)
    held = LogDirectory.open(path, Files(), node_id=0)
    logs = {}
    for name in (HOME, NEW_HOME):
        log = held.open_log(OFFSETS, int(name[-1]), CONFIG, topic_id=OFFSETS_ID, is_replayed=True)
        assert isinstance(log, StagedLog)
        logs[name] = log
    for offset in range(WRITTEN + ALONE):
        put(logs[HOME], GROUP, offset)
        assert held.journal.write([logs[HOME]]) == {}
        if offset == WRITTEN - 1:
            held.journal.write_behind()
    put(logs[NEW_HOME], NEW, 77)
    assert held.journal.write([logs[NEW_HOME]]) == {}
    held._lock_file.close()  # It dies here.
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return crashed(tmp_path / "logs")


def journal_of(directory: Path) -> Path:
    return directory / DIRECTORY / FIRST


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def frames_begin(path: Path) -> list[int]:
    data, found = path.read_bytes(), []
    header, at = decode_file_header(memoryview(data))
    while (at := data.find(header.mark, at)) >= 0:
        found.append(at)
        at += 1
    return found


def inspected(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, list[dict[str, Any]]]:
    status, lines = lines_of(capsys, "inspect", *arguments, "--json")
    return status, [json.loads(line) for line in lines]


def test_every_commit_is_shown_once_and_in_order(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, entries = inspected(capsys, directory, "--group", GROUP)
    assert status == 0
    assert [entry["offset"] for entry in entries] == list(range(WRITTEN + ALONE))
    assert {entry["file"] for entry in entries[:WRITTEN]} == {f"{0:020d}.log"}
    assert {entry["file"] for entry in entries[WRITTEN:]} == {FIRST}
    data = journal_of(directory).read_bytes()
    assert all(data[entry["byte"] + 16] == 2 for entry in entries[WRITTEN:])  # A batch's magic is there.


def test_a_partition_without_a_directory_is_shown(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (directory / NEW_HOME).exists()
    status, entries = inspected(capsys, directory, "--group", NEW)
    assert (status, [entry["partition"] for entry in entries]) == (0, [NEW_HOME])


def test_one_partitions_directory_has_its_part_of_the_journal(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, entries = inspected(capsys, directory / HOME)
    assert (status, len(entries)) == (0, WRITTEN + ALONE)


def test_an_export_has_the_newest_commit(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = lines_of(capsys, "export", directory)
    rows = {row["group"]: row["offset"] for row in map(json.loads, lines)}
    assert (status, rows) == (0, {GROUP: WRITTEN + ALONE - 1, NEW: 77})


@pytest.mark.parametrize("command", ["inspect", "verify", "export"])
@pytest.mark.parametrize("is_torn", [False, True])
def test_reading_changes_nothing_on_the_disk(
    directory: Path, capsys: pytest.CaptureFixture[str], command: str, is_torn: bool
) -> None:
    if is_torn:
        path = journal_of(directory)
        path.write_bytes(path.read_bytes()[:-3])
    before = contents(directory)
    lines_of(capsys, command, directory)
    assert contents(directory) == before


def test_what_is_in_the_journal_alone_is_a_note(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = lines_of(capsys, "verify", directory)
    assert status == 0
    notes = [line for line in lines if "in the journal alone" in line]
    said = "are in the journal alone; the next start writes them to the log"
    assert sorted(notes) == sorted(
        [
            f"note: {directory / HOME}, offset 5: offsets 5-7 {said}",
            f"note: {directory / NEW_HOME}, offset 0: offsets 0-0 {said}",
        ]
    )
    assert lines_of(capsys, "verify", directory, "--strict")[0] == 1


def test_a_torn_end_is_a_note(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = journal_of(directory)
    path.write_bytes(path.read_bytes()[:-3])
    last = frames_begin(path)[-1]
    status, lines = lines_of(capsys, "verify", directory)
    assert status == 0
    assert lines[0].startswith(
        f"note: {path}, byte {last}: a torn end, of which nobody has heard and which the next start cuts"
    )
    assert inspected(capsys, directory, "--group", GROUP)[0] == 0


def test_damage_before_the_end_is_an_error_and_the_frames_before_it_are_read(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = journal_of(directory)
    seventh = frames_begin(path)[6]
    flip(path, seventh + 30)
    status, lines = lines_of(capsys, "verify", directory)
    assert status == 1
    assert lines[0] == (
        f"error: {path}, byte {seventh}: corrupt at byte {seventh}: the checksum of a frame is wrong; "
        "a server does not start with it"
    )
    status, entries = inspected(capsys, directory, "--group", GROUP)
    assert (status, [entry["offset"] for entry in entries]) == (1, list(range(6)))


def test_a_file_that_the_disk_does_not_give_is_named_with_its_byte(directory: Path) -> None:
    files = FaultyFiles(directory)
    files.read_fault = lambda op: OSError(5, "Input/output error") if op.path.suffix == ".journal" else None
    (fault,) = open_source(directory, files).journal.refusals
    assert (fault.path, fault.is_torn) == (journal_of(directory), False)
    assert "Input/output error" in fault.what
    with pytest.raises(LogDirectoryError, match=r"cannot .*journal: .*Input/output error.*muster log verify"):
        LogDirectory.open(directory, files, node_id=0)


def test_the_journal_of_another_directory_is_an_error(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_directory(tmp_path / "other")
    (directory / DIRECTORY).rename(other / DIRECTORY)
    status, lines = lines_of(capsys, "verify", other)
    assert status == 1
    assert lines[0].startswith(f"error: {journal_of(other)}, byte 0: the journal of directory ")


def test_a_journal_that_does_not_continue_the_log_is_an_error(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that lost what was synced: the journal begins beyond its end."""
    path = journal_of(directory)
    begins = frames_begin(path)
    data = path.read_bytes()
    header = bytearray(data[: begins[0]])
    rewritten = without_first_frames(bytes(header), data[begins[3] :], first=4)
    path.write_bytes(rewritten)
    (directory / HOME / f"{0:020d}.log").write_bytes(b"")
    status, lines = lines_of(capsys, "verify", directory)
    assert status == 1
    wanted = "the journal goes on with 3, the log ends before 0; the next start takes"
    assert any(wanted in line for line in lines), lines
    status, entries = inspected(capsys, directory, "--group", GROUP)
    assert (status, [entry["kind"] for entry in entries]) == (1, ["damage", *["record"] * 5])


def without_first_frames(header: bytes, frames: bytes, first: int) -> bytes:
    found, _ = decode_file_header(memoryview(header))
    return encode_file_header(found._replace(first_sequence=first)) + frames


def test_records_of_a_partition_that_no_topic_has_are_an_error(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_catalogue(Files(), directory, [CatalogueEntry(OFFSETS, OFFSETS_ID, 1, {})])
    status, lines = lines_of(capsys, "verify", directory)
    assert status == 1
    assert any("which no topic has; a server does not start with them" in line for line in lines)


def test_a_torn_segment_is_read_on_in_the_journal(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loss of power: the segment behind the journal was never synced."""
    segment = directory / HOME / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-7])
    _, entries = inspected(capsys, directory, "--group", GROUP)
    shown = [entry["offset"] for entry in entries if entry["kind"] == "record"]
    assert shown == list(range(WRITTEN + ALONE))


def test_a_repaired_copy_has_the_journal_and_starts_with_all_of_it(directory: Path, tmp_path: Path) -> None:
    target = tmp_path / "repaired"
    result = repair(open_source(directory), target, lambda _: None)
    assert not result.lost_anything
    assert journal_of(target).read_bytes() == journal_of(directory).read_bytes()
    held = LogDirectory.open(target, Files(), node_id=0)
    log = held.open_log(OFFSETS, int(HOME[-1]), CONFIG, topic_id=OFFSETS_ID, is_replayed=True)
    assert log.written_offset == WRITTEN + ALONE
    held.close()


def test_a_damaged_journal_is_left_behind_and_its_batches_are_lost(directory: Path, tmp_path: Path) -> None:
    path = journal_of(directory)
    flip(path, frames_begin(path)[6] + 30)
    target = tmp_path / "repaired"
    result = repair(open_source(directory), target, lambda _: None)
    assert result.left_behind == [directory / DIRECTORY]
    assert not (target / DIRECTORY).exists()
    assert [loss.first_offset for loss in result.partitions[HOME].losses] == [5]


def test_a_repair_says_that_what_a_fault_of_the_journal_hides_is_lost(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where nothing before the fault is lost, so that no range is known to be."""
    path = journal_of(directory)
    begins = frames_begin(path)[0]
    flip(path, begins + 30)
    status, lines = lines_of(capsys, "repair", directory, tmp_path / "repaired")
    assert status == 1
    assert lines[0].startswith(f"{path}: what is from byte {begins} on was not read, so what is lost with it")
    assert lines[-1].endswith("no ranges lost")
    status, lines = lines_of(capsys, "repair", directory, tmp_path / "again", "--json")
    assert status == 1
    (fault,) = json.loads("".join(lines))["journal_faults"]
    assert (fault["path"], fault["byte"]) == (str(path), begins)


def test_an_import_goes_on_behind_the_journal_and_leaves_none(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An offset that both gave out would have been lost at the next start, which passes over what it has."""
    row = {"group": GROUP, "topic": "orders", "partition": 5, "offset": 500}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    status, _ = lines_of(capsys, "import", tmp_path / "rows.jsonl", directory)
    assert status == 0
    assert not (directory / DIRECTORY).exists()
    _, entries = inspected(capsys, directory)
    assert [entry["offset"] for entry in entries if entry["partition"] == HOME] == list(range(9))
    assert [entry["offset"] for entry in entries if entry["partition"] == NEW_HOME] == [0]


def test_where_there_is_no_journal_nothing_is_said_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = make_directory(tmp_path / "logs", [commit(GROUP, 0, 1)])
    status, lines = lines_of(capsys, "verify", whole, "--strict")
    assert (status, len(lines)) == (0, 1)
