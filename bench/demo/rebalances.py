"""A group's history, read as rebalances: what `muster groups history` shows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from coordinator.effects import GroupEvent
from coordinator.history.rebalances import Rebalance
from muster.cluster import connected
from muster.groups.history import read_history
from muster.groups.rebalance_views import rebalance_views


def rebalances(events: Iterable[GroupEvent]) -> list[Rebalance]:
    """The rebalances in a group's events, oldest first; one that another cause restarts is still the same one."""
    return [view.rebalance for view in rebalance_views(events) if view.rebalance is not None]


def read_events(bootstrap: str, group_id: str) -> list[GroupEvent]:
    """The group's events from Muster's topic of them, in order. Raises ClusterError where there is none."""

    async def read() -> list[GroupEvent]:
        async with connected(bootstrap) as cluster:
            return (await read_history(cluster, group_id)).as_it_happened()

    return asyncio.run(read())
