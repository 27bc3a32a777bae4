"""The log line of each rebalance that has ended, and the warnings of storms and of members that were nearly lost.

Their fields are named as those of `__group_events` are. At a bounded rate: a storm ends thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from coordinator.history.rebalances import Rebalance
from coordinator.metrics.bounded_log import BoundedLog
from coordinator.metrics.rebalance_counts import STORM_MS, STORM_REBALANCES, GroupCounts

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
            lambda: {"group": group_id, "margin": round(margin, 3)},
        )


def _fields(rebalance: Rebalance) -> dict[str, Any]:
    return {
        "group": rebalance.group_id,
        "generation": rebalance.generation_id,
        "cause": rebalance.cause,
        "client": rebalance.client_id,
        "took_ms": rebalance.duration_ms,
        "joining_ms": rebalance.join_ms,
        "waited_for": rebalance.last_client_id,
    }


def _storm_fields(rebalance: Rebalance, counts: GroupCounts) -> dict[str, Any]:
    return {
        "group": rebalance.group_id,
        "rebalances": STORM_REBALANCES,
        "within_s": STORM_MS // 1000,
        "last_cause": counts.last_cause,
        "client": rebalance.client_id,
    }
