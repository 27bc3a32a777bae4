"""What operators do with groups beyond a look: the commands as processes, against Muster's daemon or Apache Kafka
(MUSTER_TEST_TARGET=kafka).

Members are made over the wire and send no heartbeats: their sessions are long, and none comes back by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.partitioning import partition_for
from harness.daemon import MusterDaemon
from harness.heartbeats import send_heartbeat
from harness.kafka_broker import KafkaBroker
from harness.kafka_groups import await_coordinator, commit, consumer_join, join, offsets_of
from harness.observer import Observer
from harness.processes import ServerProcess, free_port, wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.test_group_commands import IS_MUSTER, ROOT, fill_topic

pytestmark = pytest.mark.xdist_group("group operations")

ODD_IDS = ("..", "a/b", "группа-שלום-課金-\u202e\u2066x\u2069", 'a "b",c\t\x1b[2J')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    kind = MusterDaemon if IS_MUSTER else KafkaBroker
    with kind(tmp_path_factory.mktemp("server"), {"group.initial.rebalance.delay.ms": "300"}) as running:
        asyncio.run(fill_topic(running.bootstrap, "orders"))
        yield running


def muster(
    server: ServerProcess | None, *arguments: str, status: int = 0, bootstrap: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command; MUSTER_BOOTSTRAP names the cluster, or `bootstrap`."""
    place = server.bootstrap if server else bootstrap
    clean = {name: value for name, value in os.environ.items() if name != "MUSTER_BOOTSTRAP"}
    done = subprocess.run(
        [sys.executable, "-m", "muster", *arguments],
        cwd=ROOT,
        env=clean | ({"MUSTER_BOOTSTRAP": place} if place else {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


def answered(server: ServerProcess, *arguments: str, status: int = 0) -> Any:
    return json.loads(muster(server, "groups", *arguments, "--json", status=status).stdout)


def leave_offsets(server: ServerProcess, group: str, offsets: dict[int, int]) -> None:
    """Commit with leader epochs and metadata, without membership."""
    with WireClient(server.bootstrap, "leaver") as client:
        await_coordinator(client, [group])
        commit(client, group, offsets)


def offsets_left(server: ServerProcess, group: str) -> dict[int, tuple[int, int, str]]:
    with WireClient(server.bootstrap, "looker") as client:
        await_coordinator(client, [group])
        return {partition: found for (_, partition), found in offsets_of(client, group).items()}


def join_as_consumer(server: ServerProcess, group: str) -> None:
    """Let a member of the consumer protocol in."""
    with WireClient(server.bootstrap, "joiner") as client:
        await_coordinator(client, [group])
        answer = send_heartbeat(client, consumer_join(group), 1)
        assert answer.error_code == ErrorCode.NONE, answer


# Which cluster, and which groups.


def test_the_cluster_is_found_by_option_variable_and_file_in_this_order(
    server: ServerProcess, tmp_path: Path
) -> None:
    leave_offsets(server, "found", {0: 1})
    nowhere = f"127.0.0.1:{free_port()}"
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={server.bootstrap}\nclient.id=ops\n")
    config = ("--command-config", str(file))
    place = ("--bootstrap-server", server.bootstrap)
    for arguments, variable in (
        (place, nowhere),
        ((*place, *config, "--timeout", "20000"), nowhere),
        (config, None),
    ):
        listed = muster(None, "groups", "list", "--match", "found", *arguments, bootstrap=variable)
        assert listed.stdout.split()[-5:] == ["found", "Empty", "-", "classic", "1"]
    refused = muster(None, "groups", "list", *config, status=1, bootstrap=nowhere)
    assert refused.stderr.startswith(f"muster: no Kafka broker answers on {nowhere}")
    file.write_text("sasl.login.class=x\nacks=all\n")
    refused = muster(None, "groups", "list", *config, status=2)
    assert refused.stderr == f"muster: {file}: cannot be honoured here: sasl.login.class\n"


def test_groups_of_an_expression_are_deleted_only_when_told_to(server: ServerProcess) -> None:
    for group in ("doomed-1", "doomed-2", "undoomed"):
        leave_offsets(server, group, {0: 1})
    join(server.bootstrap, "doomed-live", [None])
    planned = muster(server, "groups", "delete", "--match", "doomed-.*")
    assert planned.stdout.split() == ["group", "doomed-1", "doomed-2", "doomed-live"]
    assert planned.stderr == "nothing was changed: add --execute to delete 3 groups\n"
    there = {group["group_id"] for group in answered(server, "list", "--match", ".*doomed.*")}
    assert there == {"doomed-1", "doomed-2", "doomed-live", "undoomed"}
    assert answered(server, "delete", "--match", "doomed-.*", "--execute", status=1) == {
        "doomed-1": "NONE",
        "doomed-2": "NONE",
        "doomed-live": "NON_EMPTY_GROUP",
    }
    assert [group["group_id"] for group in answered(server, "list", "--match", "undoomed")] == ["undoomed"]


def in_log(group_id: str) -> int:
    """The partition that has a group's commits."""
    return partition_for(group_id, 50)


def test_a_reset_warns_of_a_group_that_has_just_committed(server: ServerProcess) -> None:
    """It has no members, and yet somebody reads: what is set would last until the next commit."""
    with WireClient(server.bootstrap) as client:
        await_coordinator(client, ["assigning"])
        commit(client, "assigning", {0: 3})
    to_the_end = ("--topic", "orders", "--to-latest", "--execute")

    def said() -> str:
        return muster(server, "groups", "reset-offsets", "assigning", *to_the_end).stderr

    wait_until(said, "the commit can be read", 30)
    sentence = r"group assigning has committed \d+ (ms|s) ago: unless its members have left since, "
    assert re.match(sentence, said())
    beside = next(each for each in map("beside-{}".format, count()) if in_log(each) == in_log("assigning"))
    fresh = muster(server, "groups", "reset-offsets", beside, *to_the_end)
    assert "committed" not in fresh.stderr, "its own commit comes after, and that is another group's"


def test_of_several_groups_those_without_members_are_reset_and_the_others_named(
    server: ServerProcess,
) -> None:
    leave_offsets(server, "several-1", {0: 1})
    leave_offsets(server, "several-2", {0: 2, 1: 2})
    join(server.bootstrap, "several-live", [None])
    reset = (
        "reset-offsets",
        "--all-groups",
        "--match",
        "several-.*",
        "--all-topics",
        "--to-latest",
        "--execute",
    )
    done = answered(server, *reset, status=1)
    assert [(move["group_id"], move["partition"], move["to_offset"]) for move in done["moves"]] == [
        ("several-1", 0, 10),
        ("several-2", 0, 10),
        ("several-2", 1, 10),
    ]
    assert list(done["refused"]) == ["several-live"]
    assert offsets_left(server, "several-1") == {0: (10, -1, "")}
    assert answered(server, "reset-offsets", "several-1", "several-2", *reset[3:])["refused"] == {}
    refused = muster(server, "groups", "reset-offsets", "--all-groups", *reset[4:], status=2)
    assert refused.stderr.startswith("muster: --all-groups wants --match beside it")


def test_an_exported_plan_brings_the_offsets_back(server: ServerProcess, tmp_path: Path) -> None:
    leave_offsets(server, "planned", {0: 3, 1: 5})
    plan = tmp_path / "plan.csv"
    exported = muster(
        server, "groups", "reset-offsets", "planned", "--all-topics", "--to-current", "--export"
    )
    assert exported.stdout == "orders,0,3\norders,1,5\n"
    plan.write_text(exported.stdout)
    muster(server, "groups", "reset-offsets", "planned", "--all-topics", "--to-latest", "--execute")
    muster(server, "groups", "reset-offsets", "planned", "--from-file", str(plan), "--execute")
    assert {n: offset for n, (offset, *_) in offsets_left(server, "planned").items()} == {0: 3, 1: 5}
    other = muster(server, "groups", "reset-offsets", "planned", "x", "--from-file", str(plan), status=2)
    assert other.stderr == "muster: --from-file: its lines name no group, and there are several\n"


def test_time_lag_is_the_age_of_the_record_that_is_read_next(server: ServerProcess) -> None:
    observer = Observer(server.bootstrap)
    topic = observer.create_topic("aged", 3)
    began_ms = round(time.time() * 1000) - 5_400_000
    for partition in (0, 1):
        observer.write(topic, map(str, range(3)), partition, base_ms=began_ms)
    observer.commit("aged", topic, {0: 1, 1: 3, 2: 0})
    (found,) = answered(server, "describe", "aged", "--time-lag", "--offsets")
    ages = {row["partition"]: row["time_lag"] for row in found["progress"]}
    assert 5_399_000 <= ages[0]["lag_ms"] < 5_460_000
    assert (ages[0]["timestamp_type"], ages[0]["at_least"]) == ("CreateTime", False)
    assert ages[1] == ages[2] == {"lag_ms": 0, "timestamp_type": None, "at_least": False}
    shown = muster(server, "groups", "describe", "aged", "--time-lag", "--offsets")
    assert re.search(r" 1 h (29|30|31) min ", shown.stdout)
    assert shown.stderr == "time lag by CreateTime: the producers' clocks, not the broker's\n"
    limited = answered(server, "check", "aged", "--window", "0s", "--max-time-lag", "5m", status=1)
    assert [(each["status"], each["partition"]) for each in limited[0]["findings"]] == [("LIMIT", 0)]
    answered(server, "check", "aged", "--window", "0s", "--max-time-lag", "2h", "--max-lag", "2")


# What groups have committed.


def test_offsets_of_a_topic_are_deleted_unless_a_member_reads_it(server: ServerProcess) -> None:
    leave_offsets(server, "forgets", {0: 1, 1: 2})
    deleted = answered(
        server, "delete-offsets", "forgets", "--topic", "orders:1", "--topic", "gone", status=1
    )
    assert deleted == [
        {"topic": "gone", "partition": None, "error": "UNKNOWN_TOPIC_OR_PARTITION"},
        {"topic": "orders", "partition": 1, "error": "NONE"},
    ]
    assert list(offsets_left(server, "forgets")) == [0]
    join(server.bootstrap, "reads", [None])
    kept = answered(server, "delete-offsets", "reads", "--topic", "orders", status=1)
    assert {row["error"] for row in kept} == {"GROUP_SUBSCRIBED_TO_TOPIC"}
    none = muster(server, "groups", "delete-offsets", "forgets-none", "--topic", "orders", status=1)
    assert none.stderr.endswith("the cluster answers GROUP_ID_NOT_FOUND\n")


def test_a_copy_has_epochs_and_metadata_and_is_committed_only_when_told_to(server: ServerProcess) -> None:
    leave_offsets(server, "source", {0: 3, 1: 5})
    muster(server, "groups", "copy-offsets", "source", "target")
    assert offsets_left(server, "target") == {}
    muster(server, "groups", "copy-offsets", "source", "target", "--execute")
    assert (
        offsets_left(server, "target")
        == offsets_left(server, "source")
        == {
            0: (3, 0, "note 3"),
            1: (5, 1, "note 5"),
        }
    )
    join(server.bootstrap, "target-live", [None])
    live = muster(server, "groups", "copy-offsets", "source", "target-live", "--execute", status=1)
    assert "has 1 live member" in live.stderr
    nothing = muster(server, "groups", "copy-offsets", "source-none", "target", "--execute", status=1)
    assert nothing.stderr == "muster: group source-none has committed no offset\n"


def test_what_is_exported_is_imported_whole_or_not_at_all(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "offsets.jsonl"
    for group in ("moved-1", "moved-2"):
        leave_offsets(server, group, {0: 3, 1: 5})
    muster(server, "groups", "export", str(file), "--match", "moved-.*")
    muster(server, "groups", "delete", "moved-1", "moved-2")
    assert (
        "4 offsets of 2 groups would be imported"
        in muster(server, "groups", "import", str(file), "--dry-run").stdout
    )
    join(server.bootstrap, "moved-2", [None])
    refused = muster(server, "groups", "import", str(file), status=1)
    assert refused.stderr.endswith("stop it first (nothing was written)\n")
    assert offsets_left(server, "moved-1") == {}
    done = answered(server, "import", str(file), "moved-1")
    assert (done["offsets"], done["groups"]) == (2, ["moved-1"])
    assert offsets_left(server, "moved-1") == {0: (3, 0, "note 3"), 1: (5, 1, "note 5")}
    shown = muster(server, "groups", "import", str(file), "moved-1").stdout.splitlines()
    assert [line.split() for line in shown[1:]] == [
        ["moved-1", "orders", "0", "3"],
        ["moved-1", "orders", "1", "5"],
        ["2", "offsets", "of", "1", "groups", "imported"],
    ]
    absent = muster(server, "groups", "import", str(file), "moved-3", status=2)
    assert absent.stderr == f"muster: not in {file}: moved-3\n"


# Members.


@pytest.mark.parametrize(
    "selected", [("--all-members",), ("--instance-id", "one", "--client-id", "kicked-1")]
)
def test_classic_members_are_removed(server: ServerProcess, selected: tuple[str, ...]) -> None:
    group = "kicked"
    members = join(server.bootstrap, group, ["one", None])
    outcome = answered(server, "remove-member", group, *selected, "--reason", "a test")
    assert outcome == {member_id: "NONE" for member_id, _ in members}
    muster(server, "groups", "wait", group, "--state", "Empty", "--members", "0", "--timeout", "20s")
    if IS_MUSTER:
        reasons = {event["reason"] for event in json_events(server, group)}
        assert any("member was removed by an admin: a test" in reason for reason in reasons)
    gone = muster(server, "groups", "remove-member", group, "--client-id", "kicked-1", status=1)
    assert gone.stderr == f"muster: group {group} has no member of the client id kicked-1\n"


def test_only_the_members_that_are_named_are_removed(server: ServerProcess) -> None:
    join(server.bootstrap, "kicked-once", ["one", "two"])
    answered(server, "remove-member", "kicked-once", "--instance-id", "one")
    (group,) = answered(server, "describe", "kicked-once", "--members")
    assert [member["group_instance_id"] for member in group["members"]] == ["two"]
    muster(server, "groups", "remove-member", "kicked-once", status=2)


def json_events(server: ServerProcess, group: str) -> Any:
    return answered(server, "history", group)


def test_a_member_of_the_consumer_protocol_is_removed(server: ServerProcess) -> None:
    join_as_consumer(server, "kicked-consumers")
    (group,) = answered(server, "describe", "kicked-consumers", "--members")
    (member,) = group["members"]
    removed = answered(server, "remove-member", "kicked-consumers", "--member-id", member["member_id"])
    assert removed == {member["member_id"]: "NONE"}
    muster(server, "groups", "wait", "kicked-consumers", "--state", "Empty", "--timeout", "20s")


# Waiting, checking, watching.


def test_a_wait_ends_when_all_of_it_is_so(server: ServerProcess) -> None:
    late = subprocess.Popen(
        [sys.executable, "-m", "muster", "groups", "wait", "awaited", "--members", "2", "--state", "stable"],
        cwd=ROOT,
        env={**os.environ, "MUSTER_BOOTSTRAP": server.bootstrap},
        stdout=subprocess.PIPE,
        text=True,
    )
    join(server.bootstrap, "awaited", [None, "one"])
    out, _ = late.communicate(timeout=60)
    assert late.returncode == 0
    assert out.startswith("awaited after ")
    assert out.endswith(": Stable, 2 members, lag 0, no lag known of 2 partitions\n")


def test_a_wait_in_vain_says_what_it_saw(server: ServerProcess) -> None:
    leave_offsets(server, "vain", {0: 3})
    done = muster(server, "groups", "wait", "vain", "--lag-below", "7", "--timeout", "1s", status=1)
    assert done.stderr == "muster: group vain is not so after 1 s: Empty, 0 members, lag 7\n"
    met = answered(server, "wait", "vain", "--lag-below", "8", "--timeout", "20s")
    assert (met["met"], met["seen"]["lag"]) == (True, 7)
    nowhere = f"127.0.0.1:{free_port()}"
    done = muster(
        None,
        "groups",
        "wait",
        "vain",
        "--members",
        "0",
        "--timeout",
        "1s",
        status=1,
        bootstrap=nowhere,
    )
    assert f"no Kafka broker answers on {nowhere}" in done.stderr
    for wrong in (("--timeout", "60"), ("--state", "stuck"), ()):
        muster(server, "groups", "wait", "vain", *wrong, status=2)


def test_a_check_tells_one_that_stands_still_from_one_that_is_not_there(server: ServerProcess) -> None:
    leave_offsets(server, "checked-stop", {0: 3, 1: 10})
    leave_offsets(server, "checked-well", {0: 10})
    members = join(server.bootstrap, "checked-stall", [None, None])
    with WireClient(server.bootstrap, "committer") as client:
        commit(client, "checked-stall", {0: 3, 1: 10}, members[0])
    done = muster(server, "groups", "check", "--match", "checked-.*", "--window", "1s", status=1)
    assert done.stdout.splitlines() == [
        "checked-stall: STALL orders-0: lag 7, and nothing committed beyond 3 for 1 s",
        "checked-stop: STOP orders-0: lag 7, and no member has it",
        "checked-well: OK",
    ]
    assert answered(server, "check", "checked-well", "--window", "1s")[0]["status"] == "OK"
    none = muster(server, "groups", "check", "checked-none", "--window", "0s", status=1)
    assert none.stderr == "muster: there is no group checked-none\n"


def test_a_check_counts_rebalances_where_they_are_kept(server: ServerProcess) -> None:
    join(server.bootstrap, "rebalances", [None, None])
    limit = ("check", "rebalances", "--window", "0s", "--max-rebalances")
    if not IS_MUSTER:
        done = muster(server, "groups", *limit, "1/h", status=1)
        assert "keeps no history" in done.stderr
        return
    deadline = time.monotonic() + 20
    while not (events := json_events(server, "rebalances")) or events[-1]["to_state"] != "Stable":
        assert time.monotonic() < deadline, events
    rows = muster(server, "groups", "history", "rebalances").stdout.splitlines()[1:]
    count = len(rows)
    answered(server, *limit, f"{count}/h")
    (verdict,) = answered(server, *limit, f"{count - 1}/h", status=1)
    assert verdict["findings"][0]["what"] == f"{count} rebalances in 1 h, more than {count - 1}"


def test_watch_has_a_line_for_each_change_and_top_a_row_for_each_group(server: ServerProcess) -> None:
    leave_offsets(server, "watched", {0: 3})
    watching = subprocess.Popen(
        [sys.executable, "-m", "muster", "groups", "watch", "watched", "--jsonl", "--interval", "100ms"],
        cwd=ROOT,
        env={**os.environ, "MUSTER_BOOTSTRAP": server.bootstrap},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    assert (first["before"], first["now"]["state"], first["now"]["lag"]) == (None, "Empty", 7)
    with WireClient(server.bootstrap, "deleter") as client:
        client.ask(DeleteGroupsRequest(groups_names=["watched"]), 2)
    second = json.loads(watching.stdout.readline())
    assert (second["before"]["state"], second["now"]["state"]) == ("Empty", "Dead")
    watching.terminate()
    _, errors = watching.communicate(timeout=20)
    assert errors.startswith("states shorter than 100 ms are not seen\n")
    leave_offsets(server, "topped", {0: 3})
    topped = muster(server, "top", "--match", "topped")
    assert topped.stdout.splitlines()[1].split() == ["topped", "Empty", "0", "1", "7", "-", "0"]
    assert topped.stderr == "states shorter than 2 s are not seen\n"


def test_top_is_left_by_its_key_on_a_terminal(server: ServerProcess) -> None:
    leave_offsets(server, "on-a-terminal", {0: 3})
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "muster", "top", "--match", "on-a-t.*", "--interval", "200ms"]
    shown = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "MUSTER_BOOTSTRAP": server.bootstrap, "TERM": "xterm", "COLUMNS": "120"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    read_until(ours, "on-a-terminal")
    os.write(ours, b"\r")
    read_until(ours, "coordinator 1 at")
    os.write(ours, b"q")
    read_until(ours, "lag/s")
    os.write(ours, b"/none\r")
    read_until(ours, "with 'none'")
    os.write(ours, b"q")
    assert shown.wait(20) == 0
    os.close(ours)


def read_until(terminal: int, text: str) -> None:
    """Read what is drawn from now on until `text` is in it."""
    drawn = b""
    deadline = time.monotonic() + 30
    while text.encode() not in drawn:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, drawn
        drawn += os.read(terminal, 65_536)


def test_completion_knows_the_options_of_every_command(tmp_path: Path) -> None:
    script = tmp_path / "muster.bash"
    done = subprocess.run(
        [sys.executable, "-m", "muster", "--install-completion", "--shell", "bash", "--output", str(script)],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    typed = "COMP_WORDS=(muster groups reset-offsets --to-); COMP_CWORD=3; _muster; echo ${COMPREPLY[@]}"
    offered = subprocess.run(
        ["bash", "-c", f"source {script}; {typed}"], capture_output=True, text=True, timeout=20, check=True
    )
    wanted = {"--to-earliest", "--to-latest", "--to-current", "--to-offset", "--to-datetime"}
    assert set(offered.stdout.split()) == wanted


# Bad input.


def test_ids_of_any_kind_go_through_every_command(server: ServerProcess, tmp_path: Path) -> None:
    for group in ODD_IDS:
        leave_offsets(server, group, {0: 3})
    listed = {group["group_id"] for group in answered(server, "list")}
    assert listed >= set(ODD_IDS)
    described = answered(server, "describe", *ODD_IDS)
    assert [group["group_id"] for group in described] == list(ODD_IDS)
    shown = muster(server, "groups", "describe", *ODD_IDS).stdout
    assert not {"\u202e", "\u2066", "\x1b"} & set(shown)
    assert r"\u202e\u2066x\u2069: Empty" in shown
    plan, file = tmp_path / "plan.csv", tmp_path / "rows.jsonl"
    export = ("reset-offsets", *ODD_IDS, "--all-topics", "--to-latest", "--export")
    plan.write_text(muster(server, "groups", *export).stdout)
    muster(server, "groups", "reset-offsets", *ODD_IDS, "--from-file", str(plan), "--execute")
    assert {group: offsets_left(server, group)[0][0] for group in ODD_IDS} == dict.fromkeys(ODD_IDS, 10)
    muster(server, "groups", "export", str(file), *ODD_IDS)
    assert set(answered(server, "delete", *ODD_IDS).values()) == {"NONE"}
    assert answered(server, "import", str(file))["offsets"] == len(ODD_IDS)


def test_an_id_that_is_too_long_for_the_protocol_is_refused_in_a_sentence(server: ServerProcess) -> None:
    longest, too_long = "g" * 32_767, "g" * 32_768
    for arguments in (("describe",), ("delete",), ("reset-offsets", "--all-topics", "--to-latest")):
        done = muster(server, "groups", arguments[0], too_long, *arguments[1:], status=1)
        assert done.stderr.startswith("muster: FindCoordinatorRequest cannot be sent: ")
        assert len(done.stderr) < 1_500
    done = muster(server, "groups", "describe", longest, status=1)
    assert len(done.stderr) < 1_500
    wrong = subprocess.run(
        [sys.executable, "-m", "muster", "groups", "describe", b"\xff\xfe"],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (wrong.returncode, wrong.stderr) == (2, b"muster: argument 3 is no UTF-8: '\\udcff\\udcfe'\n")
