"""A Fetch names what is new, and what its answer leaves out counts as if it were there; the broker is played."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from coordinator.backing import events
from coordinator.backing.claims import Claim, ClaimKind, Writer
from coordinator.backing.kafka import tail
from coordinator.backing.kafka.cluster import BackingCluster, UnavailableError
from coordinator.backing.kafka.fetched import Fetched
from coordinator.backing.kafka.sender import Appending, Sender
from coordinator.backing.kafka.tail import Tail
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.backing.ownership import PROOFS_IN_LEASE, Ownership, OwnershipTiming, heeds_silence
from coordinator.backing.states import ACTIVE, INITIATING
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    MAX_INT32,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

pytestmark = pytest.mark.asyncio

TOPIC = BackingTopic("muster", b"\x01" * 16, 3)
BROKER, SESSION = 7, 42
END = 10


class Follower:
    """Keeps what it is given, and is where it is put."""

    def __init__(self, position: int = END) -> None:
        self.position = position
        self.heeds = True
        self.given: list[tuple[int, bool]] = []

    def heeds_silence(self, now_ms: int) -> bool:
        return self.heeds

    def on_fetched(self, fetched: Fetched) -> None:
        self.given.append((fetched.high_watermark, fetched.is_whole))

    def on_position_gone(self, log_start_offset: int, high_watermark: int) -> None:
        raise AssertionError


class Cluster:
    """One broker, which answers what it is given to answer."""

    def __init__(self) -> None:
        self.connection = object()
        self.asked: list[FetchRequest] = []
        self.answers: list[FetchResponse | BaseException] = []
        self.leaders = {0: BROKER, 1: BROKER, 2: BROKER}
        self.epoch = 5

    def leader_of(self, partition: int) -> int | None:
        return self.leaders[partition]

    def leader_epoch_of(self, _: int) -> int:
        return self.epoch

    def refresh_soon(self) -> None:
        pass

    async def open(self, *_: object) -> object:
        return self.connection

    async def ask_over(self, _: object, request: FetchRequest, **__: object) -> FetchResponse:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class World:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.followers = {partition: Follower() for partition in range(3)}
        self.tail = Tail(cast(BackingCluster, self.cluster), TOPIC, self.followers)

    async def fetch(self, answer: FetchResponse | Exception) -> dict[int, list[tuple[int, bool]]]:
        """What each of the followers hears of a Fetch that is answered so."""
        self.cluster.answers.append(answer)
        led = [partition for partition, leader in self.cluster.leaders.items() if leader == BROKER]
        for follower in self.followers.values():
            follower.given = []
        await self.tail._fetch(BROKER, led)
        return {partition: each.given for partition, each in self.followers.items() if each.given}

    def named(self) -> list[int]:
        return [each.partition for topic in self.cluster.asked[-1].topics for each in topic.partitions]

    def session(self) -> tuple[int, int]:
        return self.cluster.asked[-1].session_id, self.cluster.asked[-1].session_epoch


def answer(*partitions: int, session_id: int = SESSION, end: int = END, **more: Any) -> FetchResponse:
    data = [PartitionData(partition_index=each, high_watermark=end) for each in partitions]
    return FetchResponse(session_id=session_id, responses=[FetchableTopicResponse(partitions=data)], **more)


@pytest.fixture
def world() -> World:
    return World()


async def test_the_first_fetch_names_all_and_the_next_what_is_elsewhere(world: World) -> None:
    await world.fetch(answer(0, 1, 2))
    assert (world.named(), world.session()) == ([0, 1, 2], (0, 0))
    await world.fetch(answer())
    assert (world.named(), world.session()) == ([], (SESSION, 1))
    world.followers[1].position += 1
    await world.fetch(answer())
    assert (world.named(), world.session()) == ([1], (SESSION, 2))
    await world.fetch(answer())
    assert (world.named(), world.session()) == ([], (SESSION, 3))


async def test_what_has_another_leader_is_forgotten_and_an_epoch_is_said_again(world: World) -> None:
    await world.fetch(answer(0, 1, 2))
    world.cluster.leaders[1] = 8
    world.cluster.epoch = 6
    await world.fetch(answer())
    assert world.named() == [0, 2]
    assert [each.partitions for each in world.cluster.asked[-1].forgotten_topics_data] == [[1]]
    assert {each.current_leader_epoch for each in world.cluster.asked[-1].topics[0].partitions} == {6}


async def test_what_is_left_out_is_read_to_the_end_that_was_said_last(world: World) -> None:
    await world.fetch(answer(0, 1, 2))
    assert await world.fetch(answer()) == {0: [(END, True)], 1: [(END, True)], 2: [(END, True)]}
    heard = await world.fetch(answer(1, end=END + 1))
    assert heard[1] == [(END + 1, False)]
    heard = await world.fetch(answer())
    assert heard[1] == [(END + 1, False)], "there is more to read, for which the answer had no room"


async def test_who_knows_all_and_owns_nothing_does_not_hear_of_it(world: World) -> None:
    await world.fetch(answer(0, 1, 2))
    world.followers[0].heeds = world.followers[2].heeds = False
    assert await world.fetch(answer()) == {1: [(END, True)]}
    world.cluster.epoch += 1
    assert list(await world.fetch(answer())) == [0, 1, 2], "a new leader is news"


async def test_an_answer_that_a_quota_holds_back_says_nothing(world: World) -> None:
    """It is empty, whatever there is: an owner would be proven by a broker that has not looked."""
    await world.fetch(answer(0, 1, 2))
    assert await world.fetch(answer(throttle_time_ms=100)) == {}
    assert world.session() == (SESSION, 1)
    await world.fetch(answer())
    assert world.session() == (SESSION, 2), "it was a request of the session all the same"


async def test_a_partition_with_an_error_is_not_read_until_it_is_answered(world: World) -> None:
    await world.fetch(answer(0, 1, 2))
    failed = PartitionData(partition_index=1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1)
    await world.fetch(
        FetchResponse(session_id=SESSION, responses=[FetchableTopicResponse(partitions=[failed])])
    )
    assert list(await world.fetch(answer())) == [0, 2]
    assert list(await world.fetch(answer(1))) == [0, 1, 2]


@pytest.mark.parametrize("is_new", [False, True], ids=["unanswered", "over another connection"])
async def test_a_session_ends_with_an_answer_that_is_missing_and_with_its_connection(
    world: World, is_new: bool
) -> None:
    await world.fetch(answer(0, 1, 2))
    if is_new:
        world.cluster.connection = object()
    else:
        with pytest.raises(UnavailableError):
            await world.fetch(UnavailableError("no answer in time"))
    assert await world.fetch(answer()) == {}, "nothing was said in this one"
    assert (world.named(), world.session()) == ([0, 1, 2], (0, 0))


async def test_a_session_that_the_broker_has_lost_is_begun_anew(world: World) -> None:
    await world.fetch(answer(0, 1, 2))
    with pytest.raises(UnavailableError, match="FETCH_SESSION_ID_NOT_FOUND"):
        await world.fetch(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    await world.fetch(answer(0, 1, 2))
    assert (world.named(), world.session()) == ([0, 1, 2], (0, 0))


async def test_without_a_session_everything_is_named_each_time(world: World) -> None:
    for _ in range(2):
        assert list(await world.fetch(answer(0, 1, 2, session_id=0))) == [0, 1, 2]
        assert (world.named(), world.session()) == ([0, 1, 2], (0, 0))
    assert await world.fetch(answer(session_id=0)) == {}, "what is not answered is not read"


async def test_the_epochs_of_a_session_begin_anew_at_one(world: World) -> None:
    await world.fetch(answer(0, 1, 2))
    world.tail._sessions[BROKER][1].epoch = MAX_INT32
    await world.fetch(answer())
    await world.fetch(answer())
    assert world.session() == (SESSION, 1)


async def test_fetches_are_apart_where_all_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind is read without a pause; else each batch of anybody would be a Fetch of every node."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: 7.0))
    world.tail._led = {BROKER: [0, 1, 2]}
    world.cluster.answers = [answer(0, 1, 2), answer(1, end=END + 1), answer(), asyncio.CancelledError()]
    with pytest.raises(asyncio.CancelledError):
        await world.tail._read(BROKER)
    assert slept == [pytest.approx(tail.NEWS_EVERY_S)] * 2, (
        "not behind the second, which did not reach the end"
    )


async def test_a_broker_that_fails_again_is_complained_of_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each time, however often it is asked meanwhile."""

    async def sleep(_: float) -> None:
        pass

    monkeypatch.setattr(asyncio, "sleep", sleep)
    world.tail._led = {BROKER: [0, 1, 2]}
    gone = UnavailableError("it is gone")
    world.cluster.answers = [gone, gone, answer(0, 1, 2), gone, gone, asyncio.CancelledError()]
    with capture_logs() as logged, pytest.raises(asyncio.CancelledError):
        await world.tail._read(BROKER)
    assert [(each["about"], each["reason"]) for each in logged] == [(f"broker {BROKER}", "it is gone")] * 2


async def test_an_owner_heeds_silence_as_often_as_its_lease_needs() -> None:
    timing = OwnershipTiming()
    ownership = Ownership(1, timing)
    assert heeds_silence(ownership, 0), "it does not know the log"
    claim = events.FollowedBatch(0, 0, Writer(1, 0), Claim(ClaimKind.CLAIMED, 2, timing.lease_ms), 1)
    ownership.handle(events.Followed((claim,), 1, 1, 0, 1), 0)
    assert not heeds_silence(ownership, 10**6), "another owns it"
    ownership.handle(events.Advised(True), 0)
    ownership.handle(events.Tick(), timing.patience_ms)
    assert ownership.state is INITIATING
    assert heeds_silence(ownership, timing.patience_ms)
    ownership.state = ACTIVE
    ownership.lease.prove(10_000)
    soon_ms = timing.lease_ms // PROOFS_IN_LEASE
    assert [heeds_silence(ownership, 10_000 + after) for after in (0, soon_ms - 1, soon_ms)] == [
        False, False, True
    ]  # fmt: skip


async def test_a_batch_that_comes_while_others_are_read_is_read_in_its_turn() -> None:
    """It is not failed: of many shards that one node takes at once, most would wait a tenth of a second."""
    outcomes: dict[int, object] = {}
    is_over = asyncio.Event()
    sent: list[list[int]] = []

    class Broker(Cluster):
        async def ask_over(self, _: object, request: Any, **__: object) -> Any:
            parts = request.topic_data[0].partition_data
            sent.append([each.index for each in parts])
            done = [PartitionProduceResponse(index=each.index, base_offset=END) for each in parts]
            return ProduceResponse(responses=[TopicProduceResponse(partition_responses=done)])

        def refresh_soon(self) -> None:
            raise AssertionError("nothing is wrong")

        async def open(self, *_: object) -> Any:
            return type("Opened", (), {"opened_ms": 100})

    async def catch_up(_: object, node_id: int, partitions: Any) -> None:
        if 0 in partitions:
            send(1)
        for partition in partitions:
            sender.on_fetched(partition, Fetched(END, END, END, (), node_id, 200, 5))

    def send(partition: int) -> None:
        def done(outcome: object) -> None:
            outcomes[partition] = outcome
            if len(outcomes) == 2:
                is_over.set()

        sender.send(partition, Appending(b"", done, lambda: True))

    sender = Sender(cast(BackingCluster, Broker()), TOPIC, catch_up)
    send(0)
    async with asyncio.timeout(5):
        await is_over.wait()
    assert outcomes == {0: END, 1: END}
    assert sent == [[0], [1]]
