"""What a node is given of the cluster that has its logs: how to connect, and what was found there at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator.backing.kafka.cluster import BackingCluster
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.daemon.gateway import Behind


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
