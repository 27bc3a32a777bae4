"""One group of 2,000 forms at once, alone and while 10,000 sessions of other groups expire: few generations.

The daemon is a real one and waits no initial delay, so nothing but the order within its turns keeps the members
together. Each needs two JoinGroups, and one more for every generation that did not have all of them. How many
that are depends on the machine too: a quiet one forgives much, a busy one needs some. So the bounds here are wide,
if below what it took where joins were handled as they came (up to 16 generations, 24,000 JoinGroups); what the
order does, turn by turn and the same each time, is held by `test_deferred_joins.py`.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.pairs.crowd import HEARTBEAT_S, REBALANCE_MS, Crowd, Joining, await_coordinator
from bench.pairs.lanes import connect
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.framing import encode_request
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

MEMBERS = 2_000
WAVE = 20
"""Number of members that send their first JoinGroup at a time, before answers to others are read."""

DEADLINE_S = 60.0
GENERATIONS_MAX = 6
JOINS_MAX = 9_600
"""What Kafka takes at its worst, on a quiet machine."""

SESSIONS = 10_000
LANES = 100
MAKING_S = 8.0
"""Time for the other sessions to begin: all that have by then end together."""

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1"}
JOIN_AT_ONCE = 3  # The last version in which a member joins without being handed an id first.


class Herd(Crowd):
    """A `Crowd` that counts its JoinGroups, and whose members begin in waves, as processes do."""

    joins = 0

    def join(self, deadline_s: float) -> float:
        """Seconds from the first JoinGroup until the group is stable."""
        start = beaten_at = time.perf_counter()
        to_begin = deque(self._by_descriptor.values())
        while self._left:
            for _ in range(min(WAVE, len(to_begin))):
                self._join(to_begin.popleft())
            for descriptor, _ in self._poll.poll(0 if to_begin else 0.5):
                self._received(self._by_descriptor[descriptor])
            now = time.perf_counter()
            assert now - start < deadline_s, "the group is not stable"
            if now - beaten_at > HEARTBEAT_S:
                beaten_at = now
                self._beat()
        took_s = time.perf_counter() - start
        self._settle()
        return took_s

    def _join(self, joining: Joining) -> None:
        self.joins += 1
        super()._join(joining)


def form(connections: list[socket.socket]) -> tuple[int, int, float]:
    """Generations and JoinGroups that one group takes to form, and seconds."""
    herd = Herd(["herd"], MEMBERS, connections)
    took_s = herd.join(DEADLINE_S)
    generations = {member.generation_id for member in herd.members()}
    for connection in connections:
        connection.close()
    (generation_id,) = generations
    return generation_id, herd.joins, took_s


def begin_session(number: int, ends_at: float) -> bytes:
    """A JoinGroup of the only member of a group, whose session ends at `ends_at` on the monotonic clock."""
    timeout_ms = max(int((ends_at - time.monotonic()) * 1000), 1)
    request = JoinGroupRequest(
        group_id=f"other-{number}",
        session_timeout_ms=timeout_ms,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return encode_request(request, JOIN_AT_ONCE, number, "other")


def begin_sessions(port: int, ends_at: float) -> None:
    """Have SESSIONS groups of one member each, which will send no heartbeat."""
    numbers: Iterator[int] = iter(range(SESSIONS))
    poll, lanes = select.epoll(), dict[int, socket.socket]()
    for _ in range(LANES):
        lane = connect(port)
        lanes[lane.fileno()] = lane
        poll.register(lane, select.EPOLLIN)
        lane.sendall(begin_session(next(numbers), ends_at))
    left = SESSIONS
    while left:
        for descriptor, _ in poll.poll():
            assert lanes[descriptor].recv(1 << 16), "it is answered, in one piece"
            left -= 1
            number = next(numbers, None)
            if number is not None:
                lanes[descriptor].sendall(begin_session(number, ends_at))
    poll.close()
    for lane in lanes.values():
        lane.close()


def emptied(client: WireClient) -> int:
    """Number of the other groups whose member has expired."""
    ids = [f"other-{number}" for number in range(SESSIONS)]
    answer = client.ask(DescribeGroupsRequest(groups=ids), 5)
    return sum(group.group_state == "Empty" for group in answer.groups)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path, SETTINGS) as daemon:
        await_coordinator(daemon.port, ["herd"])
        yield daemon


def assert_few(formed: tuple[int, int, float], record_property: Callable[[str, object], None]) -> None:
    generations, joins, took_s = formed
    record_property("herd", f"{generations} generations, {joins} JoinGroups, {took_s:.2f} s")
    assert generations <= GENERATIONS_MAX
    assert 2 * MEMBERS <= joins <= JOINS_MAX


def test_a_herd_forms_in_few_generations(
    daemon: MusterDaemon, record_property: Callable[[str, object], None]
) -> None:
    assert_few(form([connect(daemon.port) for _ in range(MEMBERS)]), record_property)


def test_a_herd_forms_in_few_generations_while_other_sessions_expire(
    daemon: MusterDaemon, record_property: Callable[[str, object], None]
) -> None:
    connections = [connect(daemon.port) for _ in range(MEMBERS)]
    ends_at = time.monotonic() + MAKING_S
    begin_sessions(daemon.port, ends_at)
    with WireClient(daemon.bootstrap) as client:
        time.sleep(max(0.0, ends_at - time.monotonic()))
        assert_few(form(connections), record_property)
        wait_until(lambda: emptied(client) == SESSIONS, "all other sessions have expired", DEADLINE_S)
