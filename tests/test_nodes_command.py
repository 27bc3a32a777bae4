"""`muster nodes`: what it makes of what nodes say, and what it says where they say nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from muster.cli import run
from muster.client_properties import ClientSettings
from muster.http_api import HttpApi, http_at
from muster.nodes_command import together

ONE, TWO = 1_000_001, 1_000_002


def node(node_id: int, rack: str | None = None) -> dict[str, Any]:
    place = {"listener": "PLAINTEXT", "host": "10.0.0.7", "port": 9092}
    return {"node": node_id, "is_this_one": False, "rack": rack, "started_ms": 0, "endpoints": [place]}


def shard(
    number: int, owner: int | None, state: str = "following", lease_ms: int | None = None
) -> dict[str, Any]:
    of = {"shard": number, "owner": owner, "advised": ONE, "state": state, "lease_ms": lease_ms}
    return {**of, "position": 5, "foreign_batches": 0}


def said(
    table: int | None, shards: list[dict[str, Any]], nodes: tuple[int, ...] = (ONE, TWO)
) -> dict[str, Any]:
    """What a node answers."""
    return {"node": ONE, "table": table, "nodes": [node(each) for each in nodes], "shards": shards}


def test_each_shard_is_as_the_node_shows_it_that_serves_it() -> None:
    one = said(7, [shard(0, ONE, "active", 900), shard(1, TWO)])
    two = said(7, [shard(0, ONE), shard(1, TWO, "active", 800)])
    found = together([one, two])
    assert [(each["shard"], each["lease_ms"]) for each in found.shards] == [(0, 900), (1, 800)]
    assert found.problems == []


def test_the_newest_table_names_the_nodes() -> None:
    old, new = said(None, [shard(0, ONE)], ()), said(8, [shard(0, TWO)])
    found = together([old, new])
    assert [each["node"] for each in found.nodes] == [ONE, TWO]
    assert found.shards[0]["owner"] == TWO


def test_what_is_wrong_is_said() -> None:
    shards = [shard(0, ONE, "active", -5), shard(1, None), shard(2, None), shard(3, TWO)]
    assert together([said(7, shards, (ONE,))]).problems == [
        "2 shards without a node: their groups have no coordinator",
        "1 shard with a lease that is over: nothing is answered",
        "1 shard claimed by a node that is not there: another claims them soon",
    ]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://127.0.0.1:9640", HttpApi("127.0.0.1", 9640, token="secret")),
        ("http://localhost:9640/", HttpApi("localhost", 9640, token="secret")),
        ("http://[::1]:9640", HttpApi("::1", 9640, token="secret")),
        ("http://muster-1:65535", HttpApi("muster-1", 65_535)),
    ],
)
def test_a_url_is_a_place_and_the_token_goes_in_clear_to_this_machine_alone(url: str, found: HttpApi) -> None:
    assert http_at(url, ClientSettings(http_token="secret")) == found


def test_over_https_the_token_goes_anywhere() -> None:
    found = http_at("https://muster-1:9640", ClientSettings(http_token="secret"))
    assert (found.host, found.port, found.token, found.tls is not None) == ("muster-1", 9640, "secret", True)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "muster-1:9640",
        "http://muster-1",
        "http://a:65536",
        "ftp://a:1",
        "http://a:1/b",
        "http://u@a:1",
        "http://a b:1",
    ],
)
def test_what_is_no_place_is_a_sentence(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["nodes", "--http", url]) == 2
    assert (
        capfd.readouterr().err == f"muster: --http {url} is neither http://host:port nor https://host:port\n"
    )


class Answers:
    """HTTP servers that answer one thing each."""

    def __init__(self, running: ExitStack) -> None:
        self._running = running

    def at(self, status: int, document: Any) -> str:
        """The URL of one that answers so."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, daemon=True).start()
        self._running.callback(server.server_close)
        self._running.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def answers() -> Iterator[Answers]:
    with ExitStack() as running:
        yield Answers(running)


def test_tables_for_people_and_json_for_programs(answers: Answers, capfd: pytest.CaptureFixture[str]) -> None:
    url = answers.at(200, said(7, [shard(0, ONE, "active", 2_400), shard(1, TWO)]))
    assert run(["nodes", "--http", url]) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert lines[0] == ["node", "rack", "up", "for", "where", "shards", "advised"]
    assert lines[1][0] == str(ONE)
    assert lines[1][-3:] == ["PLAINTEXT://10.0.0.7:9092", "1", "2"]
    assert lines[4:] == [
        ["shard", "owner", "advised", "state", "lease", "position"],
        ["0", str(ONE), str(ONE), "active", "2", "s", "5"],
        ["1", str(TWO), str(ONE), "-", "-", "5"],
    ]
    assert run(["nodes", "--json", "--http", url]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert (len(shown["nodes"]), len(shown["shards"]), shown["problems"]) == (2, 2, [])


def test_status_1_says_that_something_is_wrong(answers: Answers, capfd: pytest.CaptureFixture[str]) -> None:
    url = answers.at(200, said(7, [shard(0, ONE, "active", -61_000)]))
    assert run(["nodes", "--http", url]) == 1
    out = capfd.readouterr().out
    assert "over for 1 min 1 s" in out
    assert out.splitlines()[-1] == "1 shard with a lease that is over: nothing is answered"


def test_a_node_that_does_not_answer_is_named_and_the_others_are_shown(
    answers: Answers, capfd: pytest.CaptureFixture[str]
) -> None:
    alone, good = answers.at(404, {}), answers.at(200, said(7, [shard(0, ONE)]))
    assert run(["nodes", "--http", alone, "--http", good]) == 1
    shown = capfd.readouterr()
    assert shown.err == f"muster: {alone} is no node of several: its log is on its own disk\n"
    assert str(TWO) in shown.out
    failing = answers.at(503, {})
    assert run(["nodes", "--http", failing]) == 1
    assert capfd.readouterr().err == f"muster: {failing} does not answer (/api/v1/nodes: 503)\n"
