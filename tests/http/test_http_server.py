"""The listeners and the number of connections, and the settings that say where."""

from __future__ import annotations

import socket
from typing import Any, cast

import pytest

from coordinator.http.connection import Connection, Stream
from coordinator.http.exchange import JSON, HttpProblem, Request, Steps
from coordinator.http.server import (
    API_MAX,
    CONNECTIONS_MAX,
    REFUSED_MAX,
    UNREAD_WANTED_MS,
    HttpBindError,
    HttpServer,
)
from coordinator.settings.http_listeners import HttpListener, http_listener
from coordinator.settings.sources import SettingsError, load
from tests.http.doubles import Host, Loop, Transport, answers

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Silent:
    """A stream without events."""

    def on_writable(self) -> None:
        """Nothing."""

    def on_closed(self) -> None:
        """Nothing."""


class Endless:
    """Answers, of which those of `/busy` never end; `/stream` is a stream."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def handle(self, request: Request, connection: Connection) -> tuple[Steps, str] | Stream:
        if request.target == b"/stream":
            return Silent()

        def steps() -> Steps:
            while b"busy" in request.target:
                self._loop.now_ns += 1_000_000
                yield None
            yield None
            return 1

        return steps(), JSON

    def on_time(self, now_ms: int) -> None:
        """Nothing."""


class Server:
    """A server whose connections have no sockets."""

    def __init__(self) -> None:
        self.host = Host(lambda request: (_ for _ in ()))  # type: ignore[arg-type, return-value]  # Its loop alone.
        self.timers: dict[Any, int | None] = {}
        self.server = HttpServer(Endless(self.host.loop), self.host.steps, self.host.now_ms, self._set_timer)

    def _set_timer(self, owner: Any, key: Any, deadline_ms: int | None) -> None:
        self.timers[key] = deadline_ms

    def connect(self, sent: bytes = b"") -> Transport:
        transport = Transport()
        connection = transport.connection = Connection(self.server)
        connection.connection_made(cast(Any, transport))
        if sent and not transport.is_closed:
            connection.data_received(sent)
            for _ in range(3):
                self.host.loop.turn()
        self.host.clock_ms += 1
        return transport


async def test_one_more_takes_the_place_of_the_connection_that_is_idle_the_longest() -> None:
    server = Server()
    transports = [server.connect(GET) for _ in range(API_MAX)]
    assert not any(transport.is_closed for transport in transports)
    more = server.connect(GET)
    server.host.loop.turn_until_idle()
    assert [transport.is_closed for transport in transports] == [True] + [False] * (API_MAX - 1)
    assert answers(more.written)[0][0] == 200


async def test_one_more_is_refused_where_all_are_busy() -> None:
    server = Server()
    busy = [server.connect(GET.replace(b"/ ", b"/busy ")) for _ in range(API_MAX)]
    refused = server.connect(GET)
    for _ in range(100):
        server.host.loop.turn()
    status, _, headers = answers(refused.written)[0]
    assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
    assert refused.has_ended
    assert not any(transport.is_closed or transport.is_aborted for transport in busy)


def busy(path: str = "/busy") -> bytes:
    return GET.replace(b"/ ", path.encode() + b" ")


async def test_probes_are_answered_beside_as_many_as_may_ask_for_more() -> None:
    server = Server()
    for _ in range(API_MAX):
        server.connect(busy())
    for target in ("/livez", "/readyz", "/readyz?group=g"):
        probe = server.connect(busy(target))
        for _ in range(2 * API_MAX):
            server.host.loop.turn()
        assert answers(probe.written)[0][0] == 200
    refused = server.connect(busy("/livez/"))
    for _ in range(2 * API_MAX):
        server.host.loop.turn()
    assert answers(refused.written)[0][0] == 503


async def test_a_connection_that_has_probed_counts_once_it_asks_for_more() -> None:
    server = Server()
    probing = server.connect(busy("/livez"))
    for _ in range(API_MAX):
        server.connect(busy())
    probing.connection.data_received(GET)
    for _ in range(2 * API_MAX):
        server.host.loop.turn()
    assert [status for status, _, _ in answers(probing.written, "GET", "GET")] == [200, 503]


async def test_a_peer_that_does_not_read_makes_room_after_a_while() -> None:
    """The one that has not read for the longest time; a connection more is refused until then."""
    server = Server()
    unread = [server.connect(busy()) for _ in range(API_MAX)]
    for transport in unread:
        transport.connection.pause_writing()
        server.host.clock_ms += 1
    refused = server.connect(GET)
    server.host.clock_ms += UNREAD_WANTED_MS - API_MAX
    for _ in range(2 * API_MAX):
        server.host.loop.turn()
    taken = server.connect(GET)
    for _ in range(2 * API_MAX):
        server.host.loop.turn()
    assert answers(refused.written)[0][0] == 503
    assert answers(taken.written)[0][0] == 200
    assert [transport.is_aborted for transport in unread] == [True] + [False] * (API_MAX - 1)


async def test_a_stream_whose_client_does_not_read_makes_no_room() -> None:
    """These have a bound of their own."""
    server = Server()
    streams = [server.connect(busy("/stream")) for _ in range(CONNECTIONS_MAX)]
    for transport in streams:
        transport.connection.pause_writing()
    server.host.clock_ms += UNREAD_WANTED_MS
    assert answers(server.connect().written)[0][0] == 503
    assert not any(transport.is_aborted for transport in streams)


async def test_the_oldest_request_that_is_not_whole_makes_room() -> None:
    server = Server()
    partial = [server.connect(b"GET /") for _ in range(CONNECTIONS_MAX)]
    more = server.connect(GET)
    server.host.loop.turn_until_idle()
    assert answers(more.written)[0][0] == 200
    assert [transport.is_closed for transport in partial] == [True] + [False] * (CONNECTIONS_MAX - 1)
    assert answers(partial[0].written)[0][0] == 503


@pytest.mark.parametrize("method", ["HEAD", "CONNECT", "GET"])
async def test_a_request_whose_body_is_missing_makes_room_without_a_word(method: str) -> None:
    server = Server()
    head = f"{method} /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n1234".encode()
    partial = [server.connect(head) for _ in range(CONNECTIONS_MAX)]
    server.connect()
    assert partial[0].is_closed
    assert not partial[0].written


async def test_an_idle_connection_makes_room_before_a_request_that_is_not_whole() -> None:
    server = Server()
    partial = [server.connect(b"GET /") for _ in range(CONNECTIONS_MAX - 1)]
    idle = server.connect()
    server.connect()
    assert idle.is_closed
    assert not any(transport.is_closed for transport in partial)


async def test_connections_whose_peers_do_not_close_make_room() -> None:
    """They were answered for the last time, and linger so that the peer can read it."""
    server = Server()
    over = [
        server.connect(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) for _ in range(API_MAX)
    ]
    over += [server.connect(b"nonsense\r\n\r\n") for _ in range(CONNECTIONS_MAX - API_MAX)]
    server.host.loop.turn_until_idle()
    assert all(transport.has_ended and not transport.is_closed for transport in over)
    more = [server.connect(GET) for _ in range(2)]
    server.host.loop.turn_until_idle()
    assert [answers(transport.written)[0][0] for transport in more] == [200, 200]
    assert [transport.is_closed for transport in over] == [True] * 4 + [False] * (CONNECTIONS_MAX - 4), (
        "each makes two of them close: for the connection, and for the request"
    )


async def test_a_connection_that_makes_room_is_not_kept_by_what_its_peer_has_not_read() -> None:
    server = Server()
    idle = server.connect(GET)
    idle.unsent = 1
    for _ in range(API_MAX):
        server.connect(GET)
    assert idle.is_aborted


async def test_connections_are_bounded_where_all_are_busy() -> None:
    server = Server()
    streams = [server.connect(busy("/stream")) for _ in range(CONNECTIONS_MAX)]
    refused = [server.connect() for _ in range(REFUSED_MAX)]
    assert all(answers(transport.written)[0][0] == 503 and transport.is_closed for transport in refused)
    beyond = server.connect()
    assert beyond.is_aborted
    assert not beyond.written
    for transport in (streams[0], *refused, beyond):
        transport.connection.connection_lost(None)
    assert not server.connect(b"GET /").is_closed


async def test_deadlines_are_looked_at_while_there_are_connections_and_no_longer() -> None:
    server = Server()
    assert server.timers == {}
    transport = server.connect()
    assert server.timers[None] is not None
    server.timers.clear()
    server.server.timer_fired(None)
    assert server.timers[None] is not None
    transport.connection.connection_lost(None)
    server.timers.clear()
    server.server.timer_fired(None)
    assert server.timers == {}


async def test_of_several_listeners_none_is_left_open_if_one_cannot_be_opened() -> None:
    server = Server()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(HttpBindError) as refused:
            await server.server.listen([HttpListener("127.0.0.1", 0), HttpListener("127.0.0.1", port)])
    assert f"http://127.0.0.1:{port}" in str(refused.value)
    bound = int(server.server.addresses[0].rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", bound))


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("http://127.0.0.1:9640", HttpListener("127.0.0.1", 9640)),
        ("HTTP://Muster.example:0/", HttpListener("Muster.example", 0)),
        ("http://[::1]:80", HttpListener("::1", 80)),
        ("http://0.0.0.0:1", HttpListener("", 1)),
        ("http://[::]:1", HttpListener("", 1)),
        ("http://:1", HttpListener("", 1)),
    ],
)
def test_a_listener_is_a_url(text: str, listener: HttpListener) -> None:
    assert http_listener(text) == listener


@pytest.mark.parametrize(
    "text",
    [
        *("ftp://localhost:1", "localhost:1", "http://localhost", "http://localhost:65536", "http://a:1/x"),
        *(
            "http://user@a:1",
            "http://a b:1",
            "http://a:1,",
            "http://a:1,http://a:1",
            "http://a:1,https://a:1",
            "http://a:\N{ARABIC-INDIC DIGIT ONE}",
        ),
    ],
)
def test_a_listener_that_is_none_is_refused_before_anything_starts(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({"muster.http.listeners": text})
    (problem,) = refused.value.problems
    assert "must be a list separated by commas of http://host:port" in problem


def test_two_listeners_may_ask_for_any_port() -> None:
    text = "http://127.0.0.1:0,http://127.0.0.1:0"
    assert load({"muster.http.listeners": text}).settings.muster_http_listeners == tuple(text.split(","))


def test_a_problem_names_its_status_and_says_why() -> None:
    problem = HttpProblem(503, "It is so.", {"Retry-After": "1"}, not_ready=["a"])
    assert problem.document() == {
        "type": "about:blank",
        "status": 503,
        "detail": "It is so.",
        "not_ready": ["a"],
    }
