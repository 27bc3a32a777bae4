"""Members of consumer groups (KIP-848) that join at once, one connection each, until all is reconciled.

They do what clients do: ConsumerGroupHeartbeat with epoch 0, their topics and no partitions; then one at the
interval that the answers name, of nothing but group, member and epoch; and one at once, with all partitions that
the member owns, when an assignment has changed them. A client takes what it was given as soon as it gave up the
rest, so both are one heartbeat here.

A group is reconciled when all of its members are of one epoch, and each has its share of the partitions and has
confirmed them.
"""

from __future__ import annotations

import select
import socket
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final
from uuid import uuid4

from bench.pairs import frames
from bench.pairs.crowd import ANSWER_HEADER_BYTES, await_coordinator
from bench.pairs.frames import CONSUMER_HEARTBEAT, Joined
from bench.pairs.lanes import RECEIVE_BYTES, LoadError, connect_all
from protocol.codec.codec import decode
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES

LONGEST_WAIT_S: Final = 0.5
Partitions = frozenset[tuple[bytes, int]]


@dataclass(slots=True)
class ConsumerGroup:
    """How many of its members are settled, by their epochs."""

    size: int
    settled: dict[int, int] = field(default_factory=dict)

    @property
    def is_reconciled(self) -> bool:
        return self.size in self.settled.values()

    def move(self, before: int | None, after: int | None) -> None:
        """One of its members was settled in the epoch `before` and now is in `after`; None is not settled."""
        if before is not None:
            self.settled[before] -= 1
        if after is not None:
            self.settled[after] = self.settled.get(after, 0) + 1


@dataclass(slots=True)
class Consumer:
    """One member; `generation_id` of what it has `joined` is its member epoch."""

    group: ConsumerGroup
    connection: socket.socket
    joined: Joined
    owned: Partitions = frozenset()
    settled_in: int | None = None  # The epoch that it has its share in, confirmed.
    is_asking: bool = False
    sent_at: float = 0.0
    due: float = 0.0  # When its next heartbeat is.
    came: bytes = b""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics that all members of a crowd subscribe to, and how many partitions they have together."""

    topics: Sequence[str]
    partitions: int


class ConsumerCrowd:
    """Groups whose members join over `connections`, one for each member, all at once."""

    def __init__(
        self,
        group_ids: Sequence[str],
        size: int,
        connections: Sequence[socket.socket],
        subscription: Subscription,
    ) -> None:
        assert len(connections) == len(group_ids) * size
        self._subscription = subscription
        self._share, rest = divmod(subscription.partitions, size)
        assert not rest, "each member has as many partitions as the others"
        self.heartbeats = 0  # All that were sent, the joining ones among them.
        self._poll = select.epoll()
        self._by_descriptor: dict[int, Consumer] = {}
        self._due: list[
            tuple[float, int]
        ] = []  # A heap, of descriptors; what is not a member's newest is ignored.
        self._groups = [ConsumerGroup(size) for _ in group_ids]
        for index, connection in enumerate(connections):
            # Neighbours are of different groups, so that groups grow side by side.
            group, group_id = self._groups[index % len(group_ids)], group_ids[index % len(group_ids)]
            connection.setblocking(False)
            made = Consumer(group, connection, Joined(group_id, new_member_id(), 0))
            self._by_descriptor[connection.fileno()] = made
            self._poll.register(connection, select.EPOLLIN)
        self._left = len(self._groups)

    def join(self, deadline_s: float) -> float:
        """Seconds from the first join until the last group is reconciled. Raises LoadError."""
        start = time.perf_counter()
        for consumer in self._by_descriptor.values():
            self._send(consumer, frames.consumer_join(consumer.joined, self._subscription.topics))
        while self._left:
            now = time.perf_counter()
            if now - start > deadline_s:
                raise LoadError(
                    f"{self._left} of {len(self._groups)} groups not reconciled in {deadline_s:g} s"
                )
            self._beat(now)
            self._receive(min(LONGEST_WAIT_S, self._due[0][0] - now) if self._due else LONGEST_WAIT_S)
        took_s = time.perf_counter() - start
        self._settle()
        self._check()
        return took_s

    def members(self) -> Iterator[Joined]:
        """All of them, in the order of their connections."""
        return (consumer.joined for consumer in self._by_descriptor.values())

    def _send(self, consumer: Consumer, frame: bytes) -> None:
        self.heartbeats += 1
        consumer.is_asking, consumer.sent_at = True, time.perf_counter()
        sent = consumer.connection.send(frame)
        if sent != len(frame):  # A frame with thousands of partitions may be too long for a socket.
            consumer.connection.setblocking(True)
            consumer.connection.sendall(frame[sent:])
            consumer.connection.setblocking(False)

    def _beat(self, now: float) -> None:
        """The heartbeats that are due."""
        while self._due and self._due[0][0] <= now:
            due, descriptor = heappop(self._due)
            consumer = self._by_descriptor[descriptor]
            if due == consumer.due and not consumer.is_asking:
                self._send(consumer, frames.consumer_heartbeat(consumer.joined))

    def _receive(self, wait_s: float) -> None:
        for descriptor, _ in self._poll.poll(max(0.0, wait_s)):
            consumer = self._by_descriptor[descriptor]
            if (answer := self._answer(consumer)) is not None:
                self._on_answer(descriptor, consumer, answer)

    def _answer(self, consumer: Consumer) -> Any:
        """The answer that is whole with what has come now, if one is."""
        data = consumer.connection.recv(RECEIVE_BYTES)
        if not data:
            raise LoadError(f"a connection of {consumer.joined.group_id} was closed")
        consumer.came += data
        if len(consumer.came) < 4 or len(consumer.came) < 4 + int.from_bytes(consumer.came[:4]):
            return None
        came, consumer.came = consumer.came, b""
        key, version = CONSUMER_HEARTBEAT
        return decode(RESPONSES[key], version, came, ANSWER_HEADER_BYTES)

    def _on_answer(self, descriptor: int, consumer: Consumer, answer: Any) -> None:
        if answer.error_code:
            name = ErrorCode(answer.error_code).name
            raise LoadError(
                f"{consumer.joined.group_id}: ConsumerGroupHeartbeat was answered {name}: {answer.error_message}"
            )
        consumer.is_asking = False
        consumer.joined.generation_id = answer.member_epoch
        consumer.due = consumer.sent_at + answer.heartbeat_interval_ms / 1000
        heappush(self._due, (consumer.due, descriptor))
        if answer.assignment is not None:
            assigned = answer.assignment.topic_partitions
            now_owned = frozenset((each.topic_id, number) for each in assigned for number in each.partitions)
            if now_owned != consumer.owned:
                consumer.owned = now_owned
                self._move(consumer, None)
                self._send(consumer, frames.consumer_heartbeat(consumer.joined, assigned))
                return
        has_share = len(consumer.owned) == self._share
        self._move(consumer, answer.member_epoch if has_share else None)

    def _move(self, consumer: Consumer, settled_in: int | None) -> None:
        group = consumer.group
        self._left += group.is_reconciled
        group.move(consumer.settled_in, settled_in)
        consumer.settled_in = settled_in
        self._left -= group.is_reconciled

    def _settle(self) -> None:
        """Take the answers to heartbeats that are still on their way; sockets are left as `connect` made them."""
        while any(consumer.is_asking for consumer in self._by_descriptor.values()):
            self._receive(1.0)
        self._poll.close()
        for consumer in self._by_descriptor.values():
            consumer.connection.setblocking(True)

    def _check(self) -> None:
        """Raise LoadError unless every group is reconciled still, and no partition has two owners."""
        if self._left:
            raise LoadError(f"{self._left} of {len(self._groups)} groups began to rebalance again")
        owned: dict[str, list[Partitions]] = {}
        for consumer in self._by_descriptor.values():
            owned.setdefault(consumer.joined.group_id, []).append(consumer.owned)
        for group_id, shares in owned.items():
            if len(frozenset().union(*shares)) != self._subscription.partitions:
                raise LoadError(f"{group_id}: a partition has two owners")


def new_member_id() -> str:
    """A member id as clients make them (KIP-1082)."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


def consumers(
    port: int, group_ids: Sequence[str], size: int, subscription: Subscription, deadline_s: float
) -> list[tuple[socket.socket, Joined]]:
    """Reconciled groups of `size` members with a connection for each member."""
    await_coordinator(port, group_ids)
    connections = connect_all(port, len(group_ids) * size)
    crowd = ConsumerCrowd(group_ids, size, connections, subscription)
    crowd.join(deadline_s)
    return list(zip(connections, crowd.members(), strict=True))
