"""Thousands connect and ask at the same moment: none is dropped by the system, and all are answered soon."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from coordinator.runtime.collector import YOUNG
from harness.accept_queue import dropped_connections
from harness.daemon import ROOT, MusterDaemon
from harness.processes import HOST
from protocol.framing import encode_request
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest

CLIENTS = 2_000
ANSWERED_S = 10.0
"""An idle machine takes half a second; a client that was dropped tries again after one, three and seven."""

BUSY_LANES = 4
BUSY_GROUPS = 2_000
"""Described in one request: some ten milliseconds of the loop, again and again."""

MOST_LOOKED_AT = 5 * YOUNG
"""Objects that one collection looks at: more than YOUNG, as old ones that go count against new ones, and fewer
than a daemon has when it has just started."""

WATCH_COLLECTIONS = """
import gc, os, sys
def watch(phase, info):
    if phase == "start" and gc.get_freeze_count() and "uvloop" in sys.modules:
        looked_at = sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1))
        os.write(2, b"collected: %d %d\\n" % (info["generation"], looked_at))
gc.callbacks.append(watch)
"""


@contextmanager
def busy(daemon: MusterDaemon) -> Iterator[None]:
    """Keep the loop at work all the time."""
    ids = [f"group-{number}" for number in range(BUSY_GROUPS)]
    frame = encode_request(DescribeGroupsRequest(groups=ids), 5, 1, "busy")
    is_over = threading.Event()
    connections = [socket.create_connection((HOST, daemon.port), timeout=30) for _ in range(BUSY_LANES)]

    def ask(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as answers:
            while not is_over.is_set():
                connection.sendall(frame)
                answers.read(int.from_bytes(answers.read(4)))

    threads = [threading.Thread(target=ask, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def connect_and_ask(port: int) -> float:
    """Seconds until the last of `CLIENTS` that connect at once has its answer."""
    frame = encode_request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, 1, "c")
    poll, clients = select.epoll(), {}
    start = time.monotonic()
    for _ in range(CLIENTS):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((HOST, port))
        clients[client.fileno()] = client
        poll.register(client, select.EPOLLOUT)
    left = CLIENTS
    while left:
        assert time.monotonic() - start < 60, f"{left} are not answered"
        for descriptor, event in poll.poll(1):
            if event & select.EPOLLOUT:
                clients[descriptor].send(frame)
                poll.modify(descriptor, select.EPOLLIN)
            else:
                assert clients[descriptor].recv(1000), "it is answered"
                poll.unregister(descriptor)
                left -= 1
    took_s = time.monotonic() - start
    for client in clients.values():
        client.close()
    return took_s


def test_a_burst_is_accepted_while_the_loop_is_busy(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH_COLLECTIONS)
    with MusterDaemon(tmp_path, environment={"PYTHONPATH": f"{ROOT}:{tmp_path}"}) as daemon:
        with busy(daemon):
            took_s = connect_and_ask(daemon.port)
        assert dropped_connections(daemon.port) == 0
        log = daemon.log_path.read_text()
        collections = re.findall(r"collected: (\d) (\d+)", log)
        assert {generation for generation, _ in collections} == {"0"}, "what is young is looked at, once"
        most = max(int(looked_at) for _, looked_at in collections)
        assert most < MOST_LOOKED_AT, "all that lives was looked at while clients connected"
        record_property("2,000 clients", f"{took_s:.2f} s")
        assert took_s < ANSWERED_S


def test_the_count_sees_a_queue_that_is_too_short() -> None:
    """What the test above would see if nothing accepted in time."""
    with socket.create_server((HOST, 0), backlog=1) as listening, ExitStack() as stack:
        for _ in range(5):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        dropped = dropped_connections(listening.getsockname()[1])
    assert dropped >= 3, "two have a place in a queue of one; the others are dropped again a second later"
