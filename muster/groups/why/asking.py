"""Asks a cluster why a group rebalanced: reads its history and its description, as far as the cluster has them.

A cluster without a history still describes a group that rebalances now. A group that is gone has its history.
Of a store of `muster observe` no cluster is asked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from coordinator.history.events import TOPIC
from coordinator.history.rebalances import REBALANCING
from muster.cluster import Cluster, ClusterError
from muster.groups.admin import partitions_of
from muster.groups.descriptions import DEAD, GroupDescription, describe_members
from muster.groups.history import NO_HISTORY, GroupHistory, read_history
from muster.groups.why.answers import Answer, Question, answer
from muster.groups.why.live import LivingGroup, waiting_from
from muster.groups.why.waiting import Waiting
from muster.groups.why.words import name
from muster.http_api import NoHttp, find_http
from muster.observe.reading import read_stored_history
from muster.observe.store import StoreError

LOOKS_MAX = 3
"""So often history and description are read while the one has a rebalance that is on and the other has not: events
are written a moment later, and the group goes on meanwhile."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer, and sentences about what it leaves out."""

    answer: Answer
    remarks: tuple[str, ...]


async def ask(cluster: Cluster, question: Question, newest: int) -> Answered:
    """The answer by the newest events of the group. Raises ClusterError, also if nothing is known of the group."""
    if not await partitions_of(cluster, [TOPIC]):
        return _without_history(question, await _described(cluster, question.group_id))
    for _ in range(LOOKS_MAX):
        found = await read_history(cluster, question.group_id, newest)
        group = await _described(cluster, question.group_id)
        said = answer(question, found.as_it_happened(), group, is_whole=not found.older)
        if said.is_over is not _is_rebalancing(group):
            break
    if said.waiting is not None:
        living = await _living(cluster, question.group_id)
        said = answer(question, found.as_it_happened(), group, is_whole=not found.older, living=living)
    if said.rebalance is None and not said.since and said.waiting is None:
        raise ClusterError(_nothing_known(question, found, group))
    return Answered(said, tuple(_remarks(found)))


def ask_store(directory: Path, question: Question, newest: int) -> Answered:
    """The answer by the newest events of the group in a store. Raises StoreError, also if it has none."""
    stored = read_stored_history(directory, question.group_id, newest)
    found = stored.history
    is_whole = stored.has_all and not found.older
    said = answer(question, found.as_it_happened(), None, is_whole=is_whole)
    if said.rebalance is None and not said.since:
        what = "begins after that time in" if found.has_events else "is not in"
        raise StoreError(f"the history of group {name(question.group_id)} {what} {directory}")
    return Answered(said, (*stored.remarks(), *_remarks(found)))


async def _living(cluster: Cluster, group_id: str) -> LivingGroup | None:
    """The group as its coordinator says it over HTTP; None where that says nothing. Raises ClusterError."""
    api = await find_http(cluster, await cluster.coordinator(group_id))
    if api is None:
        return None
    try:
        document = await api.get("/api/v1/group", id=group_id)
        waiting_from(document, Waiting(""), 0)  # It is read once more with all that is known.
    except (NoHttp, KeyError, TypeError, ValueError):
        return None
    return LivingGroup(document, time.time_ns() // 1_000_000)


async def _described(cluster: Cluster, group_id: str) -> GroupDescription | None:
    """The group; None if it is not there."""
    group = await describe_members(cluster, group_id)
    return None if group.state == DEAD else group


def _is_rebalancing(group: GroupDescription | None) -> bool:
    return group is not None and group.state in REBALANCING


def _without_history(question: Question, group: GroupDescription | None) -> Answered:
    """What can be said on a cluster that keeps no history: who is waited for, if the group rebalances now."""
    if not _is_rebalancing(group) or question.at_ms is not None:
        is_there = "" if group is not None else f", and there is no group {name(question.group_id)}"
        raise ClusterError(f"{NO_HISTORY}{is_there}")
    return Answered(answer(question, (), group), (NO_HISTORY,))


def _nothing_known(question: Question, found: GroupHistory, group: GroupDescription | None) -> str:
    shown = name(question.group_id)
    if found.has_events:
        return f"the history of group {shown} begins after that time"
    return f"there is no group {shown}" if group is None else f"the history has no events of group {shown}"


def _remarks(found: GroupHistory) -> list[str]:
    said = []
    if found.unreadable:
        said.append(f"{found.unreadable:,} records could not be read as events")
    if found.older:
        said.append(f"{found.older:,} events are older than those that were looked at: see --newest")
    if dropped := sum(event.dropped_count for event in found.events):
        said.append(
            f"{dropped:,} events, of this or other groups, were dropped: what was in them is not known"
        )
    return said
