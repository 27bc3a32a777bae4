"""The load generator: raw sockets, prebuilt frames, one request in flight on each connection.

It is cheap itself: no client library, no decoding in the timed part; one epoll loop. Each connection's
last answer is decoded and checked after a round, so a server that refuses is not measured as fast.
"""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.codec import decode
from protocol.framing import encode_request
from protocol.messages import RESPONSES
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.wire import WireClient

ANSWER_HEADER_BYTES = 9  # Size, correlation id, no tags: both versions below are flexible.
HEARTBEAT_VERSION, COMMIT_VERSION, JOIN_VERSION, SYNC_VERSION = 4, 8, 7, 5
CLIENT_ID = "bench"


@dataclass(slots=True)
class Member:
    """One connection that is the only member of a group of its own."""

    client: WireClient
    group_id: str
    member_id: str = "bench-00000000-0000-0000-0000-000000000000"  # As long as a real one.
    generation_id: int = 1
    last_answer: bytes = b""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one timed round cost. CPU is the server's, by the operating system's accounting."""

    operations: int
    seconds: float
    user_us: float
    system_us: float

    @property
    def per_second(self) -> float:
        return self.operations / self.seconds


def connect(port: int, count: int) -> list[Member]:
    return [
        Member(WireClient(f"127.0.0.1:{port}", CLIENT_ID), f"bench-group-{index:05d}")
        for index in range(count)
    ]


def close(members: list[Member]) -> None:
    for member in members:
        member.client.close()


def join(member: Member) -> None:
    """Make `member` the stable, only member of its group."""
    answer = _join(member, "")
    answer = _join(member, answer.member_id)
    assert answer.error_code == 0, answer
    member.member_id, member.generation_id = answer.member_id, answer.generation_id
    request = SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all")],
    )
    assert member.client.ask(request, SYNC_VERSION).error_code == 0


def _join(member: Member, member_id: str) -> Any:
    request = JoinGroupRequest(
        group_id=member.group_id,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return member.client.ask(request, JOIN_VERSION)


def heartbeat_frame(member: Member) -> bytes:
    request = HeartbeatRequest(
        group_id=member.group_id, generation_id=member.generation_id, member_id=member.member_id
    )
    return encode_request(request, HEARTBEAT_VERSION, 1, CLIENT_ID)


def commit_frame(member: Member, topic: str) -> bytes:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=42)
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    return encode_request(request, COMMIT_VERSION, 1, CLIENT_ID)


def run(members: list[Member], frames: list[bytes], seconds: float, server_pid: int) -> Figures:
    """Keep one request in flight on every connection for `seconds`; return what it cost the server."""
    poll = select.epoll()
    lanes: dict[int, tuple[Member, bytes]] = {}
    for member, frame in zip(members, frames, strict=True):
        member.client.socket.setblocking(False)
        poll.register(member.client.socket, select.EPOLLIN)
        lanes[member.client.socket.fileno()] = (member, frame)
    before, start = cpu_us(server_pid), time.perf_counter()
    for member, frame in lanes.values():
        member.client.socket.send(frame)
    done = _exchange(poll, lanes, start + seconds)
    elapsed, after = time.perf_counter() - start, cpu_us(server_pid)
    _drain(poll, lanes)
    return Figures(done, elapsed, (after[0] - before[0]) / done, (after[1] - before[1]) / done)


def _exchange(poll: select.epoll, lanes: dict[int, tuple[Member, bytes]], until: float) -> int:
    done = 0
    while time.perf_counter() < until:
        for descriptor, _ in poll.poll(1.0):
            member, frame = lanes[descriptor]
            member.last_answer = member.client.socket.recv(4096)
            if not member.last_answer:
                raise ConnectionError("the server closed a connection under load")
            member.client.socket.send(frame)
            done += 1
    return done


def _drain(poll: select.epoll, lanes: dict[int, tuple[Member, bytes]]) -> None:
    """Take the last answers, so that the next round starts with nothing in flight."""
    waiting = set(lanes)
    while waiting:
        ready = poll.poll(10.0)
        if not ready:
            raise TimeoutError(f"{len(waiting)} connections got no answer for 10 s")
        for descriptor, _ in ready:
            lanes[descriptor][0].last_answer = lanes[descriptor][0].client.socket.recv(4096)
            waiting.discard(descriptor)
    poll.close()


def check_answers(members: list[Member], key: int, version: int) -> None:
    """Each connection's last answer was a success: the load measured work, not refusals."""
    for member in members:
        answer = decode(RESPONSES[key], version, member.last_answer, ANSWER_HEADER_BYTES)
        errors = (
            [answer.error_code]
            if key == 12
            else [partition.error_code for topic in answer.topics for partition in topic.partitions]
        )
        assert not any(errors), f"{member.group_id}: {answer}"


def cpu_us(pid: int) -> tuple[float, float]:
    """User and system CPU of a process so far, in microseconds (all its threads)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    tick_us = 1_000_000 / os.sysconf("SC_CLK_TCK")
    return int(fields[11]) * tick_us, int(fields[12]) * tick_us
