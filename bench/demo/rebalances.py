"""A group's history, read as rebalances: each with its cause, and how long its two phases took."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.effects import GroupEvent
from muster.cluster import connected
from muster.groups.history import read_history

JOINING, SYNCING = "PreparingRebalance", "CompletingRebalance"


@dataclass(slots=True)
class Rebalance:
    """One rebalance. `generation_id` and `members` are those of its outcome, None until it has one."""

    cause: str
    client_id: str | None
    member_id: str | None
    generation_id: int | None = None
    members: int | None = None
    joining_ms: int = 0
    syncing_ms: int = 0
    outcome: str = "under way"


def rebalances(events: Iterable[GroupEvent]) -> list[Rebalance]:
    """The rebalances in a group's events, oldest first. One that another cause cut short counts by itself."""
    found: list[Rebalance] = []
    for event in events:
        if event.from_state == event.to_state:
            continue  # A member that came or went while the group was rebalancing anyway.
        if event.from_state in (JOINING, SYNCING) and found:
            _advance(found[-1], event)
        if event.to_state == JOINING:
            found.append(Rebalance(event.reason, event.client_id, event.member_id))
    return found


def _advance(rebalance: Rebalance, event: GroupEvent) -> None:
    rebalance.joining_ms += event.phase_ms.get(JOINING, 0)
    rebalance.syncing_ms += event.phase_ms.get(SYNCING, 0)
    if event.to_state != JOINING:
        rebalance.generation_id, rebalance.members = event.generation_id, event.member_count
    rebalance.outcome = "cut short" if event.to_state == JOINING else event.to_state


def read_events(bootstrap: str, group_id: str) -> tuple[GroupEvent, ...]:
    """The group's events from Muster's topic of them. Raises ClusterError where there is none."""

    async def read() -> tuple[GroupEvent, ...]:
        async with connected(bootstrap) as cluster:
            return tuple((await read_history(cluster, bootstrap, group_id)).by_time())

    return asyncio.run(read())
