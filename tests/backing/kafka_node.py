"""A node whose shards are counters, with its log on a real Kafka: `coordinator.backing.kafka` without groups."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Self

from coordinator.backing.claims import Endpoint
from coordinator.backing.kafka.backing_log import BackingLog, OwnNode
from coordinator.backing.kafka.cluster import BackingCluster
from coordinator.backing.kafka.fetched import FetchedBatch
from coordinator.backing.kafka.shard_driver import ShardDriver
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.backing.ownership import OwnershipTiming
from coordinator.backing.states import ACTIVE
from protocol.records.records import Record, encode_batch

TIMING = OwnershipTiming(lease_ms=1_500, patience_ms=200, reclaim_ms=60_000)
DEADLINE_S = float(os.environ.get("MUSTER_PATIENCE_S", "90"))
"""A mutant is tried with less, as it is waited for in vain."""
PARTITIONS = 3


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def own_node(node_id: int) -> OwnNode:
    return OwnNode(node_id, (Endpoint("PLAINTEXT", f"node-{node_id}", 9_000 + node_id),))


class Counters:
    """A shard: the newest value of each key; what was acknowledged, and what was refused."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.acknowledged: list[tuple[bytes, bytes]] = []
        self.refused: list[tuple[bytes, bytes]] = []
        self.served = 0
        self.dropped = 0
        self.retired = 0
        self.healed: list[bytes] = []
        self._on_their_way: dict[int, list[tuple[bytes, bytes]]] = {}

    def follow(self, batch: FetchedBatch) -> None:
        for record in batch.records():
            assert record.key is not None
            assert record.value is not None
            self.values[record.key] = record.value

    def serve(self) -> None:
        self.served += 1

    def retire(self) -> None:
        self.retired += 1

    def written(self, number: int, end_offset: int) -> None:
        del end_offset
        self.acknowledged += self._on_their_way.pop(number)

    def heal(self, keys: Collection[bytes]) -> None:
        self.healed += keys

    def after_event(self) -> None:
        """Nothing waits here."""

    def drop(self) -> None:
        for pairs in self._on_their_way.values():
            self.refused += pairs
        self._on_their_way.clear()
        self.values.clear()
        self.dropped += 1

    def write(self, driver: ShardDriver, **values: str) -> None:
        """Append these, in one batch."""
        pairs = [(key.encode(), value.encode()) for key, value in values.items()]
        batch = encode_batch([Record(key, value, wall_ms()) for key, value in pairs])
        number = driver.write(batch, len(pairs))
        self._on_their_way[number] = pairs
        self.values.update(pairs)


@asynccontextmanager
async def running_cluster(
    bootstrap: str, cluster: BackingCluster | None = None
) -> AsyncIterator[BackingCluster]:
    """A cluster that is started, and closed at the end; a plain one unless another is given."""
    cluster = cluster or BackingCluster(bootstrap)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.close()


class MortalNode:
    """`async with` starts and kills it: nothing is released."""

    cluster: BackingCluster
    log: BackingLog

    async def __aenter__(self) -> Self:
        await self.cluster.start()
        await self.log.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.log.close()
        await self.cluster.close()


class KafkaNode(MortalNode):
    """A node of counters."""

    def __init__(
        self, bootstrap: str, topic: BackingTopic, node_id: int, timing: OwnershipTiming = TIMING
    ) -> None:
        self.cluster = BackingCluster(bootstrap)
        self.shards = {partition: Counters() for partition in range(topic.partition_count)}
        self.log = BackingLog(self.cluster, topic, own_node(node_id), self.shards, wall_ms, timing)
        self.drivers = self.log.drivers

    async def own(self, partition: int = 0) -> None:
        """Be told to own a shard, and wait until it does."""
        self.drivers[partition].advise(True)
        await until(lambda: self.drivers[partition].ownership.state is ACTIVE, "it owns the shard")

    async def commit(self, partition: int = 0, **values: str) -> None:
        """Write, and wait until that is acknowledged."""
        driver, shard = self.drivers[partition], self.shards[partition]
        await until(lambda: driver.can_write, "it may write")
        before = len(shard.acknowledged)
        shard.write(driver, **values)
        await until(lambda: len(shard.acknowledged) > before, "it is acknowledged")


async def stop_reading(log: BackingLog) -> None:
    """The node hears nothing of what others write from now on, as if the cluster did not let it read."""
    log._cluster.on_refreshed = lambda: None
    await log._tail.close()


def read_again(log: BackingLog) -> None:
    log._cluster.on_refreshed = log._on_refreshed
    log._tail.start()


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s, f"not in {DEADLINE_S:g} s: {what}"
        await asyncio.sleep(0.005)
