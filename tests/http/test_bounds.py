"""The bounds that docs/http.md promises, in its own figures: what is in force, and what a peer sees of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from coordinator.http import connection, event_streams, heads, server
from coordinator.http.exchange import STEP_MS
from tests.http.doubles import Host
from tests.http.event_doubles import Events
from tests.http.test_connection import GET, hello, long

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "http.md"

IN_FORCE: Final = {
    "head of a request": (f"{heads.HEAD_BYTES >> 10} KiB, {heads.HEAD_LINES} lines", "431"),
    "body, which means nothing": (
        f"{heads.BODY_BYTES >> 10} KiB, with its length",
        "413; 411 without a length",
    ),
    "time from a request's first byte to its last": (f"{connection.REQUEST_MS // 1000} s", "408"),
    "time between two requests": (f"{connection.IDLE_MS // 1000} s", "closed"),
    "connections that ask for other things than a stream or a probe": (
        f"{server.API_MAX}",
        "another makes room, else 503",
    ),
    "streams": (f"{event_streams.CLIENTS_MAX}", "503"),
    "connections in all, those of `/livez` and `/readyz` among them": (
        f"{server.CONNECTIONS_MAX}",
        "another makes room, else 503",
    ),
    "requests sent ahead (pipelining)": (
        "one at a time is answered, and nothing is read meanwhile",
        "the peer's own socket fills",
    ),
    "bytes that a peer has not read": (
        f"{connection.UNSENT_BYTES >> 10} KiB and one part, then the answer is not made further",
        f"closed after {connection.UNREAD_MS // 1000} s",
    ),
    "work between two turns of the loop": (
        f"{STEP_MS} ms, and none in a turn that Kafka's clients have used up",
        "goes on with the next turn",
    ),
}


def test_the_page_has_the_bounds_that_are_in_force() -> None:
    section = PAGE.read_text().partition("## Bounds\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    assert {what: (bound, beyond) for what, bound, beyond in rows[1:]} == IN_FORCE


def of_an_answer() -> tuple[Host, Any, Any]:
    """A peer that asks for a long answer, and reads nothing of it."""
    host = Host(long(1_000)[0])
    peer, transport = host.connect()
    transport.room = 0
    peer.data_received(GET)
    host.loop.turn_until_idle()
    return host, peer, transport


def of_many_answers() -> tuple[Host, Any, Any]:
    """A peer that asks on and on for small ones."""
    host = Host(hello)
    peer, transport = host.connect()
    transport.room = 0
    while transport.is_reading_now:
        peer.data_received(GET)
        host.loop.turn_until_idle()
    return host, peer, transport


def of_a_stream() -> tuple[Host, Any, Any]:
    """A client of the stream of events."""
    events = Events()
    client, transport = events.connect()
    transport.room = 0
    for _ in range(20):
        events.append(*["a"] * 100)
        events.settle()
    return events.host, client, transport


@pytest.mark.parametrize("unread", [of_an_answer, of_many_answers, of_a_stream])
def test_a_peer_that_reads_nothing_is_closed_after_20_s(unread: Callable[[], tuple[Host, Any, Any]]) -> None:
    host, peer, transport = unread()
    assert peer.is_blocked
    assert len(transport.written) < 300_000
    host.clock_ms += 19_999
    peer.on_time(host.clock_ms)
    assert not transport.is_aborted
    host.clock_ms += 1
    peer.on_time(host.clock_ms)
    assert transport.is_aborted


@pytest.mark.parametrize(("sent", "closed_after_s"), [(b"", 10), (b"GET /", 10), (GET, 60)])
def test_a_peer_that_does_not_ask_is_refused_or_closed_in_time(sent: bytes, closed_after_s: int) -> None:
    host = Host(hello)
    peer, transport = host.connect()
    if sent:
        peer.data_received(sent)
        host.loop.turn_until_idle()
    host.clock_ms += closed_after_s * 1_000 - 1
    peer.on_time(host.clock_ms)
    before = transport.is_closed, transport.has_ended
    host.clock_ms += 1
    peer.on_time(host.clock_ms)
    assert before == (False, False)
    assert transport.is_closed or transport.has_ended
