"""A follower that cannot take a batch forgets what it has and reads anew, not at once; the others are read on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.typing import EventDict

from coordinator.backing.kafka import shard_driver, tail
from coordinator.backing.kafka.cluster import BackingCluster, OpenConnection
from coordinator.backing.kafka.fetched import FetchedBatch
from coordinator.backing.kafka.shard_driver import Ports, ShardDriver
from coordinator.backing.kafka.tail import UNREADABLE_RETRY_MS, UNREADABLE_RETRY_MS_MAX, Tail
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.backing.ownership import Ownership, OwnershipTiming
from coordinator.backing.states import FOLLOWING
from protocol.errors import DecodeError
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.records.batch import BatchProducer, set_base_offset
from protocol.records.records import Record, encode_batch
from tests.backing.kafka_node import Counters
from tests.backing.logged import said

pytestmark = pytest.mark.asyncio

TOPIC = BackingTopic("logs", b"\x01" * 16, 2)
OWNER = BatchProducer(5, 0, 0)  # Whose claim is not in the log any more.
BROKER, SESSION = 7, 42


class Clock:
    def __init__(self) -> None:
        self.ms = 10_000

    def __call__(self) -> int:
        return self.ms


def batch(offset: int, key: str) -> bytes:
    data = encode_batch([Record(key.encode(), b"1", 1)], producer=OWNER)
    set_base_offset(data, offset, 1)
    return bytes(data)


class Log:
    """A partition of two batches, of which one Fetch brings all from its position on."""

    def __init__(self) -> None:
        self.batches = [batch(0, "a"), batch(1, "b")]

    def data(self, partition: int, position: int) -> PartitionData:
        records = b"".join(self.batches[position:])
        return PartitionData(partition_index=partition, high_watermark=len(self.batches), records=records)


class Shard(Counters):
    """Takes all batches but those at the offsets of `untaken`."""

    def __init__(self) -> None:
        super().__init__()
        self.untaken: set[int] = set()
        self.taken: list[int] = []

    def follow(self, batch: FetchedBatch) -> None:
        if batch.header.base_offset in self.untaken:
            raise DecodeError("of a later version")
        super().follow(batch)
        self.taken.append(batch.header.base_offset)


class World:
    """Two shards of one broker, which answers at once."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.logs = {0: Log(), 1: Log()}
        self.shards = {0: Shard(), 1: Shard()}
        sending = SimpleNamespace(on_fetched=lambda *_: None)
        ports = Ports(cast(Any, sending), cast(Any, None), clock, 1)
        self.drivers = {
            partition: ShardDriver(partition, Ownership(1, OwnershipTiming()), shard, ports)
            for partition, shard in self.shards.items()
        }
        self.tail = Tail(cast(BackingCluster, self), TOPIC, self.drivers)
        self.tail._led = {BROKER: [0, 1]}
        self.asked: list[list[int]] = []
        self._positions: dict[int, int] = {}

    def leader_epoch_of(self, _: int) -> int:
        return 1

    def refresh_soon(self) -> None:
        raise AssertionError("who leads what is not in question")

    async def open(self, *_: object) -> object:
        return self

    async def ask_over(self, _: object, request: FetchRequest, **__: object) -> FetchResponse:
        """In a session, or without one for who catches up."""
        named = {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}
        is_session = request.session_epoch >= 0
        positions = self._positions if is_session else {}
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                del positions[partition]
        positions |= named
        self.asked.append(sorted(positions))
        data = [self.logs[each].data(each, position) for each, position in positions.items()]
        session_id = SESSION if is_session else 0
        return FetchResponse(session_id=session_id, responses=[FetchableTopicResponse(partitions=data)])

    async def fetch(self) -> list[int]:
        """One Fetch; the partitions that the broker had to look into."""
        assert await self.tail._fetch(BROKER, self.tail._readable([0, 1]))
        return self.asked[-1]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    clock = Clock()
    for module in (tail, shard_driver):
        monkeypatch.setattr(module, "boot_ms", clock)
    return World(clock)


async def test_a_follower_that_cannot_take_a_batch_begins_anew(world: World, logs: list[EventDict]) -> None:
    """What it took of the batches before it would be taken twice."""
    shard, driver = world.shards[0], world.drivers[0]
    shard.untaken = {1}
    await world.fetch()
    assert (shard.taken, shard.dropped, shard.values, driver.position) == ([0], 1, {}, 0)
    assert driver.ownership.state is FOLLOWING
    assert not driver.was_read
    assert world.shards[1].values == {b"a": b"1", b"b": b"1"}
    reason = "the batch at offset 1 cannot be taken, and all is read anew: DecodeError: of a later version"
    assert said(logs) == [("partition 0", reason)]
    shard.untaken = set()
    world.clock.ms += UNREADABLE_RETRY_MS
    await world.fetch()
    assert (shard.taken, shard.values, driver.position) == ([0, 0, 1], {b"a": b"1", b"b": b"1"}, 2)


async def test_it_is_left_alone_for_longer_and_longer_and_the_others_are_read_on(
    world: World, logs: list[EventDict]
) -> None:
    world.shards[0].untaken = {1}
    pause_ms, paused = UNREADABLE_RETRY_MS, []
    await world.fetch()
    for _ in range(8):
        paused.append(pause_ms)
        world.clock.ms += pause_ms - 1
        assert await world.fetch() == [1]
        world.clock.ms += 1
        assert await world.fetch() == [0, 1]
        pause_ms = min(2 * pause_ms, UNREADABLE_RETRY_MS_MAX)
    assert paused[:3] == [100, 200, 400]
    assert paused[-1] == UNREADABLE_RETRY_MS_MAX
    assert len(said(logs)) == 1, "once"
    world.shards[0].untaken = set()
    world.clock.ms += UNREADABLE_RETRY_MS_MAX
    await world.fetch()
    world.logs[0].batches.append(batch(2, "c"))
    world.shards[0].untaken = {2}
    await world.fetch()
    world.clock.ms += UNREADABLE_RETRY_MS
    assert await world.fetch() == [0, 1], "it begins anew with the shortest"
    assert [about for about, _ in said(logs)] == ["partition 0"]


async def test_what_is_read_on_the_way_there_makes_the_pause_no_shorter(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long log is read in many answers, and each time to the batch that cannot be taken."""
    world.shards[0].untaken = {1}
    batches = world.logs[0].batches

    def one(partition: int, position: int) -> PartitionData:
        return PartitionData(partition_index=partition, high_watermark=2, records=batches[position])

    monkeypatch.setattr(world.logs[0], "data", one)
    for pause_ms in (100, 200, 400):
        await world.fetch()
        await world.fetch()
        world.clock.ms += pause_ms - 1
        assert await world.fetch() == [1]
        world.clock.ms += 1


async def test_what_is_damaged_on_its_way_is_read_again_from_there(
    world: World, logs: list[EventDict]
) -> None:
    """Nothing of it was taken, and what was taken before stays."""
    await world.fetch()
    damaged = bytearray(batch(2, "c"))
    damaged[-1] ^= 1
    world.logs[0].batches.append(bytes(damaged))
    await world.fetch()
    assert (world.drivers[0].position, world.shards[0].dropped) == (2, 0)
    assert said(logs) == [
        ("partition 0", "from offset 2 on: the batch at offset 2 does not have the CRC that it names")
    ]
    assert await world.fetch() == [1]
    world.logs[0].batches[2] = batch(2, "c")
    world.clock.ms += UNREADABLE_RETRY_MS
    await world.fetch()
    assert world.drivers[0].position == 3


async def test_a_broker_whose_partitions_are_all_left_alone_is_not_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Fetch for nothing is answered at once, and so the next."""
    for shard in world.shards.values():
        shard.untaken = {0}
    await world.fetch()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await world.tail._read(BROKER)
    assert (len(world.asked), slept) == (1, [tail.RETRY_S] * 3)


async def test_who_writes_does_not_read_what_is_left_alone(world: World) -> None:
    world.shards[0].untaken = {1}
    await world.fetch()
    opened = OpenConnection(cast(Any, None), 0)
    await world.tail.catch_up(opened, BROKER, [0])
    assert len(world.asked) == 1
    await world.tail.catch_up(opened, BROKER, [0, 1])
    assert world.asked[1:] == [[1]]
