"""All shards of one topic as one node has them: it follows every one, and owns those that it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from coordinator.backing.claims import Endpoint
from coordinator.backing.kafka.cluster import BackingCluster
from coordinator.backing.kafka.epochs import Epochs
from coordinator.backing.kafka.self_test import check_fencing
from coordinator.backing.kafka.sender import Sender
from coordinator.backing.kafka.settings_watch import SettingsWatch
from coordinator.backing.kafka.shard_driver import Ports, ShardDriver, ShardHost
from coordinator.backing.kafka.tail import Tail
from coordinator.backing.kafka.topic import BackingTopic, check_brokers, ensure_topic
from coordinator.backing.kafka.versions import check_versions
from coordinator.backing.ownership import Ownership, OwnershipTiming
from coordinator.runtime.tasks import spawn

PROBE_SUFFIX: Final = "-probe"
"""Of the topic that the self-test writes to."""

log = structlog.get_logger(__name__)


async def prepared_topic(
    cluster: BackingCluster, name: str, partition_count: int, wall_ms: int
) -> BackingTopic:
    """The topic, on a cluster that is new enough and fences. Raises BackingError if either will not do."""
    await check_versions(cluster)
    await check_brokers(cluster)
    probe = await ensure_topic(cluster, name + PROBE_SUFFIX, 1)
    await cluster.follow(probe.name)
    await check_fencing(cluster, probe, wall_ms)
    topic = await ensure_topic(cluster, name, partition_count)
    for warning in topic.warnings:
        log.warning("the topic that has the logs", reason=warning)
    return topic


@dataclass(frozen=True, slots=True)
class OwnNode:
    """This node, as its claims name it."""

    node_id: int
    endpoints: tuple[Endpoint, ...] = ()


class BackingLog:
    """`drivers` has one for each partition. `start` begins to follow; `close` stops without a release."""

    def __init__(
        self,
        cluster: BackingCluster,
        topic: BackingTopic,
        own: OwnNode,
        hosts: Mapping[int, ShardHost],
        wall_ms: Callable[[], int],
        timing: OwnershipTiming | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self.drivers: dict[int, ShardDriver] = {}
        self._tail = Tail(cluster, topic, self.drivers)
        self._sender = Sender(cluster, topic, self._tail.catch_up)
        ports = Ports(self._sender, Epochs(cluster, topic.name), wall_ms, own.node_id, own.endpoints)
        timing = timing or OwnershipTiming()
        for partition, host in hosts.items():
            self.drivers[partition] = ShardDriver(partition, Ownership(own.node_id, timing), host, ports)
        self._settings_watch = SettingsWatch(cluster, topic)
        self._warming: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Follow all partitions."""
        self._cluster.on_refreshed = self._on_refreshed
        await self._cluster.follow(self._topic.name)
        self._settings_watch.start()

    def _on_refreshed(self) -> None:
        self._tail.start()
        self._settings_watch.on_refreshed()
        for node_id in {self._cluster.leader_of(partition) for partition in self.drivers}:
            if node_id is not None:
                task = spawn(self._sender.warm_up(node_id))
                self._warming.add(task)
                task.add_done_callback(self._warming.discard)

    async def close(self) -> None:
        """Do nothing more: what is on its way has an outcome that this node never learns."""
        self._cluster.on_refreshed = lambda: None
        await self._settings_watch.close()
        for task in self._warming:
            task.cancel()
        await asyncio.gather(*self._warming, return_exceptions=True)
        for driver in self.drivers.values():
            await driver.close()
        await self._tail.close()
        await self._sender.close()
