"""The work of `bench.against_commit`: heartbeats, commits, storms and starts, done by two contenders in turns.

Every round has both do the same number of operations. Heartbeats, commits and storms have daemons that are started
for the round: a process keeps for its life what it drew of addresses and hash seeds, which alone is worth some per
cent, so one pair for all rounds would show that as a difference of the code. Within a round heartbeats and commits
go in slices, in the order ABBA, since what a shared machine does to them lasts seconds.

CPU is the operating system's account of the daemon's process, all threads. The kernel knows its sum exactly, and
samples at its ticks how much of that is user CPU (`/proc/PID/stat`; every 4 ms at 250 Hz). So the user CPU of a
round has a sampling error of its own: about 2 % where it is two thirds of six seconds. The amounts go by that.
"""

from __future__ import annotations

import select
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.loading import wait_until_served
from bench.offsets_log import SHARDS, write_offsets_log
from bench.paired import Comparison, Spent, turns
from bench.pairs import frames
from bench.pairs.crowd import Crowd, await_coordinator, joined
from bench.pairs.frames import COMMIT, HEARTBEAT, Joined
from bench.pairs.lanes import PATIENCE_S, RECEIVE_BYTES, LoadError, ask, connect
from bench.pairs.servers import cpu_of, cpu_us, muster
from bench.pairs.singles import TOPIC, errors_in, make_topic
from bench.pairs.storms import DEADLINE_S
from harness.daemon import MusterDaemon
from harness.wire import WireClient

ALLOWED_PERCENT: Final = 3.0
ALLOWED_COMMIT_US: Final = 2.0
OFFSETS_OF_A_COMMIT: Final = range(1_000, 1_008)
"""Each connection goes through these: a commit that comes again has other numbers, as those of clients have."""

DELAY: Final = "group.initial.rebalance.delay.ms"
NO_DELAY: Final = {DELAY: "0"}
STORM_DELAY: Final = {DELAY: "1000"}


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is done in a round by each contender."""

    connections: int = 500
    heartbeats: int = 600  # On each connection.
    commits: int = 88  # On each connection.
    slices: int = 4
    warm_up: int = 20  # On each connection, not counted.
    groups: int = 1_000
    group_size: int = 10
    starts: int = 4
    loaded_starts: int = 2
    offsets: int = 200_000


QUICK: Final = Amounts(
    connections=50, heartbeats=800, commits=80, slices=2, groups=20, starts=2, loaded_starts=1, offsets=10_000
)


@dataclass(frozen=True, slots=True)
class Contender:
    """One of the two sources, by the folder with its packages."""

    name: str
    tree: Path

    def daemon(self, directory: Path, overrides: dict[str, str]) -> MusterDaemon:
        return muster(directory / self.name, overrides, self.tree)


@dataclass(frozen=True, slots=True)
class Run:
    """The contenders, the old one first, and how much they do."""

    directory: Path
    contenders: tuple[Contender, Contender]
    rounds: int
    amounts: Amounts


@dataclass(slots=True)
class Sender:
    """One connection; every frame of `frames` has the same answer."""

    socket: socket.socket
    frames: Sequence[bytes]
    answer: bytes
    came: bytes = b""
    left: int = 0

    def send_next(self) -> None:
        frame = self.frames[self.left % len(self.frames)]
        if self.socket.send(frame) != len(frame):
            raise LoadError("the server does not take its requests")

    def has_answer(self) -> bool:
        """Receive; whether the answer is whole. Raises LoadError if it is another one."""
        data = self.socket.recv(RECEIVE_BYTES)
        if data == self.answer and not self.came:
            return True
        self.came += data
        if not data or not self.answer.startswith(self.came):
            raise LoadError(f"{self.came[:40].hex(' ')} came where {self.answer[:40].hex(' ')} was due")
        is_whole = self.came == self.answer
        if is_whole:
            self.came = b""
        return is_whole


def exchange(senders: Sequence[Sender], each: int) -> None:
    """Have every connection ask and be answered `each` times, with one request in flight."""
    poll = select.epoll()
    by_descriptor = {sender.socket.fileno(): sender for sender in senders}
    for descriptor, sender in by_descriptor.items():
        poll.register(descriptor, select.EPOLLIN)
        sender.left = each
        sender.send_next()
    unfinished = len(senders)
    while unfinished:
        ready = poll.poll(PATIENCE_S)
        if not ready:
            raise LoadError(f"no answer for {PATIENCE_S:g} s")
        for descriptor, _ in ready:
            sender = by_descriptor[descriptor]
            if not sender.has_answer():
                continue
            sender.left -= 1
            if sender.left:
                sender.send_next()
            else:
                unfinished -= 1
    poll.close()


def spent_by(pid: int) -> Spent:
    """Microseconds of CPU that the process has used so far."""
    return Spent(cpu_of(pid).user_us, cpu_us(pid))


def since(pid: int, before: Spent) -> Spent:
    now = spent_by(pid)
    return Spent(now.user - before.user, now.total - before.total)


def mean(parts: Sequence[Spent], operations: float) -> Spent:
    """What each of `operations` cost that took all these parts."""
    return Spent(sum(p.user for p in parts) / operations, sum(p.total for p in parts) / operations)


@dataclass(frozen=True, slots=True)
class Load:
    """A steady load: what a member sends, and how often."""

    what: str
    frames_of: Callable[[Joined], list[bytes]]
    api: tuple[int, int]
    each: int


def commits_of(member: Joined) -> list[bytes]:
    return [frames.commit(member, TOPIC, [0], offset) for offset in OFFSETS_OF_A_COMMIT]


def load_of_heartbeats(amounts: Amounts) -> Load:
    return Load("heartbeat", lambda member: [frames.heartbeat(member)], HEARTBEAT, amounts.heartbeats)


def load_of_commits(amounts: Amounts) -> Load:
    return Load("commit of one partition", commits_of, COMMIT, amounts.commits)


def heartbeats(run: Run) -> list[Comparison]:
    load = load_of_heartbeats(run.amounts)
    return [Comparison(load.what, "us", steady(run, load), ALLOWED_PERCENT)]


def commits(run: Run) -> list[Comparison]:
    load = load_of_commits(run.amounts)
    return [Comparison(load.what, "us", steady(run, load), ALLOWED_COMMIT_US, is_absolute=True)]


def steady(run: Run, load: Load) -> list[tuple[Spent, Spent]]:
    """Rounds of one load; a pair of daemons for each, and slices in turns."""
    each = load.each // run.amounts.slices
    operations = run.amounts.connections * each * run.amounts.slices
    found = []
    for number in range(run.rounds):
        with ExitStack() as stack:
            pids, senders = [0, 0], [list[Sender](), list[Sender]()]
            for side in turns(number, 1):
                directory = run.directory / f"{load.api[0]}-{number}"
                daemon = stack.enter_context(run.contenders[side].daemon(directory, NO_DELAY))
                pids[side], senders[side] = daemon.pid, senders_of(daemon, run.amounts.connections, load)
                exchange(senders[side], run.amounts.warm_up)
            parts = [list[Spent](), list[Spent]()]
            for side in turns(number, run.amounts.slices):
                before = spent_by(pids[side])
                exchange(senders[side], each)
                parts[side].append(since(pids[side], before))
            for sender in (*senders[0], *senders[1]):
                sender.socket.close()
        found.append((mean(parts[0], operations), mean(parts[1], operations)))
        shutil.rmtree(directory)
    return found


def senders_of(daemon: MusterDaemon, count: int, load: Load) -> list[Sender]:
    """`count` connections, each the only member of a group; every frame's answer is looked at once."""
    make_topic(daemon, partitions=1)
    made = []
    for connection, member in joined(daemon.port, [f"alone-{index:05d}" for index in range(count)], 1):
        wanted = load.frames_of(member)
        answers = {ask(connection, frame) for frame in wanted}
        answer = answers.pop()
        if answers or any(errors_in(load.api, answer)):
            raise LoadError(f"{daemon}: a {load.what} was refused: {answer.hex(' ')}")
        connection.setblocking(False)
        made.append(Sender(connection, wanted, answer))
    return made


def storms(run: Run) -> list[Comparison]:
    """All members of all groups join at once a daemon that holds nothing yet."""
    members = run.amounts.groups * run.amounts.group_size
    rounds = []
    for number in range(run.rounds):
        found = [Spent(0, 0), Spent(0, 0)]
        for side in turns(number, 1):
            directory = run.directory / f"storm-{number}"
            with run.contenders[side].daemon(directory, STORM_DELAY) as daemon:
                found[side] = mean([storm(daemon, run.amounts)], members)
        rounds.append((found[0], found[1]))
        shutil.rmtree(directory)
    what = f"storm of {run.amounts.groups:,} groups of {run.amounts.group_size}, each member"
    return [Comparison(what, "us", rounds, ALLOWED_PERCENT)]


def storm(daemon: MusterDaemon, amounts: Amounts) -> Spent:
    """What it took from the first JoinGroup until every group is stable."""
    group_ids = [f"storm-{index:05d}" for index in range(amounts.groups)]
    await_coordinator(daemon.port, group_ids)
    connections = [connect(daemon.port) for _ in range(amounts.groups * amounts.group_size)]
    before = spent_by(daemon.pid)
    Crowd(group_ids, amounts.group_size, connections).join(DEADLINE_S)
    spent = since(daemon.pid, before)
    for connection in connections:
        connection.close()
    return spent


def start(run: Run) -> list[Comparison]:
    """Of a directory that is there and empty, and of one with committed offsets, until each shard is served."""
    empty, full = [], []
    settings = {"offsets.topic.num.partitions": str(SHARDS)}
    for contender in run.contenders:
        empty.append(contender.daemon(run.directory / "empty", settings))
        full.append(contender.daemon(run.directory / "full", settings))
    write_offsets_log(full[0].log_dir, run.amounts.offsets, records_per_batch=200)
    shutil.copytree(full[0].log_dir, full[1].log_dir)
    loaded = f"start, {run.amounts.offsets:,} offsets"
    return [
        starts(run, "start, empty", empty, run.amounts.starts, lambda daemon: None),
        starts(run, loaded, full, run.amounts.loaded_starts, until_served),
    ]


def until_served(daemon: MusterDaemon) -> None:
    with WireClient(daemon.bootstrap) as client:
        wait_until_served(client)


def starts(
    run: Run, what: str, daemons: Sequence[MusterDaemon], each: int, ready: Callable[[MusterDaemon], None]
) -> Comparison:
    """Rounds of starts in turns, each after a clean stop; one of each before them does not count."""
    for daemon in daemons:
        started(daemon, ready)
    rounds = []
    for number in range(run.rounds):
        parts = [list[Spent](), list[Spent]()]
        for side in turns(number, each):
            parts[side].append(started(daemons[side], ready))
        rounds.append((mean(parts[0], each * 1e3), mean(parts[1], each * 1e3)))
    return Comparison(what, "ms", rounds, ALLOWED_PERCENT)


def started(daemon: MusterDaemon, ready: Callable[[MusterDaemon], None]) -> Spent:
    """What a process cost from its first moment until it is ready; it is stopped afterwards."""
    with daemon:
        ready(daemon)
        spent = spent_by(daemon.pid)
        if status := daemon.terminate():
            raise LoadError(f"{daemon} ended with status {status}\n{daemon.log_tail()}")
    return spent


SCENARIOS: Final[dict[str, Callable[[Run], list[Comparison]]]] = {
    "heartbeats": heartbeats,
    "commits": commits,
    "storms": storms,
    "start": start,
}
