"""Who commits what, and when: the offset commits of one slice of time, for many groups at once, in arrays.

A lane is one partition that a group reads, dealt to the members as `clients.assignments_of` deals them. A member
commits its lanes in its own beat, which begins again with every generation, while the group is Stable. Where it
stands follows from what has been produced (`production`), how far behind it commits, and how fast it can read:

    position(t) = min(log end(t - latency), position(begin) + capacity * time it could read since)

so a group that was stopped falls behind, and catches up as fast as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tools.simulate.clients import GroupPlan
from tools.simulate.population import DEAD, Floats, Groups, Ints, Topics
from tools.simulate.production import DAILY_SWING, GOLDEN, log_ends, partition_rates

CAPACITY_MIN_PER_SECOND: Final = 5.0


@dataclass(frozen=True, slots=True)
class Commits:
    """Offset commits of one slice of time, ordered by lane and then by time."""

    lanes: Ints
    times_ms: Ints
    offsets: Ints


@dataclass(slots=True)
class Lanes:
    """All lanes of some groups. Each array has one entry per lane; `start_ms` is the begin of the history."""

    plans: list[GroupPlan]
    start_ms: int
    plan: Ints  # Index into `plans`.
    rank: Ints  # Number of the lane within its group.
    topic: Ints
    partition: Ints
    rates: Floats
    peak_hours: Floats
    capacity: Floats  # Records per second.
    latency_ms: Ints
    interval_ms: Ints
    changed_only: NDArray[np.bool_]
    position: Ints
    committed: Ints  # The offset committed last; -1 if none.


def new_lanes(plans: Sequence[GroupPlan], groups: Groups, topics: Topics, start_ms: int) -> Lanes:
    """The lanes of `plans`, each at the position of a group that keeps up at `start_ms`."""
    owners, ranks, numbers, partitions = _lane_columns(plans, groups, topics)
    of_group = np.array([plan.number for plan in plans], np.int64)[owners]
    rates = partition_rates(topics, numbers, partitions)
    latency_ms = groups.latency_ms[of_group]
    peaks = topics.peak_hours[numbers]
    capacity = np.maximum(groups.capacity[of_group] * rates, 0)
    keeps_up = groups.capacity[of_group] > 1
    capacity[keeps_up] = np.maximum(capacity[keeps_up], rates[keeps_up] * (1.1 + DAILY_SWING))
    capacity[keeps_up] += CAPACITY_MIN_PER_SECOND
    return Lanes(
        plans=list(plans),
        start_ms=start_ms,
        plan=owners,
        rank=ranks,
        topic=numbers,
        partition=partitions,
        rates=rates,
        peak_hours=peaks,
        capacity=capacity,
        latency_ms=latency_ms,
        interval_ms=groups.interval_ms[of_group],
        changed_only=groups.changed_only[of_group],
        position=log_ends(rates, peaks, start_ms - latency_ms, start_ms),
        committed=np.full(len(owners), -1, np.int64),
    )


def _lane_columns(
    plans: Sequence[GroupPlan], groups: Groups, topics: Topics
) -> tuple[Ints, Ints, Ints, Ints]:
    """For each lane its index in `plans`, its rank in the group, its topic and its partition."""
    owners: list[int] = []
    ranks: list[int] = []
    numbers: list[int] = []
    partitions: list[int] = []
    for index, plan in enumerate(plans):
        rank = 0
        for topic in groups.topics[plan.number]:
            count = int(topics.partitions[topic])
            owners += [index] * count
            ranks += range(rank, rank + count)
            numbers += [topic] * count
            partitions += range(count)
            rank += count
    return _ints(owners), _ints(ranks), _ints(numbers), _ints(partitions)


def _ints(column: list[int]) -> Ints:
    return np.array(column, np.int64)


class Consumption:
    """Computes the commits of one slice of time after the other, once its group events are simulated."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        for plan in lanes.plans:
            plan.turns = []

    def commits(self, begin_ms: int, end_ms: int) -> Commits:
        """The commits in [begin_ms, end_ms); the group events of that time must have been simulated already."""
        lanes = self.lanes
        if not lanes.plans:
            nothing = np.zeros(0, np.int64)
            return Commits(nothing, nothing, nothing)
        activity = [_activity(plan, begin_ms, end_ms) for plan in lanes.plans]
        shares = np.array([share for share, _ in activity])[lanes.plan]
        found, times_ms = self._ticks(begin_ms, end_ms)
        allowed = _is_allowed(lanes.plan[found], times_ms, [spans for _, spans in activity])
        found, times_ms = found[allowed], times_ms[allowed]
        offsets = self._positions(found, times_ms, begin_ms, shares)
        everything = np.arange(len(lanes.plan))
        lanes.position = self._positions(everything, np.full(len(everything), end_ms), begin_ms, shares)
        return self._without_unmoved(Commits(found, times_ms, offsets))

    def _ticks(self, begin_ms: int, end_ms: int) -> tuple[Ints, Ints]:
        """The lane and the time of each commit that is due in the slice, lane by lane."""
        lanes = self.lanes
        interval_ms = lanes.interval_ms
        members = np.array([max(plan.member_count, 1) for plan in lanes.plans], np.int64)[lanes.plan]
        generations = np.array([plan.generation_id for plan in lanes.plans], np.int64)[lanes.plan]
        member = lanes.rank % members
        phase_ms = ((generations * 31 + member * 7 + lanes.plan) * GOLDEN % 1.0 * interval_ms).astype(
            np.int64
        )
        first = -((phase_ms - begin_ms) // interval_ms)  # The first one at or after `begin_ms`.
        counts = np.maximum(-((phase_ms - end_ms) // interval_ms) - first, 0)
        counts[np.array([plan.kind == DEAD for plan in lanes.plans])[lanes.plan]] = 0
        found = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(found)) - np.repeat(np.cumsum(counts) - counts, counts)
        return found, phase_ms[found] + (first[found] + number) * interval_ms[found]

    def _positions(self, found: Ints, times_ms: Ints, begin_ms: int, shares: Floats) -> Ints:
        lanes = self.lanes
        rates, peaks = lanes.rates[found], lanes.peak_hours[found]
        there = log_ends(rates, peaks, times_ms - lanes.latency_ms[found], lanes.start_ms)
        read = lanes.capacity[found] * shares[found] * (times_ms - begin_ms) / 1_000.0
        position: Ints = lanes.position[found]
        return np.maximum(np.minimum(there, position + read.astype(np.int64)), position)

    def _without_unmoved(self, commits: Commits) -> Commits:
        """The commits without unchanged offsets of the clients that commit only offsets which changed."""
        lanes, found, offsets = self.lanes, commits.lanes, commits.offsets
        if not len(found):
            return commits
        is_first = np.concatenate(([True], found[1:] != found[:-1]))
        before = np.where(is_first, lanes.committed[found], np.concatenate(([0], offsets[:-1])))
        kept = ~lanes.changed_only[found] | (before != offsets)
        is_last = np.concatenate((is_first[1:], [True]))
        lanes.committed[found[is_last]] = offsets[is_last]
        return Commits(found[kept], commits.times_ms[kept], offsets[kept])


def _activity(plan: GroupPlan, begin_ms: int, end_ms: int) -> tuple[float, list[tuple[int, int]] | None]:
    """The share of the slice in which the group could read, and its Stable spans; None if always Stable."""
    turns = plan.turns or []
    able = 0.0 if plan.is_stalled else 1.0
    if not turns:
        return (able, None) if plan.is_consuming else (0.0, [])
    spans, since_ms = [], begin_ms if not turns[0][1] else None
    for when_ms, is_consuming in turns:
        if is_consuming:
            since_ms = when_ms
        elif since_ms is not None:
            spans.append((since_ms, when_ms))
            since_ms = None
    if since_ms is not None:
        spans.append((since_ms, end_ms))
    turns.clear()
    return able * sum(end - begin for begin, end in spans) / (end_ms - begin_ms), spans


def _is_allowed(owners: Ints, times_ms: Ints, spans: list[list[tuple[int, int]] | None]) -> NDArray[np.bool_]:
    """Whether each commit's group was Stable at its time; `owners` are group indexes, in rising order."""
    allowed = np.ones(len(owners), bool)
    for index, stable in enumerate(spans):
        if stable is None:
            continue
        first, last = np.searchsorted(owners, [index, index + 1])
        own = times_ms[first:last]
        within = np.zeros(len(own), bool)
        for begin_ms, end_ms in stable:
            within |= (begin_ms <= own) & (own < end_ms)
        allowed[first:last] = within
    return allowed
