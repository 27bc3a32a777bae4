"""The command line on a Muster with HTTP: who is waited for, what happens live, and the figures it alone has."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.daemon import ROOT, MusterDaemon
from harness.http_client import get
from harness.processes import wait_until
from harness.wire import WireClient
from muster.client_properties import ClientSettings
from muster.groups.live_watch import line_of
from muster.groups.why.live import waiting_from
from muster.groups.why.waiting import MissingMember, Waiting, sentences
from muster.http_api import HttpApi, StreamedEvent, _reachable
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest
from tests.http.test_http_daemon import PATIENCE_S, beat, daemon_with_http, join, join_and_leave


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MusterDaemon, int]]:
    daemon, port = daemon_with_http(tmp_path_factory.mktemp("http_cli"))
    with daemon:
        wait_until(lambda: get(port, "/readyz").status == 200, "the shards are loaded", PATIENCE_S)
        yield daemon, port


def command(daemon: MusterDaemon, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "muster", *arguments, "--bootstrap", daemon.bootstrap]


def muster(daemon: MusterDaemon, *arguments: str) -> str:
    done = subprocess.run(
        command(daemon, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_why_says_who_is_waited_for_and_until_when(running: tuple[MusterDaemon, int]) -> None:
    """What Kafka's protocol does not say: who has joined again, and whether the others are heard."""
    daemon, port = running
    rejoin = JoinGroupRequest(
        group_id="late",
        member_id="",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=120_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    with WireClient(daemon.bootstrap, "slow-poll") as slow, WireClient(daemon.bootstrap, "newcomer") as new:
        member_id = join(slow, "late", session_ms=90_000)  # Of which two commands do not take a third.
        new.send(rejoin, 3)
        wait_until(lambda: get(port, "/api/v1/group", id="late").json["waiting"], "a rebalance", PATIENCE_S)
        slow.ask(HeartbeatRequest(group_id="late", generation_id=1, member_id=member_id), 3)
        said = muster(daemon, "groups", "why", "late")
        document = json.loads(muster(daemon, "groups", "why", "late", "--json"))
    assert "Joined: newcomer at 127.0.0.1." in said
    assert "Waited for: slow-poll at 127.0.0.1, which heartbeats, but does not poll, last heard" in said
    assert "at the latest, which is in" in said
    assert "Not known" not in said
    (missing,) = document["waiting"]["missing"]
    assert missing["heard_ms"] < 30_000
    assert missing["says"] == "heartbeats, but does not poll"


def _without_times(answer: dict[str, Any]) -> dict[str, Any]:
    """What both say, but for the times that go on between two questions."""
    text = [re.sub(r"\d+(\.\d)? m?s\b|\d+ min( \d+ s)?|\d\d:\d\d:\d\d", "T", each) for each in answer["text"]]
    waiting = answer["waiting"]
    if waiting is not None:
        missing = [each | {"heard_ms": None, "ends_in_ms": None} for each in waiting["missing"]]
        waiting = waiting | {"since_ms": None, "until_ms": None, "missing": missing}
    return answer | {"text": text, "now_ms": None, "waiting": waiting}


def _same_of_both(daemon: MusterDaemon, port: int, group: str) -> dict[str, Any]:
    """What the command and HTTP say of the group, which has to be the same."""
    by_command = _without_times(json.loads(muster(daemon, "groups", "why", group, "--json")))
    assert _without_times(get(port, "/api/v1/group/why", id=group).json) == by_command
    return by_command


def test_http_explains_a_classic_group_as_the_command_does(running: tuple[MusterDaemon, int]) -> None:
    """While it rebalances and once it is over: who is waited for, the assignor, how often it was so today."""
    daemon, port = running
    with WireClient(daemon.bootstrap, "slow-poll") as slow, WireClient(daemon.bootstrap, "newcomer") as new:
        member_id = join(slow, "same", session_ms=30_000)
        again = JoinGroupRequest(
            group_id="same",
            member_id=member_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=120_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        for generation in (2, 3):
            assert slow.ask(again, 3).error_code == 0
            sync = SyncGroupRequest(group_id="same", generation_id=generation, member_id=member_id)
            assert slow.ask(sync, 3).error_code == 0
        over = _same_of_both(daemon, port, "same")
        new.send(replace(again, member_id=""), 3)
        wait_until(lambda: get(port, "/api/v1/group", id="same").json["waiting"], "a rebalance", PATIENCE_S)
        time.sleep(0.05)
        slow.ask(HeartbeatRequest(group_id="same", generation_id=3, member_id=member_id), 3)
        waits = _same_of_both(daemon, port, "same")
    assert over["repetition"] == "This is the second time today for slow-poll at 127.0.0.1."
    assert any(line.startswith("Its assignor, range, is eager") for line in over["course"])
    (missing,) = waits["waiting"]["missing"]
    assert (missing["member_id"], missing["poll_interval_ms"]) == (member_id, 120_000)
    assert "  Its max.poll.interval.ms is 120000 (what it sends as its rebalance timeout)." in waits["text"]


def test_http_explains_a_consumer_group_as_the_command_does(running: tuple[MusterDaemon, int]) -> None:
    """Two members that look alike: one has everything to give up, the other waits for it."""
    daemon, port = running
    with WireClient(daemon.bootstrap, "worker") as client:
        topic = CreatableTopic(name="shared", num_partitions=2, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        beat(client, "one")
        stable = _same_of_both(daemon, port, "newer")
        beat(client, "two")
        wait_until(lambda: get(port, "/api/v1/group", id="newer").json["waiting"], "a rebalance", PATIENCE_S)
        waits = _same_of_both(daemon, port, "newer")
    assert stable["is_over"]
    assert {each["member"] for each in waits["waiting"]["missing"]} <= {
        "worker at 127.0.0.1 (member one)",
        "worker at 127.0.0.1 (member two)",
    }
    assert waits["why"]["because"] == "worker at 127.0.0.1 (member two) joined"


def test_http_says_at_least_where_older_events_are_not_in_memory(tmp_path: Path) -> None:
    """It keeps a few of each group, and after a restart those since then."""
    daemon, port = daemon_with_http(tmp_path, **{"muster.history.events.per.group": "10"})

    def repetition() -> str:
        found: str = get(port, "/api/v1/group/why", id="g").json["repetition"]
        return found

    with daemon:
        wait_until(lambda: get(port, "/readyz").status == 200, "the shards are loaded", PATIENCE_S)
        with WireClient(daemon.bootstrap, "app-1") as client:
            join_and_leave(client, "g")
            join_and_leave(client, "g")
            assert repetition() == "This is the second time today for app-1 at 127.0.0.1."
            join_and_leave(client, "g")
            assert repetition() == "This is at least the second time today for app-1 at 127.0.0.1."
        daemon.restart()
        wait_until(lambda: get(port, "/readyz").status == 200, "the shards are loaded", PATIENCE_S)
        with WireClient(daemon.bootstrap, "app-1") as client:
            join_and_leave(client, "g")
            join_and_leave(client, "g")
            assert repetition() == "This is at least the second time today for app-1 at 127.0.0.1."


def _heed_interrupts() -> None:
    """A shell has what it starts in the background ignore SIGINT, these tests and all that they start included."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its status, and what it said; one that does not end is aborted, and says where it was."""
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
    assert process.stderr is not None
    return process.wait(PATIENCE_S), process.stderr.read()


def test_watch_shows_each_event_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    daemon, port = daemon_with_http(tmp_path)
    with daemon:
        wait_until(lambda: get(port, "/readyz").status == 200, "the shards are loaded", PATIENCE_S)
        shown = tmp_path / "shown"
        with shown.open("w") as output:
            watching = subprocess.Popen(
                [*command(daemon, "groups", "watch", "g", "--jsonl")],
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"},
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=_heed_interrupts,
            )
        try:
            with WireClient(daemon.bootstrap) as client:
                wait_until(lambda: _first_seen(client, shown), "the stream has begun", PATIENCE_S)
                join_and_leave(client, "other")
                join_and_leave(client, "g")
            daemon.restart()
            wait_until(lambda: get(port, "/readyz").status == 200, "the shards are loaded", PATIENCE_S)
            with WireClient(daemon.bootstrap) as client:
                join_and_leave(client, "g")
                known = get(port, "/api/v1/topics", name="__group_events").json["records"]
            wait_until(lambda: _has_ended(shown, known), "all is shown", PATIENCE_S)
            watching.send_signal(signal.SIGINT)
            status, errors = _end_of(watching)
            assert status == 130, errors
        finally:
            watching.kill()
    found = [json.loads(line) for line in shown.read_text().splitlines()]
    assert {each["group_id"] for each in found} == {"g"}
    offsets = [each["offset"] for each in found]
    assert offsets == sorted(set(offsets))
    cycle = ["member_joined", "initial_delay_over", "assignment_stored", "member_left", "group_emptied"]
    assert [each["event"]["cause"] for each in found[-10:]] == 2 * cycle
    assert "the daemon is gone" in errors
    assert "are not seen" not in errors


def _first_seen(client: WireClient, shown: Path) -> bool:
    """Let something happen until it is shown: the stream begins some time after the command."""
    if not shown.read_text():
        join_and_leave(client, "g")
        time.sleep(0.05)
    return bool(shown.read_text())


def _has_ended(shown: Path, known: int) -> bool:
    """Whether all `known` events are shown, and those that are still written: the last empties the group."""
    newest = json.loads([line for line in shown.read_text().splitlines() if line.endswith("}")][-1])
    return bool(newest["offset"] >= known - 1 and newest["event"]["cause"] == "group_emptied")


def test_watch_asks_again_and_again_where_there_is_no_http(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path) as daemon:
        done = subprocess.run(
            command(daemon, "groups", "watch", "--times", "1"),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert "states shorter than 2 s are not seen" in done.stderr


def test_top_shows_the_time_lost_and_the_margin(running: tuple[MusterDaemon, int]) -> None:
    daemon, _ = running
    with WireClient(daemon.bootstrap) as client:
        join(client, "topped")
        found = muster(daemon, "top", "topped")
        rows = json.loads(muster(daemon, "top", "topped", "--json"))
    assert "time lost" in found
    assert "margin" in found
    assert rows[0]["lost_ms"] is not None


@pytest.mark.parametrize("event_id", ["-1", "7"])
async def test_a_stream_without_an_event_is_gone_on_with_where_it_began(event_id: str) -> None:
    """The daemon says where that is as it begins; -1 where the topic was empty."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        writer.write(f": beat\nid: {event_id}\n\n".encode())
        if len(asked) == 2:
            writer.write(b'id: 9\nevent: group\ndata: {"group_id": "g"}\n\n')
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        events = HttpApi("127.0.0.1", server.sockets[0].getsockname()[1]).events()
        assert await anext(events) is None
        assert await anext(events) == StreamedEvent("group", 9, {"group_id": "g"})
    assert b"last-event-id" not in asked[0].lower()
    assert f"\r\nlast-event-id: {event_id}\r\n".encode() in asked[1].lower()


@pytest.mark.parametrize(
    ("listener", "broker", "found"),
    [
        ("http://127.0.0.1:9640", "127.0.0.1", HttpApi("127.0.0.1", 9640)),
        ("http://127.0.0.1:9640", "localhost", HttpApi("127.0.0.1", 9640)),
        ("http://127.0.0.1:9640", "10.0.0.7", None),  # That is its loopback, not ours.
        ("http://localhost:9640", "muster.internal", None),
        ("http://0.0.0.0:9640", "10.0.0.7", HttpApi("10.0.0.7", 9640)),
        ("http://[::]:9640", "muster.internal", HttpApi("muster.internal", 9640)),
        ("http://[2001:db8::1]:9640", "10.0.0.7", HttpApi("2001:db8::1", 9640)),
        ("http://10.0.0.7:9640", "10.0.0.7", HttpApi("10.0.0.7", 9640)),
        ("nonsense", "10.0.0.7", None),
        ("http://a:b", "10.0.0.7", None),
    ],
)
def test_http_is_asked_only_where_it_can_be_that_of_the_broker(
    listener: str, broker: str, found: HttpApi | None
) -> None:
    assert _reachable(listener, broker, ClientSettings()) == found


def test_what_a_consumer_group_waits_for_has_partitions_of_one_and_times_of_the_other() -> None:
    stuck = MissingMember("app-1 at 10.0.0.7", ("orders-1",), member_id="m1")
    known = Waiting("Reconciling", None, None, (), (stuck,), True)
    group = {
        "state": "Reconciling",
        "since_ms": 1_000,
        "members": [{"member": "m2", "client": "app-2", "host": "10.0.0.8", "instance": None}],
        "waiting": {
            "joined": ["m2"],
            "missing": [
                {
                    "member": "m1",
                    "client": "app-1",
                    "host": "10.0.0.7",
                    "instance": None,
                    "heard_ms": 900,
                    "is": "gives_up",
                    "says": "has partitions",
                    "ends_in_ms": 5_000,
                }
            ],
            "ends_in_ms": None,
        },
    }
    found = waiting_from(group, known, 10_000)
    assert list(sentences(found, 10_000)) == [
        "It has been in Reconciling for 1.0 s.",
        "Have what they are to have: app-2 at 10.0.0.8.",
        "Waited for: app-1 at 10.0.0.7, last heard 900 ms ago, which has to give up orders-1, for 5.0 s more.",
    ]


def test_a_classic_group_that_waits_is_told_with_the_times_of_the_answer() -> None:
    """The answer has spans as of then; what is shown are times."""
    known = Waiting(
        "PreparingRebalance", 9_000, None, (), (MissingMember("app-1 at 10.0.0.7"),), False, ("?",)
    )
    late = {
        "member": "m1",
        "client": "app-1",
        "host": "10.0.0.7",
        "instance": None,
        "heard_ms": 3_500,
        "is": "heartbeats",
        "says": "heartbeats, but does not poll",
        "ends_in_ms": None,
    }
    group = {
        "state": "PreparingRebalance",
        "since_ms": 4_000,
        "members": [{"member": "m2", "client": "app-2", "host": "10.0.0.8", "instance": "i-2"}],
        "waiting": {
            "joined": ["m2"],
            "missing": [late, late | {"member": "m0", "client": "app-0"}],
            "ends_in_ms": 296_000,
        },
    }
    found = waiting_from(group, known, 10_000)
    says = "heartbeats, but does not poll"
    assert found == Waiting(
        "PreparingRebalance",
        6_000,
        306_000,
        ("i-2 (app-2 at 10.0.0.8)",),
        (
            MissingMember("app-0 at 10.0.0.7", heard_ms=3_500, says=says, member_id="m0"),
            MissingMember("app-1 at 10.0.0.7", heard_ms=3_500, says=says, member_id="m1"),
        ),
        is_certain=True,
    )
    assert waiting_from(group | {"waiting": None}, known, 10_000) is known
    assert waiting_from(group | {"since_ms": None}, known, 10_000).since_ms == 9_000


def test_lines_of_watch_hide_nothing_and_are_safe_for_a_terminal() -> None:
    data = {
        "group_id": "g",
        "from_state": "Stable",
        "to_state": "PreparingRebalance",
        "generation_id": 7,
        "reason": "member left: \x1b[2J",
        "client_id": "app\u202e",
        "client_host": "/10.0.0.7",
        "wall_ms": 0,
        "member_id": "m",
    }
    line = line_of(StreamedEvent("group", 1, data))
    assert line is not None
    said = "member left: \\x1b[2J (app\\u202e at 10.0.0.7)"
    assert line.endswith(f" g: Stable -> PreparingRebalance, generation 7: {said}")
    gap = StreamedEvent("gap", 4, {"from": 1, "to": 4, "why": "deleted"})
    assert line_of(gap) == "events 1 to 4 are not there any more"
    assert line_of(StreamedEvent("gap", 4, {"from": 1, "to": 4, "why": "slow"})) is None
