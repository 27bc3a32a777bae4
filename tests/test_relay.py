"""The harness's way between two processes, which can be cut and mended."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from harness.processes import wait_until
from harness.relay import Relay

PATIENCE_S = 10.0
SILENCE_S = 0.3


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that sends back what it gets."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer(accepted: socket.socket) -> None:
        with accepted:
            while content := accepted.recv(100):
                accepted.sendall(content)

    def serve() -> None:
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(accepted,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(PATIENCE_S)


def test_what_is_sent_while_it_is_cut_comes_nowhere_and_mending_drops_it(echo_port: int) -> None:
    with Relay(echo_port) as relay:
        before = socket.create_connection(("127.0.0.1", relay.port), PATIENCE_S)
        before.sendall(b"one")
        assert before.recv(10) == b"one"
        relay.cut()
        before.sendall(b"two")
        before.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            before.recv(10)
        meanwhile = socket.create_connection(("127.0.0.1", relay.port), PATIENCE_S)
        # One that the kernel still holds would not be dropped.
        wait_until(lambda: relay.connections == 2, "both connections", PATIENCE_S)
        relay.mend()
        for dropped in (before, meanwhile):
            dropped.settimeout(PATIENCE_S)
            with suppress(ConnectionResetError):
                assert dropped.recv(10) == b""
            dropped.close()
        with socket.create_connection(("127.0.0.1", relay.port), PATIENCE_S) as after:
            after.sendall(b"three")
            assert after.recv(10) == b"three"
