"""What handlers read of the daemon: the parts that know, and a few functions. Nothing here changes any of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.data.broker import Broker
from coordinator.effects import GroupEvent
from coordinator.history.writer import HistoryWriter
from coordinator.metrics.metrics import Metrics
from coordinator.runtime.loop import Runtime
from coordinator.server.server import Server
from coordinator.settings.model import Settings
from coordinator.topics.partition import Partition

Explain = Callable[[str, Sequence[GroupEvent], int], dict[str, Any]]
"""Words for a group's events, as of a time in ms since 1970; composed by the face of the product."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The daemon as handlers see it."""

    settings: Settings
    runtime: Runtime
    broker: Broker
    server: Server
    history: HistoryWriter[Partition]
    metrics: Metrics
    explain: Explain | None = None
