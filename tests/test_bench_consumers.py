"""Members of consumer groups as the bench has them join: on a daemon, and with answers that are made up."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

from bench.pairs import frames
from bench.pairs.consumer_crowd import ConsumerCrowd, Subscription, consumers
from bench.pairs.consumers import EACH_ITS_SHARE, LONG_SESSIONS, TOPIC, Rebalances
from bench.pairs.frames import CONSUMER_HEARTBEAT, Joined
from bench.pairs.generator import wrong_because
from bench.pairs.lanes import Lane, LoadError, ask
from bench.pairs.plan import Plan, quick
from bench.pairs.rounds import MUSTER
from bench.pairs.singles import errors_in, learned, make_topic
from harness.daemon import MusterDaemon
from protocol.codec.codec import decode
from protocol.errors import ErrorCode
from protocol.framing import response_frame
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

REQUEST_HEADER_BYTES = 15 + len(frames.CLIENT_ID)
VERSION = CONSUMER_HEARTBEAT[1]
TOPIC_ID = bytes(15) + b"\7"
TWO = Subscription(["topic"], 2)

Script = Callable[[int, ConsumerGroupHeartbeatRequest], ConsumerGroupHeartbeatResponse | None]
"""What a member is answered, by its number; None closes its connection."""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return quick(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def daemon(plan: Plan) -> Iterator[MusterDaemon]:
    with plan.muster("daemon", LONG_SESSIONS) as started:
        make_topic(started, EACH_ITS_SHARE.partitions, TOPIC)
        yield started


def test_a_crowd_is_reconciled(daemon: MusterDaemon) -> None:
    """Each member joins once, and reports at least what it has in the end."""
    rebalances = Rebalances(MUSTER, daemon, subscription=EACH_ITS_SHARE)
    rebalances.rebalance("crowd", 3, 5)
    (seconds,), (heartbeats,) = rebalances.seconds, rebalances.heartbeats
    assert heartbeats >= 2 * 3 * 5
    assert rebalances.row.startswith(f"| Muster | {seconds:.2f} | {seconds:.2f} to {seconds:.2f} | ")
    assert f"| {heartbeats:,} | {min(rebalances.epochs)} to {max(rebalances.epochs)} |" in rebalances.row


def test_steady_heartbeats_have_one_answer(daemon: MusterDaemon) -> None:
    alone = consumers(daemon.port, ["alone-0", "alone-1"], 1, EACH_ITS_SHARE, 30)
    lanes = learned(daemon, alone, frames.consumer_heartbeat, CONSUMER_HEARTBEAT)
    for lane in lanes:
        assert [ask(lane.socket, lane.frame) for _ in range(3)] == [lane.answer] * 3
        lane.socket.close()


def test_a_heartbeat_that_is_refused_is_no_load(daemon: MusterDaemon) -> None:
    """It is not learned, and the generator names its error."""
    ((connection, member),) = consumers(daemon.port, ["refused"], 1, EACH_ITS_SHARE, 30)
    stranger = Joined(member.group_id, "stranger", member.generation_id)
    with pytest.raises(LoadError, match="consumer_heartbeat was refused"):
        learned(daemon, [(connection, stranger)], frames.consumer_heartbeat, CONSUMER_HEARTBEAT)
    frame = frames.consumer_heartbeat(stranger)
    answer = ask(connection, frame)
    assert errors_in(CONSUMER_HEARTBEAT, answer) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert wrong_because(Lane(connection, frame, b""), frames.CORRELATION_ID, answer) == "UNKNOWN_MEMBER_ID"
    connection.close()


def answer(
    epoch: int, partitions: list[int] | None = None, interval_ms: int = 10
) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if partitions is not None:
        assigned = ConsumerGroupHeartbeatTopicPartitions(topic_id=TOPIC_ID, partitions=partitions)
        assignment = ConsumerGroupHeartbeatAssignment(topic_partitions=[assigned] if partitions else [])
    return ConsumerGroupHeartbeatResponse(
        member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=assignment
    )


def joined_to(script: Script, size: int = 2, deadline_s: float = 0.3) -> list[Joined]:
    """A group of `size`, whose members share two partitions, and are answered by `script`."""
    pairs = [socket.socketpair() for _ in range(size)]
    threads = [Thread(target=_serve, args=(script, number, pairs[number][1])) for number in range(size)]
    for thread in threads:
        thread.start()
    try:
        crowd = ConsumerCrowd(["group"], size, [ours for ours, _ in pairs], TWO)
        crowd.join(deadline_s)
        return list(crowd.members())
    finally:
        for ours, _ in pairs:
            ours.close()
        for thread in threads:
            thread.join()


def _serve(script: Script, number: int, connection: socket.socket) -> None:
    with suppress(ConnectionError), connection:  # The crowd may be gone before it has read all.
        while frame := connection.recv(1 << 16):
            request: Any = decode(ConsumerGroupHeartbeatRequest, VERSION, frame, REQUEST_HEADER_BYTES)
            response = script(number, request)
            if response is None:
                return
            connection.sendall(b"".join(response_frame(frames.CORRELATION_ID, response, VERSION)))


def test_members_ask_as_clients_do() -> None:
    """All there is to say when they join; nothing at the interval; what they own as soon as it is other."""
    asked: dict[int, list[ConsumerGroupHeartbeatRequest]] = {0: [], 1: []}

    def script(number: int, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        asked[number].append(request)
        if request.member_epoch == 0:
            return answer(1 + number, [0, 1] if number == 0 else [])
        if number == 1:  # Waits for its partition until the other has given it up.
            if len(asked[0]) >= 4 and not any(each.topic_partitions for each in asked[1]):
                return answer(2, [1])
            return answer(2)
        return [answer(1), answer(1, [0]), answer(2)][min(len(asked[0]), 4) - 2]

    first, second = joined_to(script, deadline_s=10)
    assert (first.generation_id, second.generation_id) == (2, 2)
    join, owns_both, idle, owns_one = asked[0][:4]
    assert (join.member_epoch, join.subscribed_topic_names, join.topic_partitions) == (0, ["topic"], [])
    assert join.rebalance_timeout_ms == frames.REBALANCE_MS
    assert [each.partitions for each in owns_both.topic_partitions or []] == [[0, 1]]
    assert idle == ConsumerGroupHeartbeatRequest(group_id="group", member_id=join.member_id, member_epoch=1)
    assert [each.partitions for each in owns_one.topic_partitions or []] == [[0]]
    assert [each.topic_partitions is None for each in asked[1][:2]] == [False, True]


@pytest.mark.parametrize(
    ("script", "because"),
    [
        (lambda number, _: answer(1, [number] if number else []), "1 of 1 groups not reconciled"),
        (lambda number, _: answer(1 + number, [number]), "1 of 1 groups not reconciled"),
        (lambda _, request: answer(request.member_epoch + 1, [0, 1]), "1 of 1 groups not reconciled"),
        (lambda *_: answer(1, [0]), "a partition has two owners"),
        (lambda *_: None, "a connection of group was closed"),
        (
            lambda *_: ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH),
            "ConsumerGroupHeartbeat was answered FENCED_MEMBER_EPOCH",
        ),
    ],
    ids=["without a share", "in two epochs", "with too much", "twice owned", "closed", "refused"],
)
def test_what_is_not_reconciled_fails(script: Script, because: str) -> None:
    with pytest.raises(LoadError, match=because):
        joined_to(script)


def test_a_share_that_is_not_confirmed_is_none() -> None:
    """The second member's report of what it owns is answered with another assignment each time."""

    def script(number: int, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if number == 0 or request.topic_partitions is None:
            return answer(1, [number])
        owned = [each.partitions for each in request.topic_partitions]
        return answer(1, [0] if owned == [[1]] else [1])

    with pytest.raises(LoadError, match="not reconciled"):
        joined_to(script)
