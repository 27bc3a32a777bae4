"""`muster log export` and `import`: out of one place and into another, offline and through the wire."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.effects import CoordinatorRecord
from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.kafka_groups import TOPIC as ONLINE_TOPIC
from harness.kafka_groups import await_coordinator, join, make_topic, offsets_of
from harness.kafka_groups import commit as commit_online
from harness.processes import ServerProcess
from harness.wire import WireClient
from muster.cli import run
from muster.log.rows import OffsetRow, read_rows, write_rows
from tests.log.directories import (
    ALIVE,
    OFFSETS,
    commit,
    everything_in,
    first_segment,
    flip,
    history,
    make_directory,
)

ROOT = Path(__file__).parents[2]


def quiet() -> list[CoordinatorRecord]:
    """The history without the group that has members."""
    return [record for record in history() if record.key.group != ALIVE]


def exported(directory: Path, name: str = "rows.jsonl") -> list[OffsetRow]:
    file = directory.with_name(f"{directory.name}-{name}")
    assert run(["log", "export", str(directory), str(file)]) == 0
    return sorted(read_rows(file), key=lambda row: (row.group, row.topic, row.partition))


def muster(*arguments: object) -> subprocess.CompletedProcess[str]:
    """As users run it: a process of its own, which sees the lock of another."""
    return subprocess.run(
        [sys.executable, "-m", "muster", "log", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "logs", history())


def test_an_export_has_every_offset_that_counts(directory: Path) -> None:
    before = everything_in(directory)
    rows = exported(directory)
    assert everything_in(directory) == before
    assert len(rows) == 20 * 3 + 1 + 1
    assert {row.group for row in rows} == {*(f"group-{n}" for n in range(20)), "группа", ALIVE}
    (note,) = [row for row in rows if row.group == "группа"]
    assert (note.offset, note.metadata, note.leader_epoch) == (77, "note 😀", 3)
    (alive,) = [row for row in rows if row.group == ALIVE]
    assert (alive.protocol_type, alive.generation, alive.members) == ("consumer", 5, 2)


def test_an_export_leaves_damage_out_and_says_so(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = sorted(directory.glob(f"{OFFSETS}-*"))[0].name
    flip(first_segment(directory, partition), 70)
    file = directory.with_name("rows.jsonl")
    assert run(["log", "export", str(directory), str(file)]) == 1
    assert f"{partition}: bytes 0-" in capsys.readouterr().err
    assert list(read_rows(file))


def test_chosen_groups_alone_are_exported_to_standard_output(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "export", str(directory), "--group", "группа"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["offset"] == 77


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_a_round_trip_is_equal_in_either_format(name: str, tmp_path: Path) -> None:
    """Into a directory with another number of partitions, most of which have no files yet."""
    source = make_directory(tmp_path / "source", quiet())
    target = make_directory(tmp_path / "target", [commit("group-1", 0, 12345)], partitions=7)
    wanted = exported(source, name)
    file = tmp_path / f"source-{name}"
    assert run(["log", "import", str(file), str(target), "--keep-commit-times"]) == 0
    # Of the group itself nothing is imported: its offsets make it one without a protocol.
    simple = [row._replace(protocol_type=None, generation=None, members=None) for row in wanted]
    assert exported(target) == simple
    assert run(["log", "verify", str(target), "--strict"]) == 0


def test_imported_commits_are_of_now_unless_their_time_is_kept(tmp_path: Path) -> None:
    file, target = tmp_path / "rows.jsonl", make_directory(tmp_path / "target")
    write_rows(file, [OffsetRow("g", "t", 0, 5, commit_timestamp_ms=1)])
    assert run(["log", "import", str(file), str(target)]) == 0
    (row,) = exported(target)
    assert row.commit_timestamp_ms is not None
    assert row.commit_timestamp_ms > 1_700_000_000_000


def test_a_group_with_members_refuses_the_whole_import(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = directory.with_name("rows.jsonl")
    write_rows(file, [OffsetRow("group-1", "t", 0, 5), OffsetRow(ALIVE, "t", 0, 5)])
    before = exported(directory)
    assert run(["log", "import", str(file), str(directory)]) == 2
    assert f"group {ALIVE} has 2 members" in capsys.readouterr().err
    assert exported(directory) == before
    assert run(["log", "import", str(file), str(directory), "--group", "group-1"]) == 0
    assert exported(directory) != before


def test_a_dry_run_changes_nothing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, before = directory.with_name("rows.jsonl"), everything_in(directory)
    write_rows(file, [OffsetRow("group-1", "t", 0, 5)])
    assert run(["log", "import", str(file), str(directory), "--dry-run"]) == 0
    assert "1 offsets of 1 groups would be imported" in capsys.readouterr().out
    assert everything_in(directory) == before


def test_a_file_that_is_wrong_at_its_end_changes_nothing(directory: Path) -> None:
    file, before = directory.with_name("rows.jsonl"), everything_in(directory)
    file.write_text('{"group": "g", "topic": "t", "partition": 0, "offset": 5}\n{"group": "g"}\n')
    assert run(["log", "import", str(file), str(directory)]) == 2
    assert everything_in(directory) == before


def test_where_to_import_must_be_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("")
    assert run(["log", "import", str(file)]) == 2
    assert run(["log", "import", str(file), str(tmp_path), "--bootstrap", "127.0.0.1:1"]) == 2
    assert "give either a log directory or --bootstrap" in capsys.readouterr().err


# With a server.


SETTINGS = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path_factory.mktemp("daemon"), SETTINGS) as running:
        with WireClient(running.bootstrap) as client:
            make_topic(client)
        yield running


@pytest.fixture(scope="module")
def kafka(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), SETTINGS) as running:
        with WireClient(running.bootstrap) as client:
            make_topic(client)
            await_coordinator(client, ["one", "two", "any", "busy", "some"])
        yield running


@pytest.fixture(params=["daemon", "kafka"])
def cluster(request: pytest.FixtureRequest) -> ServerProcess:
    """A running Muster, and then a running Kafka."""
    running: ServerProcess = request.getfixturevalue(request.param)
    return running


def online_rows(group: str) -> list[OffsetRow]:
    return [OffsetRow(group, ONLINE_TOPIC, n, 100 + n, leader_epoch=n, metadata=f"m{n}") for n in range(3)]


def test_a_running_cluster_takes_an_import(cluster: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    write_rows(file, online_rows("one") + online_rows("two"))
    done = muster("import", file, "--bootstrap", cluster.bootstrap, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "dry_run": False,
        "offsets": 6,
        "groups": ["one", "two"],
        "refused": {},
    }
    with WireClient(cluster.bootstrap) as client:
        for group in ("one", "two"):
            assert offsets_of(client, group) == {(ONLINE_TOPIC, n): (100 + n, n, f"m{n}") for n in range(3)}


def test_a_live_group_is_refused_by_a_running_cluster_before_anything_is_written(
    cluster: ServerProcess, tmp_path: Path
) -> None:
    join(cluster.bootstrap, "busy", [None])
    file = tmp_path / "rows.jsonl"
    write_rows(file, online_rows("any") + online_rows("busy"))
    done = muster("import", file, "--bootstrap", cluster.bootstrap)
    assert done.returncode == 2
    assert "group busy has 1 live member (" in done.stderr
    with WireClient(cluster.bootstrap) as client:
        assert offsets_of(client, "any") == {}


def test_partitions_that_a_cluster_does_not_have_are_reported(cluster: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    write_rows(file, [*online_rows("some"), OffsetRow("some", "nowhere", 0, 1)])
    done = muster("import", file, "--bootstrap", cluster.bootstrap)
    assert done.returncode == 1
    assert "refused: some nowhere-0: UNKNOWN_TOPIC_OR_PARTITION" in done.stdout
    assert "3 offsets of 1 groups imported" in done.stdout


def test_a_missing_cluster_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    write_rows(file, online_rows("any"))
    done = muster("import", file, "--bootstrap", "127.0.0.1:1")
    assert done.returncode == 2
    assert "no Kafka broker answers on 127.0.0.1:1" in done.stderr


def test_a_directory_in_use_is_read_with_a_warning_and_never_written(
    daemon: MusterDaemon, tmp_path: Path
) -> None:
    with WireClient(daemon.bootstrap) as client:
        commit_online(client, "seen", {0: 1})
    file = tmp_path / "rows.jsonl"
    done = muster("export", daemon.log_dir, file, "--group", "seen")
    assert done.returncode == 0
    assert "a server is using" in done.stderr
    assert [row.offset for row in read_rows(file)] == [1]
    for arguments in (("import", file, daemon.log_dir), ("repair", daemon.log_dir, tmp_path / "copy")):
        done = muster(*arguments)
        assert done.returncode == 2
        assert "in use by another process" in done.stderr or "a server is using" in done.stderr
    assert not (tmp_path / "copy").exists()
    assert muster("verify", daemon.log_dir).returncode == 0
