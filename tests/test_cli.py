"""The command line: what it refuses and how, what it shows, and what it does not import."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.processes import free_port, unread
from muster.closed_output import STATUS_NOT_READ
from muster.groups import tables
from muster.groups.admin import GroupListing
from muster.groups.descriptions import GroupDescription, MemberDescription, PartitionProgress
from muster.groups.offsets import Move
from muster.groups.reset_command import TargetSelection
from muster.groups.reset_offsets import (
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTimestamp,
    parse_datetime,
    parse_topics,
)
from muster.sentences import MAX_CHARACTERS, cut
from muster.serve import parsed_overrides
from muster.usage import UsageError
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from storage.directory.log_directory import LogDirectory
from storage.files import Files

ROOT = Path(__file__).parent.parent
NOW_MS = 1_700_000_000_000

DESCRIPTION = GroupDescription(
    group_id="billing",
    group_type="classic",
    state="Stable",
    protocol_type="consumer",
    protocol="range",
    group_epoch=None,
    target_assignment_epoch=None,
    coordinator=1,
    coordinator_address="localhost:9092",
    members=(
        MemberDescription(
            "m-1", "static-1", "app", "/10.0.0.1", (TopicPartition("orders", 0), TopicPartition("orders", 1))
        ),
    ),
    progress=(
        PartitionProgress("orders", 0, 5, 8, "m-1"),
        PartitionProgress("orders", 1, None, 8, "m-1"),
        PartitionProgress("gone", 0, 5, None, None),
    ),
)


def muster(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    return subprocess.run(
        [sys.executable, "-m", "muster", *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def shown(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The cells of what was printed, row by row: columns are set apart by two blanks."""
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in capsys.readouterr().out.splitlines()
    ]


def test_settings_that_are_wrong_end_serve_with_status_2_and_one_line_each() -> None:
    done = muster("serve", "--override", "group.max.size=0", MUSTER_NUM_PARTITIONS="many")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "muster: num.partitions=many (MUSTER_NUM_PARTITIONS) must be a whole number from 1 to 2147483647",
        "muster: group.max.size=0 (flag) must be a whole number from 1 to 2147483647",
    ]


def test_an_override_without_a_value_is_reported_with_what_else_is_wrong() -> None:
    done = muster("serve", "--override", "group.max.size", "--override", "num.partitions=0")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "muster: --override group.max.size must be NAME=VALUE",
        "muster: num.partitions=0 (flag) must be a whole number from 1 to 2147483647",
    ]


@pytest.mark.parametrize(
    "arguments", [("serve", "--nonsense"), ("nonsense",), ("groups", "nonsense"), ("groups", "describe")]
)
def test_arguments_that_are_not_understood_end_with_a_message_and_no_traceback(
    arguments: tuple[str, ...],
) -> None:
    done = muster(*arguments)
    assert done.returncode != 0
    assert done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_help_names_every_command() -> None:
    shown = muster("--help").stdout
    assert all(f" {command} " in shown for command in ("serve", "groups", "spark"))


def test_flags_are_short_for_overrides_and_a_value_may_hold_an_equals_sign() -> None:
    arguments = [
        "--override",
        "a=b=c",
        "--listeners",
        "A://:1",
        "--log-dirs",
        "here",
        "--advertised-listeners",
        "x",
    ]
    assert parsed_overrides(arguments) == {
        "a": "b=c",
        "listeners": "A://:1",
        "log.dirs": "here",
        "advertised.listeners": "x",
    }


def test_serve_imports_nothing_that_would_slow_its_start() -> None:
    """Settings loaded and the log set up: none of what only other commands need."""
    script = (
        "import sys; from muster.serve import serve_command, load, configure_log;"
        "load(); configure_log('info'); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert "importlib.metadata" not in modules  # With it pydantic would look for plugins.
    loaded = {name.split(".")[0] for name in modules}
    assert not loaded & {"rich", "cyclopts", "aiokafka", "pandas", "pyspark", "numpy", "hypothesis"}
    assert {"structlog", "pydantic"} <= loaded  # Else this would prove nothing.


def test_the_daemons_process_ends_as_it_is_once_all_is_written() -> None:
    """Python would first free every object that the daemon held, one by one."""
    script = (
        "import atexit, sys, muster.serve, muster.__main__ as command\n"
        "def serve_command(arguments, started_s, hangup):\n"
        "    print('stopped')\n"
        "    return 7\n"
        "muster.serve.serve_command = serve_command\n"
        "atexit.register(print, 'taken apart')\n"
        "sys.argv[1:] = ['serve']\n"
        "command.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "stopped\n", "")


@pytest.mark.parametrize(
    "arguments", [("--help",), ("--version",), ("serve", "--help"), ("log", "verify", "{}")]
)
def test_a_command_whose_output_is_not_read_ends_quietly(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    LogDirectory.open(tmp_path, Files(), node_id=1).close()
    command = [sys.executable, "-m", "muster", *(each.format(tmp_path) for each in arguments)]
    assert unread(command) == (STATUS_NOT_READ, "")


@pytest.mark.parametrize("is_read", [True, False])
def test_a_broken_pipe_of_something_else_is_no_matter_of_the_output(is_read: bool) -> None:
    """A connection of the command's own: its traceback is seen, unless the output is read no further too."""
    script = (
        "import sys; from muster.closed_output import status_of\n"
        "def fail(): raise BrokenPipeError('a connection')\n"
        "sys.exit(status_of(fail))"
    )
    if is_read:
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr.endswith("BrokenPipeError: a connection\n")
    else:
        assert unread([sys.executable, "-c", script]) == (STATUS_NOT_READ, "")


LONG = "x" * 100_000  # The system takes no longer argument than 131,072 bytes.


@pytest.mark.parametrize(
    ("arguments", "begin", "end"),
    [
        (("serve", "--override", f"group.max.size={LONG}"), "group.max.size=xx", "from 1 to 2147483647"),
        (("serve", "--override", f"{LONG}=1"), "unknown setting xx", "neither Kafka nor Muster has it"),
        (("serve", "--override", LONG), "--override xx", "must be NAME=VALUE"),
        (("serve", "--config", LONG), "cannot read xx", "File name too long"),
        (("serve", "--log-dirs", LONG), "log directory xx", "File name too long"),
        (("serve", LONG), "unrecognized arguments: xx", "xx"),
        ((LONG,), 'Unknown command "xx', "spark, serve."),
        (("groups", "list", "--bootstrap", LONG), "no Kafka broker answers on xx", "too long))"),
        (
            ("groups", "reset-offsets", "g", "--topic", f"{LONG}:a", "--to-latest"),
            "--topic 'xx",
            "PARTITION,...",
        ),
        (("log", "verify", LONG), "cannot list ", "File name too long"),
        (("spark", "report", "--tables", ".", "--out", LONG), "File name too long: 'xx", "xx'"),
    ],
    ids=lambda given: " ".join(given).replace(LONG, "LONG") if isinstance(given, tuple) else "",
)
def test_what_was_given_is_repeated_only_as_far_as_it_can_be_read(
    arguments: tuple[str, ...], begin: str, end: str
) -> None:
    done = muster(*arguments)
    assert done.returncode in (1, 2)
    assert len(done.stderr) < 1_500
    assert begin in done.stderr
    assert done.stderr.endswith(f"{end}\n")
    assert re.search(
        r"xx \[\.\.\. \d{2,3},\d{3} of [12]00,\d{3} characters left out \.\.\.\] xx", done.stderr
    )


def test_a_value_of_a_file_is_repeated_only_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"group.max.size={'9' * 300_000}\n")
    done = muster("serve", "--config", str(config))
    assert done.returncode == 2
    assert len(done.stderr) < 1_500
    assert re.search(r"of 300,0\d\d characters left out", done.stderr)
    assert done.stderr.endswith("(server.properties:1) must be a whole number from 1 to 2147483647\n")


def test_a_text_is_cut_only_beyond_its_longest() -> None:
    whole = "a" * (MAX_CHARACTERS - 1) + "z"
    assert cut(whole) == whole
    assert cut(whole + "z") == f"{'a' * 600} [... 101 of 1,001 characters left out ...] {'a' * 298}zz"


def test_every_sentence_on_standard_error_goes_through_the_one_place_that_cuts() -> None:
    by_themselves = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "muster").rglob("*.py")
        if re.search(r"file=sys\.stderr|sys\.stderr\.write", path.read_text())
    }
    assert by_themselves == {"muster/sentences.py"}


@pytest.mark.parametrize("command", [("list",), ("describe", "g"), ("delete", "g"), ("history", "g")])
def test_where_nothing_answers_a_sentence_says_so(command: tuple[str, ...]) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = muster("groups", *command, "--bootstrap", address)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"muster: no Kafka broker answers on {address}")


def test_an_address_that_is_none_is_refused() -> None:
    done = muster("groups", "list", "--bootstrap", "127.0.0.1:port")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--to-latest"], "give either --topic or --all-topics"),
        (["--to-latest", "--all-topics", "--topic", "t"], "give either --topic or --all-topics"),
        (["--all-topics"], "give one of --to-earliest"),
        (["--all-topics", "--to-latest", "--to-offset", "3"], "give one of --to-earliest"),
        (["--all-topics", "--to-datetime", "noon"], "--to-datetime noon must be an ISO 8601 time"),
        (["--topic", "t:x", "--to-latest"], "--topic 't:x' must be TOPIC or TOPIC:PARTITION"),
        (["--all-topics", "--to-latest", "--execute", "--dry-run"], "give --execute or --dry-run, not both"),
    ],
)
def test_a_reset_that_is_not_clear_is_refused_before_the_cluster_is_asked(
    arguments: list[str], sentence: str
) -> None:
    done = muster("groups", "reset-offsets", "g", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"muster: {sentence}")


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (TargetSelection(to_earliest=True), ToEarliest()),
        (TargetSelection(to_latest=True), ToLatest()),
        (TargetSelection(to_offset=0), ToOffset(0)),
        (TargetSelection(to_datetime="1970-01-01T00:00:01.500"), ToTimestamp(1500)),
        (TargetSelection(shift_by=-3), ShiftBy(-3)),
        (TargetSelection(to_current=True), ToCurrent()),
        (TargetSelection(by_duration="PT1.5S"), ToTimestamp(NOW_MS - 1500)),
    ],
)
def test_each_flag_of_a_reset_names_its_target(given: TargetSelection, target: Target) -> None:
    assert given.target(NOW_MS) == target


def test_a_shift_by_nothing_is_still_a_target() -> None:
    assert TargetSelection(shift_by=0).target(NOW_MS) == ShiftBy(0)
    with pytest.raises(UsageError):
        TargetSelection().target(NOW_MS)


@pytest.mark.parametrize("zone", ["UTC0", "EST5", "IST-5:30"])
def test_a_time_without_a_zone_is_utc_wherever_it_is_asked(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    try:
        with monkeypatch.context() as there:
            there.setenv("TZ", zone)
            time.tzset()
            found = [parse_datetime(text) for text in ("1970-01-01T00:00:00", "1970-01-01T01:00:00+01:00")]
    finally:
        time.tzset()
    assert found == [0, 0]


def test_topics_may_name_partitions() -> None:
    assert parse_topics(["a", "b:0,2"]) == {"a": None, "b": frozenset({0, 2})}
    assert parse_topics(["a:1", "a", "b:0", "b:2"]) == {"a": None, "b": frozenset({0, 2})}


def test_lag_is_known_where_both_ends_are() -> None:
    assert [row.lag for row in DESCRIPTION.progress] == [3, None, None]
    assert PartitionProgress("t", 0, 9, 8, None).lag == -1  # As Kafka's tool has it.


def test_a_description_shows_members_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(tables.description(DESCRIPTION))
    rows = shown(capsys)
    assert rows[0] == [
        "group billing: Stable, 1 member, protocol consumer/range, coordinator 1 at localhost:9092"
    ]
    assert ["m-1", "static-1", "app", "/10.0.0.1", "orders-0 orders-1"] in rows
    assert ["orders", "0", "5", "8", "3", "m-1"] in rows
    assert ["orders", "1", "-", "8", "-", "m-1"] in rows
    assert ["gone", "0", "5", "-", "-", "-"] in rows


def test_a_description_in_json_has_the_same_and_the_lag(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show_json([tables.description_json(DESCRIPTION)])
    (found,) = json.loads(capsys.readouterr().out)
    assert found["members"][0]["partitions"] == ["orders-0", "orders-1"]
    assert [row["lag"] for row in found["progress"]] == [3, None, None]


def test_names_are_shown_as_they_are_also_in_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[red]" + "g" * 100
    tables.show(tables.list_table([GroupListing(name, "Stable", "consumer", "", 1)]))
    assert [name, "Stable", "consumer", "-", "1"] in shown(capsys)


def test_a_reset_shows_where_from_and_where_to(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(tables.moves_table({"g": [Move("orders", 0, None, 7)]}, names_groups=False))
    assert shown(capsys)[1:] == [["orders", "0", "-", "7"]]


def test_a_deletion_shows_what_was_kept_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = {
        "a": ErrorCode.NONE,
        "b": ErrorCode.NON_EMPTY_GROUP,
        "c": ErrorCode.GROUP_ID_NOT_FOUND,
        "d": ErrorCode.NOT_COORDINATOR,
    }
    tables.show(tables.deletion_table(outcome))
    assert [" ".join(row) for row in shown(capsys)[1:]] == [
        "a deleted",
        "b kept: it has members",
        "c there is no such group",
        "d kept: NOT_COORDINATOR",
    ]
