"""Limits that a daemon is given are the limits that it keeps."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

from harness.accept_queue import longest_queue_of
from harness.daemon import MusterDaemon
from harness.processes import HOST
from harness.wire import WireClient
from protocol.messages.metadata import MetadataRequest
from tests.topics.requests import produce_request
from tests.topics.world import batch

SMALL = {"queued.max.request.bytes": "3000000", "socket.request.max.bytes": "3000000"}
LARGE_BYTES = 2_500_000
STALLED_S = 2.0
"""Then who sends no byte gives way to those that wait for memory."""


def test_the_queue_of_the_listener_is_as_long_as_asked(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path, {"socket.listen.backlog.size": "7"}) as daemon:
        assert longest_queue_of(daemon.port) == 7


def test_requests_together_take_no_more_memory_than_asked(tmp_path: Path) -> None:
    """One peer holds it with a request that it does not finish; the next waits until that is closed."""
    with (
        MusterDaemon(tmp_path, SMALL) as daemon,
        socket.create_connection((HOST, daemon.port), timeout=30) as holds,
        WireClient(daemon.bootstrap) as waits,
    ):
        start = time.monotonic()
        holds.sendall(struct.pack(">ihhihh", LARGE_BYTES, 0, 9, 1, -1, 0) + bytes(LARGE_BYTES - 100_000))
        with WireClient(daemon.bootstrap) as small:
            assert small.ask(MetadataRequest(topics=[]), 12).brokers
        waits.ask(produce_request(batch(bytes(LARGE_BYTES - 1000)), "none"), 9)
        assert time.monotonic() - start > STALLED_S / 2
        assert holds.recv(1) == b"", "it gave way"
