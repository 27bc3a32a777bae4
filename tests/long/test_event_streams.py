"""Ten thousand events within a minute, to sixty-four clients of which one stalls, and comes back."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil

from harness.http_client import EventStream
from harness.wire import WireClient
from tests.http.test_http_daemon import CLIENTS, RSS_GROWTH_MAX, daemon_with_http, join_and_leave

EVENTS = 10_000
CYCLES = EVENTS // 5
MINUTE_S = 60


def test_ten_thousand_events_in_a_minute_reach_all_clients(tmp_path: Path) -> None:
    """The one that stalls is cut off; it comes back with the id that it has, and lacks nothing."""
    daemon, port = daemon_with_http(tmp_path, **{"muster.flush.policy": "os"})
    with daemon:
        stalled, *streams = [EventStream(port) for _ in range(CLIENTS)]
        for stream in (stalled, *streams):
            stream.read()
            stream.socket.setblocking(False)
        found: list[list[int]] = [[] for _ in streams]
        before = psutil.Process(daemon.pid).memory_info().rss
        began = time.monotonic()
        with WireClient(daemon.bootstrap) as client:
            for cycle in range(CYCLES):
                join_and_leave(client, f"group-{cycle % 10}")
                for ids, stream in zip(found, streams, strict=True):
                    with suppress(BlockingIOError):
                        ids += stream.read_ids()
                time.sleep(max(0.0, began + MINUTE_S * cycle / CYCLES - time.monotonic()))
        growth = psutil.Process(daemon.pid).memory_info().rss - before
        for ids, stream in zip(found, streams, strict=True):
            stream.socket.setblocking(True)
            while len(ids) < EVENTS:
                ids += stream.read_ids()
        assert all(ids == list(range(EVENTS)) for ids in found)
        assert growth < RSS_GROWTH_MAX, f"{growth >> 20} MiB"
        assert came_back(stalled, port) == list(range(EVENTS))


def came_back(stalled: EventStream, port: int) -> list[int | None]:
    """What a client has that was cut off, once it has come back."""
    ids: list[int | None] = []
    stalled.socket.setblocking(True)
    with suppress(ConnectionError):
        while not stalled.is_over:
            ids += [event.event_id for event in stalled.read() if event.kind == "group"]
            if ids[-1:] == [EVENTS - 1]:
                return ids
    again = EventStream(port, last_id=stalled.last_id)
    while ids[-1:] != [EVENTS - 1]:
        ids += [event.event_id for event in again.read() if event.kind == "group"]
    again.close()
    return ids
