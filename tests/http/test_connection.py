"""A connection, without a socket: what a peer can make grow is bounded, in bytes and in time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.http.connection import IDLE_MS, LINGER_MS, REQUEST_MS, UNREAD_MS, UNSENT_BYTES, WHOLE_BYTES
from coordinator.http.exchange import JSON, Aside, HttpProblem, Request, Steps, split_target
from coordinator.http.heads import BODY_BYTES, HEAD_BYTES, HEAD_LINES, http_date
from tests.http.doubles import Host, answers

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def hello(_: Request) -> tuple[Steps, str]:
    def steps() -> Steps:
        yield None
        return {"hello": "world"}

    return steps(), JSON


def long(parts: int, size: int = 16 << 10) -> Any:
    """A handler of an answer in many parts, and the number of those that were asked for."""
    made: list[int] = []

    def handle(_: Request) -> tuple[Steps, str]:
        def steps() -> Steps:
            for number in range(parts):
                made.append(number)
                yield b"x" * size

        return steps(), JSON

    return handle, made


def problem_of(written: bytearray) -> tuple[int, str]:
    ((status, body, headers),) = answers(written)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    return status, json.loads(body)["detail"]


def test_a_request_is_answered_and_the_connection_kept() -> None:
    host = Host(hello)
    connection, transport = host.connect()
    for _ in range(2):
        connection.data_received(GET)
        host.loop.turn_until_idle()
    found = answers(transport.written, "GET", "GET")
    assert [(status, body) for status, body, _ in found] == [(200, b'{"hello":"world"}')] * 2
    assert found[0][2] == {
        "date": found[0][2]["date"],
        "content-type": "application/json",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "content-length": "17",
    }
    assert connection.is_idle
    assert not transport.is_closed
    assert transport.is_reading_now


def test_a_request_may_come_byte_by_byte_and_end_with_bare_line_feeds() -> None:
    host = Host(hello)
    connection, transport = host.connect()
    for byte in b"\r\nGET /a?b=c HTTP/1.1\nHost: localhost\n\n":
        connection.data_received(bytes([byte]))
    host.loop.turn_until_idle()
    assert [(request.method, request.target) for request in host.handled] == [("GET", b"/a?b=c")]
    assert answers(transport.written)[0][0] == 200


def test_pipelined_requests_are_answered_in_order_and_one_at_a_time() -> None:
    """Nothing more is read meanwhile: a peer that sends requests without end is held up by its own socket."""
    host = Host(hello)
    connection, transport = host.connect()
    connection.data_received(b"".join(GET.replace(b"/ ", b"/%d " % number) for number in range(50)))
    assert len(host.handled) == 1
    assert not transport.is_reading_now
    host.loop.turn_until_idle()
    assert [request.target for request in host.handled] == [b"/%d" % number for number in range(50)]
    assert len(answers(transport.written, *["GET"] * 50)) == 50
    assert host.loop.turns >= 50  # Others have the loop between any two.
    assert transport.is_reading_now


def test_refused_requests_are_answered_one_in_a_turn_as_well() -> None:
    def refuse(_: Request) -> tuple[Steps, str]:
        raise HttpProblem(404, "There is nothing.")

    host = Host(refuse)
    connection, transport = host.connect()
    connection.data_received(GET * 20)
    assert len(host.handled) == 1
    host.loop.turn_until_idle()
    found = answers(transport.written, *["GET"] * 20)
    assert {status for status, _, _ in found} == {404}
    assert host.loop.turns >= 20


def test_an_answer_to_head_has_the_headers_and_no_body() -> None:
    host = Host(hello)
    connection, transport = host.connect()
    connection.data_received(GET.replace(b"GET", b"HEAD"))
    host.loop.turn_until_idle()
    assert answers(transport.written, "HEAD") == [(200, b"", answers(transport.written, "HEAD")[0][2])]
    assert b"hello" not in transport.written
    assert b"Content-Length: 17" in transport.written


def test_an_old_client_is_answered_and_the_connection_closed() -> None:
    host = Host(hello)
    connection, transport = host.connect()
    connection.data_received(b"GET / HTTP/1.0\r\n\r\n")
    host.loop.turn_until_idle()
    assert answers(transport.written)[0][:2] == (200, b'{"hello":"world"}')
    assert transport.has_ended


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (b"GET /" + b"a" * HEAD_BYTES, 431, f"more than {HEAD_BYTES} bytes"),
        (b"GET /" + b"a" * HEAD_BYTES + GET[5:], 431, f"more than {HEAD_BYTES} bytes"),
        (GET[:-2] + b"A: b\r\n" * HEAD_LINES + b"\r\n", 431, f"more than {HEAD_LINES} lines"),
        (GET[:-2] + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES + 1), 413, "not taken"),
        (GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", 411, "not taken"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "no request"),  # Without a Host.
        (b"nonsense\r\n\r\n", 400, "no request"),
        (GET.replace(b"1.1", b"9.9"), 505, "HTTP 1.0 and HTTP 1.1"),
        (GET.replace(b"1.1", b"2.0"), 505, "HTTP 1.0 and HTTP 1.1"),
        (GET.replace(b"1.1", b"0.9"), 505, "HTTP 1.0 and HTTP 1.1"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400, "no request"),  # TLS.
        (GET[:-2] + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "no request"),
    ],
)
def test_what_is_no_request_is_refused_and_nothing_more_is_read(sent: bytes, status: int, says: str) -> None:
    host = Host(hello)
    connection, transport = host.connect()
    for start in range(0, len(sent), 65_536):
        connection.data_received(sent[start : start + 65_536])
    found, detail = problem_of(transport.written)
    assert found == status
    assert says in detail
    assert transport.has_ended
    assert not host.handled
    before = bytes(transport.written)
    connection.data_received(GET * 1_000)
    host.loop.turn_until_idle()
    assert transport.written == before
    assert not host.handled
    host.clock_ms += LINGER_MS
    connection.on_time(host.clock_ms)
    assert transport.is_aborted


def test_a_head_of_the_longest_group_id_is_taken() -> None:
    """32,767 bytes of a group id, each of them percent-encoded."""
    group_id = "\N{HEBREW LETTER ALEF}" * 16_383
    target = b"/api/v1/group?id=" + b"".join(b"%%%02X" % byte for byte in group_id.encode())
    host = Host(hello)
    connection, _ = host.connect()
    connection.data_received(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert split_target(host.handled[0].target) == ("/api/v1/group", {"id": group_id})


def test_a_small_body_is_read_and_means_nothing() -> None:
    host = Host(hello)
    connection, transport = host.connect()
    connection.data_received(GET[:-2] + b"Content-Length: 5\r\n\r\nab")
    assert not host.handled
    connection.data_received(b"cde" + GET)
    host.loop.turn_until_idle()
    assert len(host.handled) == len(answers(transport.written, "GET", "GET")) == 2


def test_a_slow_head_is_refused_with_408() -> None:
    """A byte now and then does not keep it open: the time runs from the first one."""
    host = Host(hello)
    connection, transport = host.connect()
    connection.data_received(b"G")
    for _ in range(4):
        host.clock_ms += REQUEST_MS // 5
        connection.data_received(b"E")
        connection.on_time(host.clock_ms)
        assert not transport.written
    host.clock_ms += REQUEST_MS // 5
    connection.on_time(host.clock_ms)
    assert problem_of(transport.written)[0] == 408
    assert transport.has_ended


def test_a_connection_between_two_requests_is_closed_after_a_while() -> None:
    host = Host(hello)
    connection, transport = host.connect()
    connection.data_received(GET)
    host.loop.turn_until_idle()
    host.clock_ms += IDLE_MS - 1
    connection.on_time(host.clock_ms)
    assert not transport.is_closed
    host.clock_ms += 1
    connection.on_time(host.clock_ms)
    assert transport.is_closed
    assert not transport.is_aborted


def test_a_connection_without_a_byte_is_closed_without_a_word() -> None:
    host = Host(hello)
    connection, transport = host.connect()
    host.clock_ms += REQUEST_MS
    connection.on_time(host.clock_ms)
    assert transport.is_closed
    assert not transport.written


def test_a_peer_that_does_not_read_pauses_the_handler_and_is_cut_off() -> None:
    handle, made = long(1_000)
    host = Host(handle)
    connection, transport = host.connect()
    transport.room = 0
    connection.data_received(GET)
    host.loop.turn_until_idle()
    most = UNSENT_BYTES + WHOLE_BYTES + (32 << 10)
    assert len(made) * (16 << 10) <= most
    assert len(transport.written) <= most
    host.clock_ms += UNREAD_MS - 1
    connection.on_time(host.clock_ms)
    assert not transport.is_aborted
    host.clock_ms += 1
    connection.on_time(host.clock_ms)
    assert transport.is_aborted


def test_a_peer_that_asks_on_and_on_and_does_not_read_is_held_few_answers() -> None:
    """Also where each answer is small: no further request is begun before it reads."""
    host = Host(hello)
    connection, transport = host.connect()
    transport.room = 0
    for _ in range(2_000):
        if transport.is_reading_now:
            connection.data_received(GET)
            host.loop.turn_until_idle()
    assert UNSENT_BYTES < len(transport.written) < UNSENT_BYTES + 1_000
    before = len(host.handled)
    transport.read_by_peer()
    assert transport.is_reading_now
    connection.data_received(GET)
    host.loop.turn_until_idle()
    assert len(host.handled) == before + 1
    transport.room = 0
    connection.pause_writing()
    host.clock_ms += UNREAD_MS
    connection.on_time(host.clock_ms)
    assert transport.is_aborted


def test_a_peer_that_reads_again_gets_all_of_it() -> None:
    handle, made = long(30)
    host = Host(handle)
    connection, transport = host.connect()
    transport.room = 0
    connection.data_received(GET)
    host.loop.turn_until_idle()
    assert len(made) < 30
    host.clock_ms += UNREAD_MS - 1
    transport.read_by_peer()
    host.clock_ms += 1
    connection.on_time(host.clock_ms)
    host.loop.turn_until_idle()
    ((status, body, headers),) = answers(transport.written)
    assert (status, len(body), headers["transfer-encoding"]) == (200, 30 * (16 << 10), "chunked")
    assert not transport.is_aborted


def test_a_long_answer_is_sent_in_few_chunks_and_whole() -> None:
    handle, _ = long(7)
    host = Host(handle)
    connection, transport = host.connect()
    connection.data_received(GET)
    host.loop.turn_until_idle()
    ((_, body, _),) = answers(transport.written)
    assert len(body) == 7 * (16 << 10)
    assert [transport.written.count(f"\r\n{parts * (16 << 10):x}\r\n".encode()) for parts in (5, 2)] == [1, 1]
    assert connection.is_idle


def test_a_handler_that_fails_is_answered_with_500_and_the_connection_goes_on() -> None:
    def fail(_: Request) -> tuple[Steps, str]:
        def steps() -> Steps:
            yield None
            raise RuntimeError("a secret")

        return steps(), JSON

    host = Host(fail)
    connection, transport = host.connect()
    connection.data_received(GET)
    host.loop.turn_until_idle()
    ((status, body, _),) = answers(transport.written)
    assert status == 500
    assert b"secret" not in body
    assert connection.is_idle


def test_a_handler_that_fails_behind_its_head_cuts_the_answer_off() -> None:
    """The head said 200: a client must not take what it got for the whole."""

    def fail(_: Request) -> tuple[Steps, str]:
        def steps() -> Steps:
            yield b"x" * (WHOLE_BYTES + 1)
            raise HttpProblem(503, "Gone.")

        return steps(), JSON

    host = Host(fail)
    connection, transport = host.connect()
    connection.data_received(GET)
    host.loop.turn_until_idle()
    assert transport.is_aborted
    assert not transport.written.endswith(b"0\r\n\r\n")


def test_a_handler_does_a_step_a_turn_and_none_in_a_turn_that_is_over() -> None:
    """Other work goes first, but not for ever."""
    made: list[int] = []
    host: Host

    def count(_: Request) -> tuple[Steps, str]:
        def steps() -> Steps:
            for number in range(4):
                host.loop.now_ns += 600_000
                made.append(number)
                yield None

        return steps(), JSON

    host = Host(count)
    connection, _ = host.connect()
    connection.data_received(GET)
    done = []
    for is_over in (False, True, False, *[True] * 6):
        host.loop.is_turn_over = is_over
        host.loop.turn()
        done.append(len(made))
    assert done == [1, 1, 2, 2, 2, 2, 2, 2, 3]


def test_work_aside_is_waited_for_and_what_it_raises_is_raised_in_the_handler() -> None:
    caught: list[ZeroDivisionError] = []

    def ask(_: Request) -> tuple[Steps, str]:
        def steps() -> Steps:
            found = yield Aside(lambda: 6 * 7)
            try:
                yield Aside(lambda: 1 // 0)
            except ZeroDivisionError as error:
                caught.append(error)
            return found

        return steps(), JSON

    host = Host(ask)
    connection, transport = host.connect()
    connection.data_received(GET)
    for _ in range(3):
        host.loop.turn_until_idle()
        host.loop.do_aside()
    assert answers(transport.written)[0][1] == b"42"
    assert len(caught) == 1


def test_a_peer_that_hangs_up_stops_the_handler() -> None:
    handle, made = long(1_000)
    host = Host(handle)
    connection, transport = host.connect()
    transport.room = 0
    connection.data_received(GET)
    host.loop.turn_until_idle()
    before = len(made)
    connection.connection_lost(None)
    host.loop.turn_until_idle()
    assert len(made) == before
    assert not host.connections


def test_dates_are_those_of_http() -> None:
    assert http_date(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT"
