"""Bursts: thousands of clients connect and ask at the same moment, of servers with their default settings.

What is compared is the whole time, connecting included, and how often a listener's queue overflowed: a
client whose SYN was dropped tries again a second later, then after two more, then four.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from bench.pairs import frames
from bench.pairs.crowd import HEARTBEAT_S, Crowd, Joining, await_coordinator
from bench.pairs.frames import HEARTBEAT, Joined
from bench.pairs.lanes import RECEIVE_BYTES, LoadError
from bench.pairs.plan import Plan
from bench.pairs.rounds import KAFKA, MUSTER, Section, Target, target
from bench.pairs.servers import KAFKA_HEAP, KAFKA_PRODUCTION, cpu_of
from bench.pairs.singles import errors_in
from bench.pairs.storms import NO_DELAY
from coordinator.server.acceptor import longest_queue
from coordinator.settings.model import Settings
from harness.accept_queue import dropped_connections
from harness.daemon import ROOT
from harness.kafka_broker import KafkaBroker, MeasuredKafka
from harness.processes import HOST, ServerProcess
from protocol.errors import ErrorCode

SYSTEM_QUEUE: Final = {"socket.listen.backlog.size": "2147483647"}
"""A queue as long as the system allows: it cuts what is asked down to its own limit."""

SLICE: Final = 100
"""Connections that are begun before answers are looked for again: the first ask while the last are connecting."""

DEADLINE_S: Final = 300.0
TABLE: Final = (
    "| server | s until all are stable | lowest to highest | server CPU, s | connections dropped |\n"
    "|---|---|---|---|---|"
)
BACK_TABLE: Final = (
    "| queue of the listener | s until all are answered | lowest to highest | connections dropped |\n"
    "|---|---|---|---|"
)


class Burst(Crowd):
    """Groups whose members begin to connect all at once; each joins as soon as it is connected."""

    def __init__(self, group_ids: Sequence[str], size: int, port: int) -> None:
        super().__init__(group_ids, size, [socket.socket() for _ in range(len(group_ids) * size)])
        for connection in self._by_descriptor:
            self._poll.unregister(connection)  # What is not connecting yet would count as hung up.
        self._port = port
        self._connecting: dict[int, socket.socket] = {}
        self.resets = 0

    def join(self, deadline_s: float) -> float:
        """Seconds from the first SYN until the last group is stable. Raises LoadError."""
        start = beaten_at = time.perf_counter()
        fresh = [each.connection for each in self._by_descriptor.values()]
        while self._left:
            if fresh:
                self._connecting |= begin_to_connect(self._poll, fresh[:SLICE], self._port)
                del fresh[:SLICE]
            now = time.perf_counter()
            if now - start > deadline_s:
                raise LoadError(
                    f"{self._left} groups not stable, {len(self._connecting)} members not connected"
                )
            if now - beaten_at > HEARTBEAT_S:
                beaten_at = now
                self._beat()
            for descriptor, _ in self._poll.poll(0 if fresh else 0.5):
                self._ready(descriptor)
        took_s = time.perf_counter() - start
        self._settle()
        return took_s

    def close(self) -> None:
        for joining in self._by_descriptor.values():
            joining.connection.close()

    def _ready(self, descriptor: int) -> None:
        joining = self._by_descriptor[descriptor]
        try:
            if descriptor in self._connecting:
                on_connected(self._poll, self._connecting.pop(descriptor))
                self._join(joining)
            else:
                self._received(joining)
        except ConnectionError:
            self._connect_again(joining)

    def _connect_again(self, joining: Joining) -> None:
        """Connect again, as clients do without a place in the queue: their connection may seem to stand."""
        self.resets += 1
        del self._by_descriptor[joining.connection.fileno()]
        joining.connection.close()
        joining.connection = socket.socket()
        joining.connection.setblocking(False)
        self._by_descriptor[joining.connection.fileno()] = joining
        self._connecting |= begin_to_connect(self._poll, [joining.connection], self._port)


def begin_to_connect(
    poll: select.epoll, connections: Sequence[socket.socket], port: int
) -> dict[int, socket.socket]:
    """Send their SYNs; by descriptor those that are on their way, writable once they are connected."""
    connecting = {}
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.connect_ex((HOST, port))
        connecting[connection.fileno()] = connection
        poll.register(connection, select.EPOLLOUT)
    return connecting


def on_connected(poll: select.epoll, connection: socket.socket) -> None:
    """Wait for answers on `connection` from here on. Raises ConnectionError if it does not stand."""
    if number := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise ConnectionError(number, os.strerror(number))
    poll.modify(connection, select.EPOLLIN)


def seconds_until_back(port: int, members: Sequence[Joined]) -> float:
    """All of `members` connect at once, each sends a heartbeat, and each must be answered in its generation."""
    poll, by_descriptor = select.epoll(), {}
    for member in members:
        connection = socket.socket()
        connection.setblocking(False)
        by_descriptor[connection.fileno()] = (connection, member)
    start = time.perf_counter()
    connecting = begin_to_connect(poll, [connection for connection, _ in by_descriptor.values()], port)
    left = len(members)
    while left:
        if time.perf_counter() - start > DEADLINE_S:
            raise LoadError(f"{left} of {len(members)} members not answered")
        for descriptor, _ in poll.poll(0.5):
            connection, member = by_descriptor[descriptor]
            if descriptor in connecting:
                on_connected(poll, connecting.pop(descriptor))
                connection.send(frames.heartbeat(member))
                continue
            if error := errors_in(HEARTBEAT, connection.recv(RECEIVE_BYTES))[0]:
                raise LoadError(f"{member.group_id}: {ErrorCode(error).name} after a restart")
            left -= 1
    took_s = time.perf_counter() - start
    poll.close()
    for connection, _ in by_descriptor.values():
        connection.close()
    return took_s


@dataclass(slots=True)
class Rounds:
    """What one server went through: the times, the CPU, and how often its queue overflowed."""

    name: str
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    dropped: int = 0

    def burst(self, server: ServerProcess, name: str, groups: int, size: int) -> list[Joined]:
        """One more, of groups that are new; their members, whose connections are closed when it is over."""
        group_ids = [f"{name}-{index:05d}" for index in range(groups)]
        await_coordinator(server.port, group_ids)
        crowd = Burst(group_ids, size, server.port)
        cpu_before, dropped_before = cpu_of(server.pid), dropped_connections(server.port)
        self.seconds.append(crowd.join(DEADLINE_S))
        self.cpu_s.append(cpu_of(server.pid).since(cpu_before).total_us / 1e6)
        self.dropped += dropped_connections(server.port) - dropped_before
        crowd.close()
        return list(crowd.members())

    def restart(self, server: ServerProcess, members: Sequence[Joined]) -> None:
        """All members come back at once to a server that was stopped."""
        server.restart()
        dropped_before = dropped_connections(server.port)
        self.seconds.append(seconds_until_back(server.port, members))
        self.dropped += dropped_connections(server.port) - dropped_before

    @property
    def spread(self) -> str:
        return f"{median(self.seconds):.2f} | {min(self.seconds):.2f} to {max(self.seconds):.2f}"


def bursts(plan: Plan) -> list[Section]:
    return [_joins(plan), _returns(plan)]


def _joins(plan: Plan) -> Section:
    """One setting is not the default, in both: with the initial delay a burst is over before any group begins."""
    groups, size = plan.groups, plan.group_size
    *ours, theirs = contenders = [Rounds(name) for name in (*plan.builds, KAFKA)]
    with ExitStack() as stack:
        servers: list[ServerProcess] = [
            stack.enter_context(plan.muster(name, NO_DELAY, tree)) for name, tree in plan.builds.items()
        ]
        servers.append(stack.enter_context(_kafka(plan)))
        for number in range(plan.burst_warm_ups):
            Rounds(KAFKA).burst(servers[-1], f"warm-{number}", groups, size)
        for number in range(plan.burst_rounds):
            for each, server in zip(contenders, servers, strict=True):
                each.burst(server, f"burst-{number}", groups, size)
    rows = [
        f"| {each.name} | {each.spread} | {median(each.cpu_s):.2f} | {each.dropped} |" for each in contenders
    ]
    what = f"{groups:,} groups of {size:,} connect and join at once"
    targets = [
        target(f"{what}: time", [median(each.seconds) / min(theirs.seconds) for each in ours], 1.0),
        target(f"{what}: connections dropped by Muster, a count", [each.dropped for each in ours], 0.0),
    ]
    conditions = (
        f"Default settings on both sides, but no initial delay; {plan.burst_rounds} bursts of each, in turns, "
        f"after {plan.burst_warm_ups} that does not count for Kafka and none for Muster; Kafka's best against the "
        f"median of ours. What is dropped is counted by the system, for the listening socket."
    )
    return Section(f"Burst: {what}", [TABLE, *rows], targets, conditions)


def _returns(plan: Plan) -> Section:
    """The queue that users get beside the longest one that the system allows, of one daemon after the other."""
    default, longest = Rounds("default"), Rounds("as long as the system allows")
    for rounds, overrides in ((default, {}), (longest, SYSTEM_QUEUE)):
        with plan.muster(rounds.name, NO_DELAY | overrides, ROOT) as server:
            members = Rounds(MUSTER).burst(server, "back", plan.groups, plan.group_size)
            for _ in range(plan.restart_rounds):
                rounds.restart(server, members)
    what = f"{plan.groups * plan.group_size:,} members are back after a restart"
    rows = [f"| {each.name} | {each.spread} | {each.dropped} |" for each in (default, longest)]
    conditions = (
        f"Muster alone, in pure Python: {plan.restart_rounds} restarts with each queue, "
        f"one daemon after the other. {compared(Settings().socket_listen_backlog_size, longest_queue())}"
    )
    return Section(
        f"Burst: {what}", [BACK_TABLE, *rows], targets_of_returns(what, default, longest), conditions
    )


def targets_of_returns(what: str, default: Rounds, longest: Rounds) -> list[Target]:
    """Nearly as quick with the default as with the longest queue; and no more clients that come again later."""
    ratio = median(default.seconds) / median(longest.seconds)
    return [
        target(f"{what}: time, to that of the longest queue", [ratio], 1.5),
        target(
            f"{what}: connections dropped, a count, at most that of the longest queue",
            [default.dropped],
            longest.dropped,
        ),
    ]


def compared(default: int, system: int | None) -> str:
    """How long the two queues are: the system cuts what is asked for."""
    if system is None:
        return f"The default is a queue of {default:,}; the system does not say how long a queue may be."
    if system <= default:
        return (
            f"The system lets {system:,} connections wait, fewer than the default of {default:,}: both queues "
            f"are that long, and what differs is chance."
        )
    return f"The default is a queue of {default:,}, the longest one of {system:,}."


@contextmanager
def _kafka(plan: Plan) -> Iterator[KafkaBroker]:
    """Kafka with its defaults; where one broker serves all scenarios, for function only, it is that one."""
    if plan.shared is not None:
        yield plan.shared
        return
    with MeasuredKafka(plan.directory / "kafka", KAFKA_PRODUCTION | NO_DELAY, heap=KAFKA_HEAP) as broker:
        yield broker
