"""What handlers read of the daemon: the parts that know, and a few functions. Nothing here changes any of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from coordinator.data.broker import Broker
from coordinator.history.events import History
from coordinator.http.explained import Explain
from coordinator.metrics.metrics import Metrics
from coordinator.runtime.loop import Runtime
from coordinator.server.server import Server
from coordinator.settings.model import Settings
from coordinator.topics.partition import Partition
from coordinator.topics.workers import Workers


@dataclass(frozen=True, slots=True)
class Data:
    """Where topics are kept here: what is read of them, and the events of groups as a log that can be followed."""

    broker: Broker
    events: Partition


class Nodes(Protocol):
    """One of several nodes: what it knows of itself and the others."""

    def page(self) -> dict[str, Any]:
        """The nodes, and for each shard whose it is and how far this node is with it."""
        ...

    def not_ready(self) -> Iterable[str]:
        """What this node is to serve and does not yet, in words."""
        ...

    def place_of(self, partition: int) -> str:
        """Where a shard is that is not here, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Sources:
    """The daemon as handlers see it; `data` is None where topics are elsewhere, `nodes` where it is alone."""

    settings: Settings
    runtime: Runtime
    server: Server
    metrics: Metrics
    history: History
    readers: Workers
    topic_name: Callable[[bytes], str | None]
    explain: Explain | None = None
    data: Data | None = None
    nodes: Nodes | None = None
