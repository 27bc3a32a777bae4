"""Lanes: raw sockets, prebuilt frames, a fixed number of requests in flight on each connection.

The answer to a frame is always the same, so it is learned once, looked at by the one who builds the lane, and
each further one compared with it as bytes: a server that refuses is not measured as fast. What is measured beside
Kafka is loaded by `bench/pairs/generator.py`, in C. `run` is the same in Python, for what has to work without a
compiler (`tests/test_request_cost.py`) and for what is compared with itself: growth, profiles, compaction.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.pairs.servers import Cpu, cpu_of
from harness.processes import HOST

RECEIVE_BYTES: Final = 1 << 16
PATIENCE_S: Final = 60.0
CONNECTS_AT_ONCE: Final = 40
CONNECT_PAUSE_S: Final = 0.002
_SIZE = struct.Struct(">i")


class LoadError(Exception):
    """The server closed a connection, refused a request, or answered nothing for a minute."""


@dataclass(slots=True)
class Lane:
    """One connection with its frame; `answer` is what each of them must be answered with.

    Where `free` says, eight bytes of the answer may be any: an offset that the server gives. Only the generator in
    C goes by it.
    """

    socket: socket.socket
    frame: bytes
    answer: bytes
    came: bytes = b""  # The beginning of an answer that has not come as a whole.
    sent_at: deque[float] = field(default_factory=deque)  # Of what is in flight, oldest first.
    free: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """What one round did, and what it cost the server."""

    operations: int
    seconds: float
    cpu: Cpu
    latencies_s: list[float]  # Ascending.

    @property
    def per_second(self) -> float:
        return self.operations / self.seconds

    def latency_us(self, share: float) -> float:
        """The latency that this share of the requests kept within."""
        last = len(self.latencies_s) - 1
        return self.latencies_s[min(last, int(share * len(self.latencies_s)))] * 1e6


def connect(port: int) -> socket.socket:
    made = socket.create_connection((HOST, port), timeout=PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def connect_all(port: int, count: int) -> list[socket.socket]:
    """Connect so many times, with pauses: one too many for Kafka's queue of 50 waits a second to ask again."""
    made: list[socket.socket] = []
    for number in range(count):
        if number % CONNECTS_AT_ONCE == CONNECTS_AT_ONCE - 1:
            time.sleep(CONNECT_PAUSE_S)
        made.append(connect(port))
    return made


def ask(connection: socket.socket, frame: bytes) -> bytes:
    """Send one frame on a blocking socket and return the whole answer, its size included."""
    connection.sendall(frame)
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + _SIZE.unpack_from(answer)[0]:
        came = connection.recv(RECEIVE_BYTES)
        if not came:
            raise LoadError("the server closed the connection")
        answer += came
    return answer


def run(lanes: Sequence[Lane], seconds: float, pid: int, in_flight: int = 1) -> Load:
    """Keep `in_flight` requests on the way on every lane for `seconds`, then take the answers that are left."""
    poll = select.epoll()
    by_descriptor = {}
    for lane in lanes:
        lane.socket.setblocking(False)
        poll.register(lane.socket, select.EPOLLIN)
        by_descriptor[lane.socket.fileno()] = lane
    before, start = cpu_of(pid), time.perf_counter()
    for lane in lanes:
        lane.sent_at.extend([time.perf_counter()] * in_flight)
        _send(lane, lane.frame * in_flight)
    latencies: list[float] = []
    exchange = _exchange if in_flight == 1 else _exchange_several
    exchange(poll, by_descriptor, start + seconds, latencies)
    done, elapsed, cpu = len(latencies), time.perf_counter() - start, cpu_of(pid).since(before)
    _drain(poll, by_descriptor)
    poll.close()
    latencies.sort()
    return Load(done, elapsed, cpu.each(max(done, 1)), latencies)


def _send(lane: Lane, data: bytes) -> None:
    if lane.socket.send(data) != len(data):
        raise LoadError("the server does not take its requests")


def _ready(poll: select.epoll) -> list[tuple[int, int]]:
    ready = poll.poll(PATIENCE_S)
    if not ready:
        raise LoadError(f"no answer for {PATIENCE_S:g} s")
    return ready


def _exchange(poll: select.epoll, lanes: dict[int, Lane], until: float, latencies: list[float]) -> None:
    """One in flight: the generator's own hot path."""
    now = 0.0
    while now < until:
        for descriptor, _ in _ready(poll):
            lane = lanes[descriptor]
            data = lane.socket.recv(RECEIVE_BYTES)
            if data != lane.answer and not _completes(lane, data):
                continue
            now = time.perf_counter()
            latencies.append(now - lane.sent_at[0])
            lane.sent_at[0] = now
            _send(lane, lane.frame)


def _exchange_several(
    poll: select.epoll, lanes: dict[int, Lane], until: float, latencies: list[float]
) -> None:
    now = 0.0
    while now < until:
        for descriptor, _ in _ready(poll):
            lane = lanes[descriptor]
            count = _answers(lane, lane.socket.recv(RECEIVE_BYTES))
            now = time.perf_counter()
            latencies += [now - lane.sent_at.popleft() for _ in range(count)]
            lane.sent_at.extend([now] * count)
            if count:
                _send(lane, lane.frame * count)


def _completes(lane: Lane, data: bytes) -> bool:
    return _answers(lane, data) == 1


def _answers(lane: Lane, data: bytes) -> int:
    """How many answers are whole with `data`; each is compared with what it must be."""
    if not data:
        raise LoadError("the server closed a connection under load")
    came = lane.came + data if lane.came else data
    count, rest = divmod(len(came), len(lane.answer))
    if came[: len(came) - rest] != lane.answer * count or not lane.answer.startswith(
        came[len(came) - rest :]
    ):
        raise LoadError(f"an answer of {came[:40].hex(' ')} where {lane.answer[:40].hex(' ')} was due")
    lane.came = came[len(came) - rest :]
    return count


def _drain(poll: select.epoll, lanes: dict[int, Lane]) -> None:
    """Take the last answers, so that the next round starts with nothing in flight."""
    waiting = set(lanes)
    while waiting:
        for descriptor, _ in _ready(poll):
            lane = lanes[descriptor]
            for _ in range(_answers(lane, lane.socket.recv(RECEIVE_BYTES))):
                lane.sent_at.popleft()
            if not lane.sent_at:
                waiting.discard(descriptor)
