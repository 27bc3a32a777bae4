"""The log line of each rebalance that has ended, and the warnings of storms and of members that were nearly lost.

Their fields are named as those of `__group_events` are, and times as in the table `rebalances`. A storm ends
thousands of rebalances, and ids have up to 32 KB: so lines are few, and long ids are cut as in labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from coordinator.history.rebalances import Rebalance
from coordinator.metrics.bounded_log import BoundedLog
from coordinator.metrics.rebalance_counts import STORM_MS, STORM_REBALANCES, GroupCounts
from coordinator.metrics.text import cut

LINES_PER_SECOND: Final = 5

LOW_MARGIN: Final = 0.1
"""The share of its session from which on down a member was nearly lost."""

log = structlog.get_logger("muster.groups")


class RebalanceLog:
    """Writes the lines, each kind at most LINES_PER_SECOND times a second."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._ended = BoundedLog(log.info, now_ms, LINES_PER_SECOND)
        self._storms = BoundedLog(log.warning, now_ms, LINES_PER_SECOND)
        self._margins = BoundedLog(log.warning, now_ms, LINES_PER_SECOND)

    def on_ended(self, rebalance: Rebalance, counts: GroupCounts) -> None:
        """Write the line of a rebalance, and the warning if it is one too many."""
        self._ended.write("group rebalanced", lambda: _fields(rebalance))
        if counts.takes_storm():
            self._storms.write("group rebalances again and again", lambda: _storm_fields(rebalance, counts))

    def on_low_margin(self, group_id: str, margin: float) -> None:
        """Warn of a group of which a member was heard with less than LOW_MARGIN of its session left."""
        self._margins.write(
            "a member was nearly lost: little was left of its session when it was heard",
            lambda: {"group_id": cut(group_id), "margin": round(margin, 3)},
        )


def _fields(rebalance: Rebalance) -> dict[str, Any]:
    return {
        "group_id": cut(rebalance.group_id),
        "generation_id": rebalance.generation_id,
        "rebalance_cause": rebalance.cause,
        "client_id": _cut(rebalance.client_id),
        "duration_ms": rebalance.duration_ms,
        "join_ms": rebalance.join_ms,
        "last_client_id": _cut(rebalance.last_client_id),
    }


def _storm_fields(rebalance: Rebalance, counts: GroupCounts) -> dict[str, Any]:
    return {
        "group_id": cut(rebalance.group_id),
        "rebalances": STORM_REBALANCES,
        "within_s": STORM_MS // 1000,
        "rebalance_cause": counts.last_cause,
        "client_id": _cut(rebalance.client_id),
    }


def _cut(client_id: str | None) -> str | None:
    return None if client_id is None else cut(client_id)
