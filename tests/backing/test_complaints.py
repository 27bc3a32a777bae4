"""What does not work is said once for each reason; what belongs to a change of leaders only where it lasts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import pytest
import structlog
from structlog.typing import EventDict

from coordinator.backing.kafka import complaints
from coordinator.backing.kafka.cluster import Lane
from coordinator.backing.kafka.complaints import PASSING_MS, Complaints
from coordinator.backing.kafka.fetched import Fetched
from coordinator.backing.kafka.library_log import AGAIN_MS, REMEMBERED_TEXTS, OnceAMinute, quieten_aiokafka
from coordinator.backing.kafka.sender import Appending, Outcome, Sender
from coordinator.backing.kafka.tail import Tail
from coordinator.backing.kafka.topic import BackingTopic
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.backing.kafka_node import until
from tests.backing.logged import said
from tests.backing.played_brokers import PlayedBroker, PlayedCluster
from tests.backing.test_fetch_session import Follower

PARTITIONS = 50
TOPIC = BackingTopic("logs", b"\x01" * 16, PARTITIONS)


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(complaints, "boot_ms", clock)
    return clock


def test_what_passes_is_not_said_and_what_lasts_is_said_once(clock: Clock, logs: list[EventDict]) -> None:
    about = Complaints(structlog.get_logger(), "no")
    for after_ms, expected in ((0, []), (PASSING_MS - 1, []), (1, [("p", "moving")]), (PASSING_MS, [])):
        clock.ms += after_ms
        about.say_if_it_lasts("moving", "p")
        assert said(logs) == expected
    about.over("p")
    about.say_if_it_lasts("moving", "p")
    assert said(logs) == [], "it is another time"
    clock.ms += PASSING_MS
    about.say_if_it_lasts("moving", "p")
    assert said(logs) == [("p", "moving")]


class World:
    """A node that writes to and reads from 50 partitions of one broker, each of which answers with an error."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.broker = PlayedBroker(1)
        self.broker.answers |= {"ProduceRequest": self._produced, "FetchRequest": lambda _: self._fetched()}
        self.cluster = PlayedCluster(self.broker)
        self.cluster._leaders = dict.fromkeys(range(PARTITIONS), 1)
        cast(Any, self.cluster).refresh_soon = lambda: None
        self.sender = Sender(self.cluster, TOPIC, cast(Any, None))
        self.tail = Tail(self.cluster, TOPIC, {each: Follower(0) for each in range(PARTITIONS)})
        for partition in range(PARTITIONS):
            self.sender.on_fetched(partition, Fetched(0, 0, 0, (), 1, 1, 0))

    def _produced(self, request: ProduceRequest) -> ProduceResponse:
        done = [
            PartitionProduceResponse(index=each.index, error_code=self.error, base_offset=0)
            for each in request.topic_data[0].partition_data
        ]
        return ProduceResponse(responses=[TopicProduceResponse(partition_responses=done)])

    def _fetched(self) -> FetchResponse:
        data = [
            PartitionData(partition_index=each, error_code=self.error, high_watermark=0)
            for each in range(PARTITIONS)
        ]
        return FetchResponse(responses=[FetchableTopicResponse(partitions=data)])

    async def send(self) -> None:
        """One batch to each partition, until all have an outcome."""
        outcomes: list[Outcome] = []
        for partition in range(PARTITIONS):
            self.sender.send(partition, Appending(b"", outcomes.append, lambda: True))
        await until(lambda: len(outcomes) == PARTITIONS, "all have an outcome")

    async def read(self) -> None:
        opened = await self.cluster.open(1, Lane.TAIL)
        await self.tail.catch_up(opened, 1, range(PARTITIONS))


Work = Callable[[World], Any]
WORK = pytest.mark.parametrize("work", [World.send, World.read], ids=["written", "read"])


@WORK
@pytest.mark.asyncio
async def test_leaders_that_are_just_elected_are_no_complaint(
    clock: Clock, logs: list[EventDict], work: Work
) -> None:
    """A first start asks for 50 partitions of a topic that was made a moment ago."""
    world = World()
    for world.error in (
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
    ):
        await work(world)
        clock.ms += PASSING_MS // 4
    assert said(logs) == []
    clock.ms += PASSING_MS
    for _ in range(3):
        await work(world)
    each = [(f"partition {partition}", "FENCED_LEADER_EPOCH") for partition in range(PARTITIONS)]
    assert said(logs) == each


@WORK
@pytest.mark.asyncio
async def test_any_other_error_is_said_once_for_each_partition(
    clock: Clock, logs: list[EventDict], work: Work
) -> None:
    world = World()
    for times in range(3):
        world.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await work(world)
        each = [(f"partition {partition}", "NOT_ENOUGH_REPLICAS") for partition in range(PARTITIONS)]
        assert said(logs) == (each if times != 1 else [])
        if times == 1:
            world.error = ErrorCode.NONE
            await work(world)


@pytest.mark.asyncio
async def test_a_broker_that_is_away_is_complained_of_once(logs: list[EventDict]) -> None:
    """However many shards wait for it, ten times a second each."""
    world = World()
    world.broker.is_away = True
    for _ in range(3):
        await world.send()
    assert said(logs) == [("broker 1", "broker 1 is away")]
    world.broker.is_away = False
    await world.send()
    world.broker.is_away = True
    await world.send()
    assert said(logs) == [("broker 1", "broker 1 is away")], "it is away again"


@pytest.mark.asyncio
async def test_a_log_that_is_not_read_to_its_end_is_a_complaint_where_it_lasts(
    clock: Clock, logs: list[EventDict]
) -> None:
    world = World()

    async def catch_up(*_: object) -> None:
        """It does not come to the end."""

    world.sender._catch_up = catch_up
    world.sender._read_ms.clear()
    for after_ms in (0, PASSING_MS - 1):
        clock.ms += after_ms
        await world.send()
        assert said(logs) == []
    clock.ms += 1
    for _ in range(3):
        await world.send()
    reason = "the log is not read to its end"
    assert said(logs) == [(f"partition {partition}", reason) for partition in range(PARTITIONS)]
    assert "ProduceRequest" not in world.broker.asked


@pytest.mark.asyncio
async def test_a_bug_in_sending_leaves_no_batch_without_an_outcome(
    logs: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    monkeypatch.setattr("coordinator.backing.kafka.sender.SLOW_RETRY_S", 0)

    def bug(_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(world.sender, "_outcome", bug)
    outcomes: list[Outcome] = []
    for partition in (0, 1):
        world.sender.send(partition, Appending(b"", outcomes.append, lambda: True))
    await until(lambda: len(outcomes) == 2, "both have an outcome")
    assert said(logs) == [("broker 1", "KeyError: 'a bug'")]


def test_a_library_says_each_of_its_texts_once_a_minute() -> None:
    clock, heard = Clock(), []
    handler = OnceAMinute(lambda record: heard.append(record.getMessage()), clock)

    def log(text: str, *values: object) -> None:
        handler.handle(logging.LogRecord("aiokafka.conn", logging.ERROR, "", 0, text, values, None))

    for _ in range(3):
        log("no node %s", 1)
        log("no node %s", 2)
    assert heard == ["no node 1", "no node 2"]
    clock.ms += AGAIN_MS - 1
    log("no node %s", 1)
    assert len(heard) == 2
    clock.ms += 1
    log("no node %s", 1)
    assert heard[2:] == ["no node 1"]
    for number in range(2 * REMEMBERED_TEXTS):
        log("text %s", number)
    assert len(handler._said_ms) <= REMEMBERED_TEXTS


def test_what_aiokafka_logs_reaches_the_log_that_way_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    class Log(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    root, library = logging.getLogger(), logging.getLogger("aiokafka")
    monkeypatch.setattr(root, "handlers", [Log()])
    monkeypatch.setattr(library, "handlers", [])
    monkeypatch.setattr(library, "propagate", True)
    for _ in range(2):
        quieten_aiokafka()
    for _ in range(50):
        logging.getLogger("aiokafka.consumer.group_coordinator").error("Unable connect to node %s", 7)
        library.error("Unable connect to node with id %s", 7)
    assert heard == ["Unable connect to node 7", "Unable connect to node with id 7"]
