"""How large a history will be, and which groups of a large population are written.

The whole population is always drawn; of its groups a part is written in full, chosen evenly along their size, so
that small ones and large ones are there in the shares that they have in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tools.simulate.population import DEAD, SPARSE, Floats, Groups, Ints, Topics
from tools.simulate.production import DAY_MS

COMMIT_BYTES: Final = 59  # Size of an offset record without the names of its group and topic.
BATCH_BYTES: Final = 61
RECORDS_PER_BATCH: Final = 6  # On average at least.
EVENT_BYTES: Final = 790
EVENTS_PER_DAY: Final = (0.6, 1.25)  # Per group, and in addition per member; measured, as are the next two.
EVENTS_PER_DAY_OF_JOBS: Final = (14.0, 15.0)
EVENTS_PER_DAY_OF_STORMS: Final = 270.0
BUSY_SHARE_OF_JOBS: Final = 0.018  # Share of the time in which a job's group has members.


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected size of a history of some groups."""

    groups: int
    commits: float
    commit_bytes: float
    events: float
    event_bytes: float

    @property
    def bytes(self) -> float:
        return self.commit_bytes + self.event_bytes


def commits_per_second(groups: Groups, topics: Topics) -> Floats:
    """Offset records that each group writes per second, on average."""
    per_second = groups.lanes * 1_000.0 / groups.interval_ms
    per_second[groups.kinds == DEAD] = 0.0
    per_second[groups.kinds == SPARSE] *= BUSY_SHARE_OF_JOBS
    moved = np.minimum(_first_topic_rates(groups, topics) * groups.interval_ms / 1_000.0, 1.0)
    result: Floats = np.where(groups.changed_only, per_second * moved, per_second)
    return result


def _first_topic_rates(groups: Groups, topics: Topics) -> Floats:
    """Records per second produced to each partition of a group's first topic, daily mean; one number per group."""
    rates: Floats = topics.rates[np.array([numbers[0] for numbers in groups.topics])]
    return rates


def events_per_day(groups: Groups) -> Floats:
    """Average number of events per day of each group."""
    steady, jobs = (
        each + per_member * groups.members for each, per_member in (EVENTS_PER_DAY, EVENTS_PER_DAY_OF_JOBS)
    )
    result: Floats = (
        np.where(groups.kinds == SPARSE, jobs, steady) + groups.is_stormy * EVENTS_PER_DAY_OF_STORMS
    )
    result[groups.kinds == DEAD] = 0.0
    return result


def estimate(
    groups: Groups, topics: Topics, with_events: Ints, committing: Ints, days: float, commit_days: float
) -> Estimate:
    """The size of a history in which the groups `with_events` have events, and those of `committing` commits."""
    commits = commits_per_second(groups, topics)[committing] * commit_days * DAY_MS / 1_000.0
    name_bytes = np.array([_name_bytes(groups, topics, number) for number in committing], np.int64)
    events = float(events_per_day(groups)[with_events].sum() * days)
    each = name_bytes + COMMIT_BYTES + BATCH_BYTES / RECORDS_PER_BATCH
    return Estimate(
        groups=len(with_events),
        commits=float(commits.sum()),
        commit_bytes=float((commits * each).sum()),
        events=events,
        event_bytes=events * EVENT_BYTES,
    )


def _name_bytes(groups: Groups, topics: Topics, number: int) -> int:
    return len(groups.names[number]) + len(topics.names[groups.topics[number][0]])


def evenly(sizes: Floats, wanted: int) -> Ints:
    """Indexes of `wanted` of the `sizes`, spread evenly over their order by size; ascending."""
    count = len(sizes)
    order = np.argsort(sizes, kind="stable")
    chosen = order[((np.arange(wanted) + 0.5) * count / wanted).astype(np.int64)]
    return np.sort(chosen)


def evenly_within(sizes: Floats, budget: float) -> Ints:
    """Indexes of as many `sizes` as sum up to at most `budget`, spread evenly over their order by size."""
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high + 1) // 2
        if float(sizes[evenly(sizes, middle)].sum()) <= budget:
            low = middle
        else:
            high = middle - 1
    return evenly(sizes, low) if low else np.array([], np.int64)
