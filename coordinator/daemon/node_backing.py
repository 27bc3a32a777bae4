"""What a node is given of the cluster that has its logs: how to connect, and what was found there at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from coordinator.backing.kafka.backing_log import prepared_topic
from coordinator.backing.kafka.cluster import BackingCluster, BackingError
from coordinator.backing.kafka.library_log import quieten_aiokafka
from coordinator.backing.kafka.topic import LARGEST_BATCH, BackingTopic
from coordinator.daemon.gateway import Behind
from coordinator.runtime.clock import Clock
from coordinator.settings.backing import PREFIX
from coordinator.settings.model import Settings

log = structlog.get_logger("muster.node")


@dataclass(frozen=True, slots=True)
class BackingClient:
    """How to connect to the cluster that has the logs."""

    bootstrap: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """aiokafka's, for TLS and SASL."""


@dataclass(frozen=True, slots=True)
class Backing:
    """The cluster that has the logs; it has started."""

    client: BackingClient
    cluster: BackingCluster
    topic: BackingTopic
    behind: Behind | None = None
    """What a gateway goes by; None: clients are sent here by others."""

    @property
    def of_log(self) -> tuple[BackingClient, BackingCluster, BackingTopic]:
        """What those need who follow the logs."""
        return self.client, self.cluster, self.topic


async def prepared(cluster: BackingCluster, settings: Settings) -> BackingTopic:
    """The topic of the logs, on a cluster that will do. Raises BackingError."""
    quieten_aiokafka()
    await cluster.start()
    if cluster.node_ids[-1] >= settings.muster_node_id_base:
        raise BackingError(
            f"broker {cluster.node_ids[-1]} of {PREFIX}bootstrap.servers has an id of ours: "
            f"muster.node.id.base={settings.muster_node_id_base} has to be above all ids of brokers"
        )
    wall_ms = Clock().wall_ms()
    topic = await prepared_topic(
        cluster, settings.muster_offsets_topic, settings.offsets_topic_num_partitions, wall_ms
    )
    if (bound_bytes := largest_batch_bytes(settings, topic)) < settings.message_max_bytes:
        log.warning(
            "the size of batches",
            reason=f"message.max.bytes={settings.message_max_bytes} of this node is more than topic {topic.name} "
            f"takes by its {LARGEST_BATCH}: what a group writes at once is refused beyond {bound_bytes} bytes",
        )
    return topic


def largest_batch_bytes(settings: Settings, topic: BackingTopic) -> int:
    """What a shard may write at once: what is larger is refused before it is written, and loses no shard."""
    return min(settings.message_max_bytes, topic.max_batch_bytes)
