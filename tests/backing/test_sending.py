"""What goes out over a connection, and what does not: on brokers that are played."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator.backing.events import AppendError
from coordinator.backing.kafka.fetched import Fetched
from coordinator.backing.kafka.sender import Appending, Outcome, Sender
from coordinator.backing.kafka.topic import BackingTopic
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.backing.kafka_node import until
from tests.backing.played_brokers import PlayedBroker, PlayedCluster

pytestmark = pytest.mark.asyncio

TOPIC = BackingTopic("logs", b"\x01" * 16, 2)
END = 10


class World:
    """A sender of two partitions of one broker, which takes all unless `errors` has another answer."""

    def __init__(self) -> None:
        self.errors: dict[int, ErrorCode] = {}
        self.broker = PlayedBroker(1)
        self.broker.answers["ProduceRequest"] = self._produced
        self.cluster = PlayedCluster(self.broker)
        self.cluster._leaders = {0: 1, 1: 1}
        cast(Any, self.cluster).refresh_soon = lambda: None
        self.sender = Sender(self.cluster, TOPIC, self._catch_up)
        self.outcomes: dict[int, Outcome] = {}
        self.wanted = {0: True, 1: True}
        self.readable = {0: True, 1: True}
        self.caught_up: list[int] = []
        self.sent: list[int] = []

    async def _catch_up(self, opened: object, node_id: int, partitions: Any) -> None:
        self.caught_up += partitions
        self.wanted = {0: True, 1: False}
        for partition in partitions:
            if self.readable[partition]:
                self.sender.on_fetched(partition, Fetched(END, END, END, (), node_id, 1, 0))

    def _produced(self, request: ProduceRequest) -> ProduceResponse:
        parts = [each.index for each in request.topic_data[0].partition_data]
        self.sent += parts
        done = [
            PartitionProduceResponse(
                index=each, error_code=self.errors.get(each, ErrorCode.NONE), base_offset=END
            )
            for each in parts
        ]
        return ProduceResponse(responses=[TopicProduceResponse(partition_responses=done)])

    def send(self, partition: int) -> None:
        def done(outcome: Outcome) -> None:
            self.outcomes[partition] = outcome

        self.sender.send(partition, Appending(b"", done, lambda: self.wanted[partition]))

    async def over(self) -> None:
        await until(lambda: all(each.done() for each in self.sender._tasks.values()), "all was sent")


async def test_over_a_new_connection_nothing_is_written_unread() -> None:
    world = World()
    world.readable[0] = False
    world.send(0)
    await world.over()
    assert (world.caught_up, world.sent, world.outcomes) == ([0], [], {0: AppendError.RETRIABLE})
    world.readable[0] = True
    world.send(0)
    await world.over()
    assert (world.caught_up, world.sent, world.outcomes) == ([0, 0], [0], {0: END})
    world.send(0)
    await world.over()
    assert (world.caught_up, world.sent) == ([0, 0], [0, 0]), "it was read since"


async def test_what_is_not_wanted_any_more_is_not_sent() -> None:
    """What was read before it says that the log is another node's."""
    world = World()
    for partition in (0, 1):
        world.send(partition)
    await world.over()
    assert (world.sent, world.outcomes) == ([0], {0: END})


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, AppendError.FENCED),
        (ErrorCode.PRODUCER_FENCED, AppendError.FENCED),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, AppendError.OUT_OF_SEQUENCE),
        (ErrorCode.MESSAGE_TOO_LARGE, AppendError.OUT_OF_SEQUENCE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, AppendError.RETRIABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, AppendError.RETRIABLE),
    ],
)
async def test_each_shard_hears_what_became_of_its_own(error: ErrorCode, outcome: AppendError) -> None:
    world = World()
    world.errors[0] = error
    world.sender.on_fetched(0, Fetched(END, END, END, (), 1, 1, 0))
    world.sender.on_fetched(1, Fetched(END, END, END, (), 1, 1, 0))
    for partition in (0, 1):
        world.send(partition)
    await world.over()
    assert world.outcomes == {0: outcome, 1: END}


async def test_what_an_answer_leaves_out_is_sent_again() -> None:
    world = World()
    world.broker.answers["ProduceRequest"] = lambda _: ProduceResponse(responses=[])
    world.send(0)
    await world.over()
    assert world.outcomes == {0: AppendError.RETRIABLE}


async def test_what_waits_behind_a_request_that_fails_is_tried_for_itself() -> None:
    """What was sent may be there or not; what came meanwhile was not sent."""
    world = World()
    world.sender.on_fetched(0, Fetched(END, END, END, (), 1, 1, 0))
    world.sender.on_fetched(1, Fetched(END, END, END, (), 1, 1, 0))

    def fail_once(request: ProduceRequest) -> ProduceResponse:
        world.broker.answers["ProduceRequest"] = world._produced
        world.send(1)
        raise OSError("reset")

    world.broker.answers["ProduceRequest"] = fail_once
    world.send(0)
    await world.over()
    assert (world.outcomes, world.sent) == ({0: AppendError.RETRIABLE, 1: END}, [1])
