"""Checks where a client wants replicas placed: only this node can have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coordinator.topics.settings import TopicSettings

CORDONED: Final = "All brokers are currently fenced, or have all their log directories cordoned."


def placement_problem(settings: TopicSettings) -> str | None:
    """Return why the daemon cannot place a replica (INVALID_REPLICATION_FACTOR); None if it can.

    A cordoned log directory (`cordoned.log.dirs`) takes only replicas that a client assigns to this node.
    """
    return CORDONED if settings.cordoned_log_dirs else None


def assignment_problem(broker_ids: Sequence[int], node_id: int) -> str | None:
    """Return why replicas cannot be on `broker_ids` (INVALID_REPLICA_ASSIGNMENT); None if they can."""
    if not broker_ids:
        return "The manual partition assignment includes an empty replica list."
    for broker_id in broker_ids:
        if broker_id != node_id:
            return (
                f"The manual partition assignment includes broker {broker_id}, "
                "but no such broker is registered."
            )
    if len(broker_ids) > 1:
        return f"The manual partition assignment includes the broker {node_id} more than once."
    return None
