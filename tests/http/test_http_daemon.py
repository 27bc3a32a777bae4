"""HTTP of a real daemon, over real sockets: what is answered, and what bad input does."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from coordinator.http.server import API_MAX, CONNECTIONS_MAX
from harness.daemon import MusterDaemon
from harness.http_client import EventStream, get, send_raw
from harness.processes import HOST, free_port, wait_until
from harness.wire import WireClient
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.metrics.world import samples, value

FEW = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
PATIENCE_S = 30
BESIDE_S = 10.0
"""For a member beside scrapers that never read: what waited for one of them would wait for twice as long."""
BIDI = "\u202egroup\u202c \u0645\u062c\u0645\u0648\u0639\u0629 \u7ec4 \u05d2\u05e8\u05d5\u05e4 \u2066x\u2069"


def daemon_with_http(directory: Path, **more: str) -> tuple[MusterDaemon, int]:
    """A daemon whose HTTP has one port for all its runs."""
    port = free_port()
    settings = {**FEW, "muster.http.listeners": f"http://{HOST}:{port}", **more}
    return MusterDaemon(directory, settings), port


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MusterDaemon, int]]:
    daemon, port = daemon_with_http(tmp_path_factory.mktemp("http"))
    with daemon:
        wait_until(lambda: get(port, "/readyz").status == 200, "the shards are loaded", PATIENCE_S)
        yield daemon, port


def join(client: WireClient, group: str, *, session_ms: int = 10_000) -> str:
    """Join an empty group as its only member, up to Stable; return the member id."""
    asked = JoinGroupRequest(
        group_id=group,
        member_id="",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = client.ask(asked, 3)
    assert joined.error_code == 0, joined
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")],
    )
    assert client.ask(sync, 3).error_code == 0
    member_id: str = joined.member_id
    return member_id


def join_and_leave(client: WireClient, group: str) -> None:
    """Five events: two phases of a rebalance and its end, then the group is empty again."""
    left = client.ask(LeaveGroupRequest(group_id=group, member_id=join(client, group)), 2)
    assert left.error_code == 0


def test_health_metrics_and_the_lists_are_answered(running: tuple[MusterDaemon, int]) -> None:
    daemon, port = running
    assert get(port, "/readyz").status == 200
    assert get(port, "/livez").json == {"status": "live"}
    metrics = get(port, "/metrics")
    assert metrics.status == 200
    assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    page = samples(metrics.body.decode())
    assert value(page, "muster_shards", kind="groups", state="active") == 2
    assert value(page, "muster_metrics_series") == len(page) - 1
    with WireClient(daemon.bootstrap, "a client") as client:
        join(client, "listed")

        def listed_groups() -> Any:
            return get(port, "/api/v1/groups", q="LIST").json

        wait_until(lambda: listed_groups()["groups"][0]["rebalances"], "its events are written", PATIENCE_S)
        found = listed_groups()
        (listed,) = found["groups"]
        assert listed | {"lost_ms": 0} == {
            "group": "listed",
            "type": "classic",
            "state": "Stable",
            "members": 1,
            "generation": 1,
            "protocol": "range",
            "lag": None,
            "lag_seconds": None,
            "rebalances": 1,
            "lost_ms": 0,
            "last_cause": "member_joined",
            "margin": None,
        }
        clients = get(port, "/api/v1/clients", q="a client").json["clients"]
        assert [(each["client"], each["listener"]) for each in clients] == [("a client", "PLAINTEXT")]
    topics = {each["topic"] for each in get(port, "/api/v1/topics").json["topics"]}
    assert {"__consumer_offsets", "__group_events"} <= topics
    nothing = {"transactions": [], "matched": 0, "next": None}
    assert get(port, "/api/v1/transactions").json == nothing
    assert get(port, "/api/v1/transactions", state="Ongoing,completeCommit").json == nothing
    refused = get(port, "/api/v1/transactions", state="Bogus")
    assert (refused.status, "Ongoing, PrepareCommit" in refused.json["detail"]) == (400, True)
    settings = {each["name"]: each["value"] for each in get(port, "/api/v1/settings").json["settings"]}
    assert settings["muster.http.listeners"] == f"http://{HOST}:{port}"


@pytest.mark.parametrize(
    "group", ["..", "a/b", "%2e%2e", " ", "?&=#", BIDI, "\x00\r\n", "g" * 32_767, "组" * 10_922]
)
def test_a_group_may_be_called_anything(running: tuple[MusterDaemon, int], group: str) -> None:
    daemon, port = running
    with WireClient(daemon.bootstrap) as client:
        member_id = join(client, group)
        found = get(port, "/api/v1/group", id=group)
        assert found.status == 200
        assert found.body.isascii()
        assert found.json["group"] == group
        assert found.json["state"] == "Stable"
        assert [each["member"] for each in found.json["members"]] == [member_id]
        rebalances = get(port, "/api/v1/group/rebalances", id=group).json["rebalances"]
        assert [(each["cause"], each["outcome"]) for each in rebalances] == [("member_joined", "Stable")]
        assert get(port, "/api/v1/group/lag", id=group).status == 200
        assert get(port, "/readyz", group=group).status == 200
        client.ask(LeaveGroupRequest(group_id=group, member_id=member_id), 2)
    stream = EventStream(port, group=group, start="earliest")
    events = stream.read_until(5)
    stream.close()
    assert {event.data["group_id"] for event in events} == {group}


@pytest.mark.parametrize("path", ["", "/why", "/rebalances", "/lag"])
def test_a_group_that_is_not_there_is_not_found(running: tuple[MusterDaemon, int], path: str) -> None:
    for group in ("", "nobody", "../../etc/passwd"):
        answer = get(running[1], f"/api/v1/group{path}", id=group)
        assert answer.status == 404
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_why_is_said_in_words(running: tuple[MusterDaemon, int]) -> None:
    daemon, port = running
    with WireClient(daemon.bootstrap) as client:
        join(client, "worded")
        said = get(port, "/api/v1/group/why", id="worded").json
    assert "joined, the first member of an empty group" in said["text"][0]
    assert said["why"]["rule"] is not None


def test_a_rebalance_shows_who_is_waited_for(running: tuple[MusterDaemon, int]) -> None:
    """One member has joined again, the other heartbeats or is silent: its name, and until when."""
    daemon, port = running
    asked = JoinGroupRequest(
        group_id="waits",
        member_id="",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    with WireClient(daemon.bootstrap, "late") as late, WireClient(daemon.bootstrap, "early") as early:
        member_id = join(late, "waits")
        early.send(asked, 3)
        found = wait_until(
            lambda: (group := get(port, "/api/v1/group", id="waits").json)["waiting"] and group,
            "the second member has joined",
            PATIENCE_S,
        )
    waiting = found["waiting"]
    assert found["state"] == "PreparingRebalance"
    assert (waiting["joined_count"], waiting["missing_count"]) == (1, 1)
    (missing,) = waiting["missing"]
    assert (missing["member"], missing["client"], missing["host"]) == (member_id, "late", HOST)
    assert missing["is"] in ("not_heard", "heartbeats", "silent")
    assert missing["heard_ms"] < 6_000
    assert 0 < waiting["ends_in_ms"] <= 60_000


def test_a_consumer_group_shows_epochs_partitions_and_what_is_to_be_given_up(
    running: tuple[MusterDaemon, int],
) -> None:
    daemon, port = running
    with WireClient(daemon.bootstrap, "new") as client:
        topic = CreatableTopic(name="shared", num_partitions=2, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        beat(client, "one")
        found = get(port, "/api/v1/group", id="newer").json
        assert (found["type"], found["state"], found["waiting"]) == ("consumer", "Stable", None)
        (member,) = found["members"]
        assert (member["member"], member["client"], member["partitions"]) == (
            "one",
            "new",
            {"shared": [0, 1]},
        )
        assert (member["session_ms"], member["epoch"]) == (45_000, found["generation"])
        beat(client, "two")
        waiting = wait_until(
            lambda: get(port, "/api/v1/group", id="newer").json["waiting"], "a rebalance", PATIENCE_S
        )
    assert waiting["joined_count"] + waiting["missing_count"] == 2
    assert {each["is"] for each in waiting["missing"]} <= {"behind", "awaits", "gives_up"}


def beat(client: WireClient, member_id: str) -> None:
    """Join the group `newer`."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="newer",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["shared"],
        topic_partitions=[],
    )
    answer = client.ask(request, 1)
    assert answer.error_code == 0, answer


# Bad input.


def test_a_page_of_another_site_reads_nothing(running: tuple[MusterDaemon, int]) -> None:
    """DNS rebinding: a name of the page's own points here. Or the page asks across sites."""
    port = running[1]
    rebound = get(port, "/api/v1/settings", {"Host": f"evil.example:{port}"})
    assert rebound.status == 421
    assert "evil.example" in rebound.json["detail"]
    crossing = get(port, "/api/v1/settings", {"Origin": "http://evil.example"})
    assert crossing.status == 403
    for answer in (rebound, crossing, get(port, "/api/v1/settings")):
        assert not any(name.lower().startswith("access-control") for name in answer.headers)
    assert get(port, "/livez", {"Host": "LOCALHOST", "Origin": "http://localhost"}).status == 200
    assert get(port, "/livez", {"Host": f"[::1]:{port}"}).status == 200


def test_nothing_is_changed_here(running: tuple[MusterDaemon, int]) -> None:
    found = send_raw(
        running[1], b"DELETE /api/v1/group?id=x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert found.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in found


def test_an_oversized_head_is_refused_while_others_are_served(running: tuple[MusterDaemon, int]) -> None:
    port = running[1]
    found = send_raw(port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (4 << 20))
    assert found.startswith(b"HTTP/1.1 431 ")
    assert get(port, "/livez").status == 200


def test_a_slow_head_is_refused(running: tuple[MusterDaemon, int]) -> None:
    found = send_raw(running[1], b"GET / HTTP/1.1\r\nHost: loc")
    assert found.startswith(b"HTTP/1.1 408 ")


def test_scrapers_that_never_read_are_held_up_by_their_own_sockets(running: tuple[MusterDaemon, int]) -> None:
    """Each sends requests until its socket takes no more; the daemon holds little, and serves the others.

    They are as many as may ask at a time: probes are answered beside them, and one makes room for a request.
    """
    daemon, port = running
    before = psutil.Process(daemon.pid).memory_info().rss
    request = b"GET /api/v1/settings HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000
    sockets = []
    for _ in range(API_MAX):
        connection = socket.create_connection((HOST, port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(0.2)
        with suppress(TimeoutError):
            for _ in range(1_000):
                connection.sendall(request)
            raise AssertionError("the daemon reads on and on")
        sockets.append(connection)
    assert get(port, "/livez").status == 200
    assert get(port, "/readyz").status == 200
    # A slow machine may be at the answers of all of them still; room is made by one that stands still.
    wait_until(
        lambda: get(port, "/api/v1/settings", q="none").status == 200, "one makes room", 3 * PATIENCE_S
    )
    began = time.monotonic()
    with WireClient(daemon.bootstrap) as client:
        join_and_leave(client, "beside")
    assert time.monotonic() - began < BESIDE_S
    assert psutil.Process(daemon.pid).memory_info().rss - before < 48 << 20
    for connection in sockets:
        connection.close()


@pytest.fixture
def unused(tmp_path: Path) -> Iterator[int]:
    """The port of a daemon to which nobody was connected."""
    daemon, port = daemon_with_http(tmp_path)
    with daemon:
        yield port


def test_connections_are_few_and_one_between_requests_makes_room(unused: int) -> None:
    port = unused
    idle = []
    for _ in range(40):
        connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
        connection.request("GET", "/api/v1/settings?q=none")
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
        idle.append(connection)
    assert idle[0].sock.recv(1) == b""  # Closed for the 33rd.
    for connection in idle:
        connection.close()


def test_connections_that_ask_for_nothing_whole_are_bounded(unused: int) -> None:
    port = unused
    sockets = [socket.create_connection((HOST, port), timeout=PATIENCE_S) for _ in range(200)]
    for connection in sockets:
        with suppress(ConnectionError):
            connection.sendall(b"GET /livez")
    open_ones = list(sockets)

    def is_bounded() -> bool:
        """Whether no more are open than may be; what is refused hears of it sooner or later."""
        open_ones[:] = [connection for connection in open_ones if _said(connection) == b""]
        return len(open_ones) <= CONNECTIONS_MAX

    wait_until(is_bounded, "the others are closed", PATIENCE_S)
    assert len(open_ones) == CONNECTIONS_MAX
    assert get(port, "/livez").status == 200  # The oldest makes room.
    open_ones[0].settimeout(PATIENCE_S)
    assert open_ones[0].recv(1_000).startswith(b"HTTP/1.1 503 ")
    assert _said(open_ones[-1]) == b""
    for connection in sockets:
        connection.close()


def _said(connection: socket.socket) -> bytes:
    """What has come on a connection; nothing while it is open.

    That is not waited for: half a request is refused ten seconds after it has begun, of whomever it is.
    """
    connection.setblocking(False)
    try:
        return connection.recv(1_000) or b"reset"
    except BlockingIOError:
        return b""
    except ConnectionError:
        return b"reset"


# Where it listens.


def configured(daemon: MusterDaemon) -> tuple[str | None, int]:
    asked = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=4, resource_name="1", configuration_keys=["muster.http.listeners"]
            )
        ]
    )
    with WireClient(daemon.bootstrap) as client:
        (config,) = client.ask(asked, 4).results[0].configs
    return config.value, config.config_source


def test_a_port_that_the_system_chose_is_shown(tmp_path: Path) -> None:
    with MusterDaemon(
        tmp_path, {**FEW, "muster.http.listeners": f"http://{HOST}:0,http://[::1]:0"}
    ) as daemon:
        value, source = configured(daemon)
        assert value is not None
        ports = re.findall(r":(\d+)(?:,|$)", value)
        assert value == f"http://{HOST}:{ports[0]},http://[::1]:{ports[1]}"
        assert source == 4
        assert get(int(ports[0]), "/livez").status == 200
        assert f'"at": "{value}"' in daemon.log_path.read_text()


def test_an_empty_list_switches_it_off_and_nothing_is_imported_for_it(tmp_path: Path) -> None:
    environment = {"PYTHONVERBOSE": "1"}
    daemon = MusterDaemon(tmp_path, {**FEW, "muster.http.listeners": ""}, environment=environment)
    with daemon:
        assert configured(daemon)[0] == ""
    log = daemon.log_path.read_text(errors="replace")
    assert "import 'coordinator.daemon.daemon'" in log
    assert "import 'h11'" not in log
    assert "import 'coordinator.http" not in log


def test_a_port_set_by_hand_that_is_taken_refuses_the_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        daemon = MusterDaemon(tmp_path, {**FEW, "muster.http.listeners": f"http://{HOST}:{port}"})
        ended = subprocess.run(
            daemon._command(),
            env={**os.environ, **daemon._environment()},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    said = [line for line in ended.stderr.splitlines() if line.startswith("muster: ")]
    assert said == [f"muster: HTTP cannot be served on http://{HOST}:{port}: Address already in use"]


def test_the_default_port_that_is_taken_is_left_out_with_a_warning(tmp_path: Path) -> None:
    daemon = MusterDaemon(tmp_path, FEW)
    del daemon.overrides["muster.http.listeners"]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # It is taken by another, as well.
            taken.bind((HOST, 9640))
            taken.listen()
        with daemon:
            assert configured(daemon)[0] == ""
    lines = [json.loads(line) for line in daemon.log_path.read_text().splitlines() if line.startswith("{")]
    (warning,) = [line for line in lines if line["event"] == "HTTP is left out"]
    assert warning["level"] == "warning"
    assert "http://127.0.0.1:9640" in warning["reason"]
