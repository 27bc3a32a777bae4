"""The connections of the simulation carry what real clients send: ahead of answers, cut, known by their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from coordinator.effects import Event, PreparedCommitReceived, RequestReceived, Result
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.groups.consumer import subscription
from tests.simulation.server import WatchedShard
from tests.simulation.simulation import Simulation, quiet_logs
from tests.simulation.socket_end import SocketEnd
from tests.simulation.stage import Stage
from tests.simulation.timeline import Signal
from tests.simulation.wire import LOST, Wire

JOIN, HEARTBEAT, COMMIT = 3, 4, 9


class SoundPath:
    """A network on which everything takes a millisecond."""

    def delay_ms(self) -> int:
        return 1

    def blocked_ms(self) -> int:
        return 0

    def holds_up_answers(self, client_id: str) -> bool:
        return False


class WiredStage(Stage):
    """The stage, and one client's connection to it."""

    def __init__(self) -> None:
        super().__init__()
        self.wire = Wire("c", self.server, self.timeline, Random(0), SoundPath())

    def write(self, request: Any, version: int) -> Signal:
        """Send `request` on the connection; the signal is set with its answer."""
        answer = Signal()
        self.wire.send(request, version, answer)
        return answer


@pytest.fixture
def world() -> Iterator[WiredStage]:
    with quiet_logs():
        yield WiredStage()


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    )


def beat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="unknown")


def join() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))],
    )


def test_a_request_behind_one_that_waits_is_answered_after_it(world: WiredStage) -> None:
    world.disk.is_held = True
    commits = [world.write(commit(offset), COMMIT) for offset in range(3)]
    heartbeat = world.write(beat(), HEARTBEAT)
    world.run(20)
    assert not any(answer.is_set for answer in [*commits, heartbeat])
    world.disk.is_held = False
    for end in world.disk.waiting:
        end(None)
    world.run(20)
    assert [answer.value.topics[0].partitions[0].error_code for answer in commits] == [0, 0, 0]
    assert heartbeat.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not world.witness.violations


def test_what_breaks_takes_all_that_was_on_its_way(world: WiredStage) -> None:
    world.disk.is_held = True
    answers = [world.write(commit(1), COMMIT), world.write(beat(), HEARTBEAT)]
    world.run(20)
    world.server.crash()
    world.run(20)
    assert [answer.value for answer in answers] == [LOST, LOST]
    assert not world.wire.is_open


def test_a_frame_that_breaks_off_is_no_request(world: WiredStage) -> None:
    world.wire.send_in_part(commit(1), COMMIT)
    world.run(20)
    assert world.witness.calls == 0
    assert not world.server.ends, "the daemon has let go of it"


@pytest.mark.parametrize("swapped", [False, True])
def test_answers_in_another_order_than_the_requests_are_seen(world: WiredStage, swapped: bool) -> None:
    world.write(join(), JOIN)
    world.write(beat(), HEARTBEAT)
    (end,) = ends_after_a_step(world)
    written: list[bytes] = []
    end.write = written.append  # type: ignore[assignment, method-assign]
    world.run(20)
    joined, beaten = split(b"".join(written))
    SocketEnd.write(end, beaten + joined if swapped else joined + beaten)
    assert [" was answered before " in found for found in world.witness.violations] == [True] * swapped


def ends_after_a_step(world: WiredStage) -> list[SocketEnd]:
    while not world.server.ends:
        world.timeline.step()
    world.timeline.step()  # It is accepted.
    return world.server.ends


def split(data: bytes) -> list[bytes]:
    """The frames, with their lengths."""
    frames = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        frames.append(data[:end])
        data = data[end:]
    return frames


def test_the_ways_of_a_connection_are_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """By some of the first seeds; a simulation that never leaves the plain way proves nothing of the others."""
    ways: Counter[str] = Counter()
    started, handle, pause = SocketEnd.started, WatchedShard.handle, SocketEnd.pause_reading

    def on_started(self: SocketEnd, pending: Any) -> Any:
        ways["answered at once" if pending is None else "in its place"] += 1
        return started(self, pending)

    def on_handle(self: WatchedShard, event: Event, now_ms: int) -> Result:
        ways["decoded"] += isinstance(event, RequestReceived)
        ways["prepared"] += isinstance(event, PreparedCommitReceived)
        return handle(self, event, now_ms)

    def on_pause(self: SocketEnd) -> None:
        ways["held back"] += 1
        pause(self)

    monkeypatch.setattr(SocketEnd, "started", on_started)
    monkeypatch.setattr(WatchedShard, "handle", on_handle)
    monkeypatch.setattr(SocketEnd, "pause_reading", on_pause)
    chosen = [seed for seed in range(40) if Simulation(seed).parts.real_connections]
    assert 10 <= len(chosen) <= 30
    for seed in chosen[:12]:
        Simulation(seed).run()
    assert ways["decoded"] >= 1_000
    assert ways["answered at once"] >= 50
    assert ways["prepared"] >= 50
    assert ways["held back"] >= 5
