"""Members that join at once: one connection each, driven by one epoll loop, until every group is stable.

They do what clients do: JoinGroup without an id, again with the id they are given, SyncGroup (the leader with an
assignment for all members), and heartbeats every three seconds, or three in a session that is shorter, until their
whole group is in one generation; a member that learns of a rebalance joins again.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.pairs import frames
from bench.pairs.frames import Joined
from bench.pairs.lanes import RECEIVE_BYTES, LoadError, connect_all
from harness.processes import HOST, wait_until
from harness.wire import WireClient
from protocol.codec.codec import decode
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest

HEARTBEAT_S: Final = 3.0
REBALANCE_MS: Final = 60_000
COORDINATOR_S: Final = 60
FIND_VERSION, DESCRIBE_VERSION = 3, 5
NOT_THERE: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
ANSWER_HEADER_BYTES: Final = 9  # Size, correlation id, no tags: all versions used are flexible.


@dataclass(slots=True)
class Joining:
    """One member on its way."""

    group: Group
    connection: socket.socket
    member: Joined
    asked: tuple[int, int] = frames.JOIN
    came: bytes = b""
    is_idle: bool = False  # Synced, and nothing in flight.


@dataclass(slots=True)
class Group:
    """How far a group is: how many of its members are synced in its newest generation."""

    size: int
    generation_id: int = -1
    synced: int = 0

    @property
    def is_stable(self) -> bool:
        return self.synced == self.size

    def on_synced(self, generation_id: int) -> None:
        if generation_id > self.generation_id:
            self.generation_id, self.synced = generation_id, 0
        self.synced += generation_id == self.generation_id

    def on_rejoining(self, generation_id: int) -> None:
        self.synced -= generation_id == self.generation_id


class Crowd:
    """Groups whose members join over `connections`, one for each member, all at once."""

    def __init__(
        self,
        group_ids: Sequence[str],
        size: int,
        connections: Sequence[socket.socket],
        session_timeout_ms: int = frames.SESSION_MS,
    ) -> None:
        assert len(connections) == len(group_ids) * size
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_s = min(HEARTBEAT_S, session_timeout_ms / 3_000)
        self.join_count = 0  # JoinGroups that were sent.
        self._poll = select.epoll()
        self._by_descriptor: dict[int, Joining] = {}
        self._groups = [Group(size) for _ in group_ids]
        for index, connection in enumerate(connections):
            # Neighbours are of different groups, so that groups grow side by side.
            group, group_id = self._groups[index % len(group_ids)], group_ids[index % len(group_ids)]
            joining = Joining(group, connection, Joined(group_id, "", -1))
            connection.setblocking(False)
            self._by_descriptor[connection.fileno()] = joining
            self._poll.register(connection, select.EPOLLIN)
        self._left = len(self._groups)

    def join(self, deadline_s: float) -> float:
        """Seconds from the first JoinGroup until the last group is stable. Raises LoadError."""
        start = beaten_at = time.perf_counter()
        for joining in self._by_descriptor.values():
            self._join(joining)
        while self._left:
            now = time.perf_counter()
            if now - start > deadline_s:
                raise LoadError(f"{self._left} of {len(self._groups)} groups not stable in {deadline_s:g} s")
            if now - beaten_at > self._heartbeat_s:
                beaten_at = now
                self._beat()
            for descriptor, _ in self._poll.poll(min(0.5, self._heartbeat_s)):
                self._received(self._by_descriptor[descriptor])
        took_s = time.perf_counter() - start
        self._settle()
        return took_s

    def members(self) -> Iterator[Joined]:
        """All of them, in the order of their connections."""
        return (joining.member for joining in self._by_descriptor.values())

    def _join(self, joining: Joining) -> None:
        member = joining.member
        self.join_count += 1
        frame = frames.join(member.group_id, member.member_id, REBALANCE_MS, self._session_timeout_ms)
        self._ask(joining, frame, frames.JOIN)

    def _ask(self, joining: Joining, frame: bytes, api: tuple[int, int]) -> None:
        joining.asked, joining.is_idle = api, False
        sent = joining.connection.send(frame)
        if sent != len(frame):  # Only a leader's assignments are that long.
            joining.connection.setblocking(True)
            joining.connection.sendall(frame[sent:])
            joining.connection.setblocking(False)

    def _received(self, joining: Joining) -> None:
        data = joining.connection.recv(RECEIVE_BYTES)
        if not data:
            raise LoadError(f"a connection of {joining.member.group_id} was closed")
        joining.came += data
        if len(joining.came) < 4 + int.from_bytes(joining.came[:4]):
            return
        came, joining.came = joining.came, b""
        key, version = joining.asked
        answer: Any = decode(RESPONSES[key], version, came, ANSWER_HEADER_BYTES)
        {11: self._on_joined, 14: self._on_synced, 12: self._on_beaten}[key](joining, answer)

    def _on_joined(self, joining: Joining, answer: Any) -> None:
        member = joining.member
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
            self._join(joining)
            return
        if answer.error_code:
            raise LoadError(f"{member.group_id}: JoinGroup was answered {ErrorCode(answer.error_code).name}")
        member.generation_id = answer.generation_id
        ids = [each.member_id for each in answer.members] if answer.leader == member.member_id else []
        self._ask(joining, frames.sync(member, ids), frames.SYNC)

    def _on_synced(self, joining: Joining, answer: Any) -> None:
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._join(joining)
            return
        if answer.error_code:
            raise LoadError(f"SyncGroup was answered {ErrorCode(answer.error_code).name}")
        joining.is_idle = True
        joining.group.on_synced(joining.member.generation_id)
        self._left -= joining.group.is_stable

    def _on_beaten(self, joining: Joining, answer: Any) -> None:
        joining.is_idle = True
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._left += joining.group.is_stable
            joining.group.on_rejoining(joining.member.generation_id)
            self._join(joining)
        elif answer.error_code:
            raise LoadError(f"Heartbeat was answered {ErrorCode(answer.error_code).name}")

    def _beat(self) -> None:
        """One heartbeat of each member that is done while others of its group are not."""
        for joining in self._by_descriptor.values():
            if joining.is_idle and not joining.group.is_stable:
                self._ask(joining, frames.heartbeat(joining.member), frames.HEARTBEAT)

    def _settle(self) -> None:
        """Take the answers to heartbeats that are still on their way; sockets are left as `connect` made them."""
        while not all(joining.is_idle for joining in self._by_descriptor.values()):
            for descriptor, _ in self._poll.poll(1.0):
                self._received(self._by_descriptor[descriptor])
        self._poll.close()
        for joining in self._by_descriptor.values():
            joining.connection.setblocking(True)


def await_coordinator(port: int, group_ids: Sequence[str]) -> None:
    """Have the offsets topic made, as the first client does, and wait until each group has its coordinator."""
    with WireClient(f"{HOST}:{port}", frames.CLIENT_ID) as client:

        def is_there() -> bool:
            client.ask(FindCoordinatorRequest(key=group_ids[0]), FIND_VERSION)
            answer = client.ask(DescribeGroupsRequest(groups=list(group_ids)), DESCRIBE_VERSION)
            return all(group.error_code not in NOT_THERE for group in answer.groups)

        wait_until(is_there, "every group has its coordinator", COORDINATOR_S)


def joined(
    port: int, group_ids: Sequence[str], size: int, deadline_s: float = 120
) -> list[tuple[socket.socket, Joined]]:
    """Stable groups of `size` members with a connection for each member."""
    await_coordinator(port, group_ids)
    connections = connect_all(port, len(group_ids) * size)
    crowd = Crowd(group_ids, size, connections)
    crowd.join(deadline_s)
    return list(zip(connections, crowd.members(), strict=True))
