"""Clients of a log on Kafka that never stop: they commit, read and beat, and note whatever is not as promised.

Each group has one writer, whose offsets rise, so what was acknowledged is known at any moment. A reader asks every
node for itself, whoever is said to own a group: whatever is answered as a success has to be of the present.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.backing.node_processes import NO_OFFSETS_NOW, NOT_NOW, commit_request, fetch_request

ANSWER_S = 2.0
"""So long a client waits for an answer before it looks for another node."""
PAUSE_S = 0.05
AT_A_TIME = 100
"""Commits that are on their way together."""
READ_AT_A_TIME = 30
"""Groups that one question is about."""
BEAT_EVERY_S = 1.0
SESSION_MS = 20_000
FOUND_S = 60.0


class Node:
    """A node's address, and one connection to it for each client thread."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._client: WireClient | None = None

    def ask(self, request: Any, version: int) -> Any:
        """The answer. Raises OSError, and the next question opens another connection."""
        self.send([request], version)
        return self.receive()

    def send(self, requests: Sequence[Any], version: int) -> None:
        """Send requests, of which `receive` gives the answers in their order. Raises OSError, as `ask`."""
        try:
            if self._client is None:
                self._client = WireClient(self.bootstrap)
                self._client.socket.settimeout(ANSWER_S)
            for request in requests:
                self._client.send(request, version)
        except OSError:
            self.close()
            raise

    def receive(self) -> Any:
        assert self._client is not None, "something was sent"
        try:
            return self._client.receive()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


@dataclass
class Record:
    """What is known of the groups, from all threads together."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    attempted: dict[str, int] = field(default_factory=dict)
    served_s: dict[str, float] = field(default_factory=dict)
    """When a commit of the group was acknowledged last, by the monotonic clock."""
    commits: int = 0
    reads: int = 0
    beats: int = 0
    produced: int = 0
    """Records of the data topic that were acknowledged: all numbers below this."""
    consumed: int = 0
    """And those that were read."""
    problems: list[str] = field(default_factory=list)


class Client(threading.Thread):
    """A thread that does `step` until it is told to stop."""

    def __init__(self, nodes: Sequence[str], record: Record) -> None:
        super().__init__(daemon=True)
        self.record = record
        self.nodes = [Node(bootstrap) for bootstrap in nodes]
        self._by_address = {node.bootstrap: node for node in self.nodes}
        self._coordinators: dict[str, str] = {}
        self._looked_s = 0.0
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            try:
                self.step()
            except Exception as error:  # Whatever it is, it is none of what nodes may answer.
                self.record.problems.append(f"{type(self).__name__}: {error!r}")
                return
        for node in self.nodes:
            node.close()

    def step(self) -> None:
        raise NotImplementedError

    def coordinator(self, group: str, groups: Sequence[str]) -> Node | None:
        """The node that the group is said to be at, from what any node says of all `groups`."""
        if group not in self._coordinators and time.monotonic() > self._looked_s + PAUSE_S:
            self._looked_s = time.monotonic()
            self._look(groups)
        return self._by_address.get(self._coordinators.get(group, ""))

    def forget(self, group: str) -> None:
        self._coordinators.pop(group, None)

    def _look(self, groups: Sequence[str]) -> None:
        try:
            answer = random.choice(self.nodes).ask(FindCoordinatorRequest(coordinator_keys=list(groups)), 4)
        except OSError:
            return
        for found in answer.coordinators:
            if found.error_code == ErrorCode.NONE:
                self._coordinators[found.key] = f"{found.host}:{found.port}"


class Committer(Client):
    """Commits to its groups, many at a time, each time the next offset."""

    def __init__(self, nodes: Sequence[str], record: Record, groups: Sequence[str]) -> None:
        super().__init__(nodes, record)
        self._groups = groups
        self._next = 0

    def step(self) -> None:
        by_node: dict[Node, list[str]] = {}
        for _ in range(AT_A_TIME):
            group = self._groups[self._next % len(self._groups)]
            self._next += 1
            node = self.coordinator(group, self._groups)
            if node is not None:
                by_node.setdefault(node, []).append(group)
        for node, groups in by_node.items():
            self._commit(node, groups)
        if not by_node:
            self.is_over.wait(PAUSE_S)

    def _commit(self, node: Node, groups: Sequence[str]) -> None:
        offsets = {group: self.record.attempted.get(group, 0) + 1 for group in groups}
        self.record.attempted.update(offsets)
        answered: set[str] = set()
        try:
            node.send([commit_request(group, offset) for group, offset in offsets.items()], 8)
            for group, offset in offsets.items():
                self._judge(group, offset, ErrorCode(node.receive().topics[0].partitions[0].error_code))
                answered.add(group)
        except OSError:
            for group in offsets.keys() - answered:
                self.forget(group)

    def _judge(self, group: str, offset: int, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.record.acknowledged[group] = offset
            self.record.served_s[group] = time.monotonic()
            self.record.commits += 1
        elif error in NOT_NOW:
            self.forget(group)
        else:
            self.record.problems.append(f"a commit of {group} was answered {error.name}")


class Reader(Client):
    """Asks each node for the offsets of any group, whoever is said to own it."""

    def __init__(self, nodes: Sequence[str], record: Record, groups: Sequence[str]) -> None:
        super().__init__(nodes, record)
        self._groups = groups
        self._seen: dict[str, int] = {}

    def step(self) -> None:
        groups, node = random.sample(self._groups, READ_AT_A_TIME), random.choice(self.nodes)
        known = {
            group: max(self.record.acknowledged.get(group, 0), self._seen.get(group, 0)) for group in groups
        }
        try:
            answers = node.ask(fetch_request(*groups), 8).groups
        except OSError:
            self.is_over.wait(PAUSE_S)
            return
        for answer in answers:
            error, group = ErrorCode(answer.error_code), answer.group_id
            if error is ErrorCode.NONE:
                found = [each.committed_offset for topic in answer.topics for each in topic.partitions]
                self._judge(group, node, found[0] if found else 0, known[group])
            elif error not in NO_OFFSETS_NOW:
                self.record.problems.append(f"a read of {group} was answered {error.name}")

    def _judge(self, group: str, node: Node, offset: int, known: int) -> None:
        self.record.reads += 1
        self._seen[group] = offset
        attempted = self.record.attempted.get(group, 0)
        if not known <= offset <= attempted:
            self.record.problems.append(
                f"{node.bootstrap} says {offset} of {group}: {known} was known before, {attempted} tried"
            )


class Members(Client):
    """Groups of one member each, which beat on: no node may expire them, or have them join again."""

    def __init__(self, nodes: Sequence[str], record: Record, groups: Sequence[str]) -> None:
        super().__init__(nodes, record)
        self._groups = groups
        self._members: dict[str, tuple[str, int]] = {}
        self._due_s = dict.fromkeys(groups, 0.0)

    def become_stable(self) -> None:
        """Have all groups stable, before anything happens."""
        for group in self._groups:
            joined = self._asked(group, _join(group), 3)
            self._members[group] = joined.member_id, joined.generation_id
            assert self._asked(group, _sync(group, *self._members[group]), 3).assignment

    def _asked(self, group: str, request: Any, version: int) -> Any:
        def answered() -> Any:
            node = self.coordinator(group, self._groups)
            answer = None if node is None else node.ask(request, version)
            return answer if answer is not None and not answer.error_code else None

        return wait_until(answered, f"{group} is stable", FOUND_S)

    def step(self) -> None:
        group = min(self._due_s, key=lambda each: self._due_s[each])
        if self.is_over.wait(max(0.0, self._due_s[group] - time.monotonic())):
            return
        node = self.coordinator(group, self._groups)
        self._due_s[group] = time.monotonic() + PAUSE_S
        if node is None:
            return
        member_id, generation_id = self._members[group]
        try:
            answer = node.ask(
                HeartbeatRequest(group_id=group, generation_id=generation_id, member_id=member_id), 3
            )
        except OSError:
            self.forget(group)
            return
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.NONE:
            self.record.beats += 1
            self._due_s[group] = time.monotonic() + BEAT_EVERY_S
        elif error in NOT_NOW:
            self.forget(group)
        else:
            self.record.problems.append(f"the member of {group} was answered {error.name}")
            self._due_s[group] = float("inf")


def _join(group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id="",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def _sync(group: str, member_id: str, generation_id: int) -> SyncGroupRequest:
    share = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all of it")
    return SyncGroupRequest(
        group_id=group, generation_id=generation_id, member_id=member_id, assignments=[share]
    )
