"""A node with real shards of groups, whose logs are on a real Kafka. Requests are plain calls on its runners."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any, cast

from coordinator.backing.kafka.backing_log import BackingLog, OwnNode
from coordinator.backing.kafka.cluster import BackingCluster
from coordinator.backing.kafka.shard_driver import ShardDriver
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.backing.shards.backed_log import BackedLog, Room
from coordinator.backing.shards.backed_shard import BackedFlusher, BackedShard
from coordinator.backing.states import ACTIVE
from coordinator.effects import RequestContext
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.partitioning import partition_for
from coordinator.runtime.clock import Clock
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.loop import Runtime
from coordinator.shard.shard import Shard
from harness.doubles.topics import Topics
from protocol.records.records import Codec
from storage.log.durable_log import DurableLog
from tests.backing.kafka_node import TIMING, MortalNode, until

SETTINGS = GroupSettings(group_initial_rebalance_delay_ms=0)
MAX_BATCH_BYTES = 1 << 20
COMMIT_TIMEOUT_MS = 5_000
ANSWER_TIMEOUT_S = 60.0
PATIENT = replace(TIMING, lease_ms=6_000)
"""A busy machine stands still for a second now and then, and an owner without a proof is none."""


class _Asker:
    """What a request is answered through."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def reply(self, response: Any) -> None:
        self.answer.set_result(response)


class GroupsNode(MortalNode):
    """A node of groups."""

    def __init__(self, bootstrap: str, topic: BackingTopic, node_id: int) -> None:
        self.cluster = BackingCluster(bootstrap)
        self.topics = Topics(orders=4)
        flusher = BackedFlusher()
        self.runtime = Runtime(Clock(), cast(Any, flusher), lambda _: None, 1 << 20)
        self.shards: dict[int, BackedShard] = {}
        room = Room()
        for partition in range(topic.partition_count):
            log = BackedLog(f"{topic.name}-{partition}", self._sending(partition), room)
            shard = BackedShard(self._new_runner(partition, log), log, self.runtime)
            flusher.hosts[log] = self.shards[partition] = shard
        self.log = BackingLog(
            self.cluster, topic, OwnNode(node_id), self.shards, self.runtime.wall_ms, PATIENT
        )
        self.drivers = self.log.drivers
        for partition, shard in self.shards.items():
            shard.attach(self.drivers[partition])
            shard.runner.release()
        self.runtime.open_shards([shard.runner for shard in self.shards.values()])

    def _sending(self, partition: int) -> Any:
        return lambda batch, record_count: self.drivers[partition].write(batch, record_count)

    def _new_runner(self, partition: int, log: BackedLog) -> GroupRunner:
        return GroupRunner(
            group_shards(lambda number: Shard(number, SETTINGS, self.topics)),
            partition,
            DurableLog(cast(Any, log), self.runtime.log_host),
            self.runtime,
            max_batch_bytes=MAX_BATCH_BYTES,
            codec=Codec.NONE,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
        )

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        self.runtime.stop()

    def driver_of(self, group_id: str) -> ShardDriver:
        return self.drivers[partition_for(group_id, len(self.drivers))]

    def runner_of(self, group_id: str) -> GroupRunner:
        return self.runtime.runner_for(group_id)

    async def own(self, group_id: str) -> None:
        """Be told to own a group's shard, and wait until it does."""
        driver = self.driver_of(group_id)
        driver.advise(True)
        await until(lambda: driver.ownership.state is ACTIVE, "it owns the shard")

    async def ask(self, request: Any, version: int) -> Any:
        """A request to the coordinator of its group, and the answer."""
        asker = _Asker()
        context = RequestContext(asker, version, "client", "/127.0.0.1", uuid.uuid4().hex[:22])
        self.runner_of(request.group_id).request(request, context)
        return await asyncio.wait_for(asker.answer, ANSWER_TIMEOUT_S)
