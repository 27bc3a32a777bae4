"""The stream of events of a real daemon: it resumes, and clients that stall hold up no other and no memory."""

from __future__ import annotations

import re
import selectors
import socket
import time
from contextlib import suppress
from pathlib import Path

from harness.daemon import MusterDaemon
from harness.http_client import EventStream, StreamedEvent, get
from harness.processes import HOST, wait_until
from harness.wire import WireClient
from tests.http.test_http_daemon import PATIENCE_S, daemon_with_http, join_and_leave


def test_a_stream_goes_on_where_it_was_after_a_restart(tmp_path: Path) -> None:
    """Also what happened between: nothing is missing, nothing comes twice."""
    daemon, port = daemon_with_http(tmp_path)
    with daemon:
        wait_until(lambda: get(port, "/readyz").status == 200, "the shards are loaded", PATIENCE_S)
        stream = EventStream(port)
        seen = stream.read()  # The head: from here on it is sent what happens.
        with WireClient(daemon.bootstrap) as client:
            join_and_leave(client, "restarted")
        while len(seen) < 5:
            seen += stream.read()
        daemon.terminate()
        with suppress(ConnectionError):
            while not stream.is_over:
                seen += stream.read()
        stream.close()
        daemon.start()
        wait_until(lambda: get(port, "/readyz").status == 200, "the shards are loaded", PATIENCE_S)
        with WireClient(daemon.bootstrap) as client:
            join_and_leave(client, "restarted")
        again = EventStream(port, last_id=stream.last_id)
        seen += again.read_until(5)
        again.close()
        assert [event.event_id for event in seen] == list(range(len(seen)))
        assert {event.kind for event in seen} == {"group"}


EVENTS = 10_000
CLIENTS = 64
STALLED = 16
PEAK_GROWTH_MAX = 16 << 20
"""In bytes. 64 clients of which none reads for a moment are held 12 MiB at most (UNSENT_BYTES and FRAMES_BYTES for
each), and the daemon grows by 3 to 4 MiB here. The events are 6 MB, of which sockets take up to half: without a
bound, 16 clients that stall made it grow by 33 to 36 MiB."""


def test_sixty_four_clients_get_ten_thousand_events_though_sixteen_of_them_stall(tmp_path: Path) -> None:
    daemon, port = daemon_with_http(tmp_path, **{"muster.flush.policy": "os"})
    with daemon:
        streams = [EventStream(port) for _ in range(CLIENTS)]
        stalled, reading = streams[:STALLED], streams[STALLED:]
        for stream in stalled:
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        for stream in streams:
            stream.read()  # The head: from here on it is sent what happens.
        with socket.create_connection((HOST, port), timeout=PATIENCE_S) as one_more:
            one_more.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert one_more.recv(1_000).startswith(b"HTTP/1.1 503 ")
        before = begin_peak(daemon.pid)
        counts = read_all(reading, daemon)
        growth = peak(daemon.pid) - before
        assert counts == dict.fromkeys(range(len(reading)), EVENTS)
        assert growth < PEAK_GROWTH_MAX, f"{growth >> 20} MiB"
        for stream in stalled:
            late = read_rest(stream, port)
            ids = [event.event_id for event in late if event.kind == "group"]
            marks = [event.data for event in late if event.kind == "gap"]
            assert ids == list(range(EVENTS))
            assert [mark["why"] for mark in marks] == [
                "slow"
            ]  # Also if it was cut off meanwhile, as after 20 s.


def begin_peak(pid: int) -> int:
    """Forget the largest size that a process has had; return its size, in bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak(pid)


def peak(pid: int) -> int:
    """The largest size of a process since then, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    (kib,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kib) << 10


def read_all(streams: list[EventStream], daemon: MusterDaemon, pause_s: float = 0) -> dict[int, int]:
    """Have groups rebalance while all streams are read; return how many events each got, in order from 0 on.

    With a pause, so much of it at most lies between each hundred of them; else they come as fast as they can.
    """
    found = dict.fromkeys(range(len(streams)), 0)
    selector = selectors.DefaultSelector()
    for number, stream in enumerate(streams):
        selector.register(stream.socket, selectors.EVENT_READ, number)
    left = EVENTS // 5
    deadline = time.monotonic() + 4 * PATIENCE_S
    with WireClient(daemon.bootstrap) as client:
        while min(found.values()) < EVENTS:
            assert time.monotonic() < deadline, found
            for _ in range(min(left, 20)):
                join_and_leave(client, f"group-{left % 10}")
                left -= 1
            for key, _ in selector.select(pause_s if left else 1):
                number, stream = key.data, streams[key.data]
                ids = stream.read_ids()
                assert ids == list(range(found[number], found[number] + len(ids)))
                found[number] += len(ids)
    selector.close()
    return found


def read_rest(stream: EventStream, port: int) -> list[StreamedEvent]:
    """All that a client has in the end; it comes back, once, if it was cut off."""
    found: list[StreamedEvent] = []
    is_back = False
    while not found or found[-1].event_id != EVENTS - 1:
        try:
            found += stream.read()
            is_over = stream.is_over
        except ConnectionError:
            is_over = True
        if is_over:
            assert not is_back, "it was cut off while it read"
            stream, is_back = EventStream(port, last_id=stream.last_id), True
    stream.close()
    return found
