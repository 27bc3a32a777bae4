"""What counts from when it was sent, how a batch is sent, what counts as read: on a cluster that is played."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from coordinator.backing import events
from coordinator.backing.claims import Writer
from coordinator.backing.kafka import shard_driver, tail
from coordinator.backing.kafka.cluster import BackingCluster, OpenConnection
from coordinator.backing.kafka.fetched import Fetched
from coordinator.backing.kafka.sender import Appending, Sender, produce_request
from coordinator.backing.kafka.shard_driver import Ports, ShardDriver
from coordinator.backing.kafka.tail import Tail
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.backing.ownership import Ownership, OwnershipTiming
from coordinator.backing.states import FOLLOWING
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.backing.kafka_node import Counters

pytestmark = pytest.mark.asyncio

TOPIC = BackingTopic("muster", b"\x01" * 16, 1)
ASKED_MS, TOOK_MS = 1_000, 5_000


class Clock:
    """The clock of a machine that stands still while an answer is on its way."""

    def __init__(self) -> None:
        self.ms = ASKED_MS

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (tail, shard_driver):
        monkeypatch.setattr(module, "boot_ms", clock)
    return clock


class Follower:
    """Keeps what it is given."""

    position = 0

    def __init__(self) -> None:
        self.given: list[Fetched] = []

    def heeds_silence(self, now_ms: int) -> bool:
        return True

    def on_fetched(self, fetched: Fetched) -> None:
        self.given.append(fetched)

    def on_position_gone(self, log_start_offset: int, high_watermark: int) -> None:
        raise AssertionError


async def test_a_fetch_proves_what_was_when_it_was_sent(clock: Clock) -> None:
    follower = Follower()

    class Cluster:
        def leader_epoch_of(self, _: int) -> int:
            return 5

        async def ask_over(self, *_: object, **__: object) -> FetchResponse:
            clock.ms += TOOK_MS
            data = PartitionData(partition_index=0, high_watermark=0)
            return FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])

    reader = Tail(cast(BackingCluster, Cluster()), TOPIC, {0: follower})
    await reader.catch_up(cast(OpenConnection, None), 7, [0])
    assert [(each.sent_ms, each.node_id, each.leader_epoch) for each in follower.given] == [(ASKED_MS, 7, 5)]


async def test_a_fetch_names_the_epoch_of_the_leader_that_it_means(clock: Clock) -> None:
    """A broker that leads in another refuses it."""
    asked: list[Any] = []

    class Cluster:
        def leader_epoch_of(self, _: int) -> int:
            return 5

        async def ask_over(self, _: object, request: Any, **__: object) -> FetchResponse:
            asked.append(request.topics[0].partitions[0].current_leader_epoch)
            return FetchResponse(responses=[])

    reader = Tail(cast(BackingCluster, Cluster()), TOPIC, {0: Follower()})
    await reader.catch_up(cast(OpenConnection, None), 7, [0])
    assert asked == [5]


async def test_an_append_proves_what_was_when_it_was_sent(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Appending] = []

    class Sending:
        def send(self, _: int, batch: Appending) -> None:
            sent.append(batch)

    ownership = Ownership(1, OwnershipTiming())
    driver = ShardDriver(0, ownership, Counters(), Ports(cast(Any, Sending()), cast(Any, None), clock, 1))
    heard: list[Any] = []
    monkeypatch.setattr(driver, "_handle", heard.append)
    batch = events.OutgoingBatch(3, Writer(1, 0), 0, 1, bytearray(100))
    monkeypatch.setattr(driver, "_bytes_of", lambda _: b"")
    driver._send(events.Send(batch, clock()))
    clock.ms += TOOK_MS
    sent[0].done(17)
    assert heard == [events.Appended(3, 17, ASKED_MS)]


async def test_a_batch_is_acknowledged_by_all_replicas() -> None:
    assert produce_request(TOPIC, {0: b""}).acks == -1


@pytest.mark.parametrize(("next_offset", "is_read"), [(9, False), (10, True)])
async def test_a_partition_is_read_when_it_is_read_to_its_end(next_offset: int, is_read: bool) -> None:
    """A batch goes out over a new connection only then."""
    sender = Sender(cast(BackingCluster, None), TOPIC, cast(Any, None))
    sender.on_fetched(0, Fetched(0, next_offset, 10, (), 7, ASKED_MS, 0))
    opened = OpenConnection(cast(Any, None), ASKED_MS - 1)
    assert sender._is_read(0, 7, opened) is is_read


async def test_what_is_closed_sends_nothing() -> None:
    class Cluster:
        def leader_of(self, _: int) -> int:
            raise AssertionError("nobody asks")

    sender = Sender(cast(BackingCluster, Cluster()), TOPIC, cast(Any, None))
    await sender.close()
    sender.send(0, Appending(b"", lambda _: None, lambda: True))
    await asyncio.sleep(0)


async def test_a_closed_driver_hears_nothing(clock: Clock) -> None:
    """An answer that comes yet would have it go on, and claim for a node that is no more."""

    class Sending:
        def on_fetched(self, *_: object) -> None:
            """It was read."""

    driver = ShardDriver(
        0, Ownership(1, OwnershipTiming()), Counters(), Ports(cast(Any, Sending()), cast(Any, None), clock, 1)
    )
    driver.on_fetched(Fetched(0, 0, 0, (), 7, ASKED_MS, 0))
    await driver.close()
    driver.advise(True)
    assert driver.ownership.state is FOLLOWING
    assert driver._timer is None
