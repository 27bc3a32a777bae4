"""Muster as a node whose log is on an Apache Kafka of its own, in the place of the embedded daemon.

The node is a gateway: it has the groups, and the leaders of partitions are at another port of it. A restart is
the end of the node, not of its Kafka: another one, with an id and an empty disk of its own, then takes what it had
out of the log. It has the addresses of the first, so that scripts know where to look for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.processes import HOST, free_port
from tests.conformance.targets import CONFIGURATIONS, HEAP, MUSTER, NODE_ID, Target

ON_KAFKA: Final = "muster-on-kafka"
NODE_ID_BASE: Final = 1_000_000
"""What `muster.node.id.base` is by default."""
OFFSETS_TOPIC: Final = "__muster_offsets"
NOT_BEHIND: Final = ("transactional.id.expiration.ms",)
"""What the Kafka behind has by its default: a node gets the epochs of its shards by transactional ids, which must
not be forgotten (B7)."""


class Node(MusterDaemon):
    """A node whose log is on the Kafka at `behind`; each start is that of a node with another id."""

    def __init__(self, folder: Path, config: Mapping[str, str], behind: str) -> None:
        self.leaders_port = free_port()
        self.node_id = 0
        given = {
            **config,
            "muster.backing.bootstrap.servers": behind,
            "muster.clients": "gateway",
            "muster.gateway.first.port": str(self.leaders_port - NODE_ID),
            "muster.topic.deletion.confirm.ms": "500",
        }
        super().__init__(folder, given)

    def start(self) -> Self:
        self.node_id += 1
        self.overrides["node.id"] = str(self.node_id)
        self.overrides["log.dirs"] = str(self.log_dir)
        return super().start()

    @property
    def log_dir(self) -> Path:
        """That of this node, and of none before it."""
        return self.data_dir / f"logs-{self.node_id}"

    @property
    def leaders(self) -> str:
        """Where clients find the leaders of partitions."""
        return f"{HOST}:{self.leaders_port}"


@dataclass
class NodeTarget(Target):
    """One node at a time, before a Kafka of the same configuration; ready when it serves all groups."""

    kafka: KafkaBroker = field(kw_only=True)

    @property
    def node(self) -> Node:
        assert isinstance(self.server, Node)
        return self.server

    @property
    def leaders(self) -> str:
        return self.node.leaders

    @property
    def offsets_topic(self) -> str:
        return OFFSETS_TOPIC

    @property
    def node_ids(self) -> dict[str, Collection[int]]:
        nodes = range(NODE_ID_BASE + 1, NODE_ID_BASE + 1 + self.node.node_id)
        return {self.bootstrap: nodes, self.leaders: (NODE_ID,)}

    @property
    def version(self) -> str:
        return "Muster, this checkout, as a node with its log on another Kafka"

    async def start(self) -> None:
        await asyncio.to_thread(self.kafka.start)
        await super().start()

    def kill(self) -> None:
        super().kill()
        self.kafka.kill()


def node_target(configuration: str, data_dir: Path) -> NodeTarget:
    """A target that is not started yet."""
    config = CONFIGURATIONS[configuration]
    behind = {name: value for name, value in config.items() if name not in NOT_BEHIND}
    kafka = KafkaBroker(data_dir / f"behind-{configuration}", behind, heap=HEAP)
    node = Node(data_dir / f"node-{configuration}", config, kafka.bootstrap)
    return NodeTarget(MUSTER, configuration, node, kafka=kafka)
