"""The population: topics and consumer groups, drawn from the distributions of `docs/scale.md`.

Everything follows from the seed: the same seed and numbers give the same population. Nothing here knows time,
records or files.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

AUTO, NOISY, BATCH, SPARSE, DEAD = range(5)
KINDS: Final = ("auto", "noisy", "batch", "sparse", "dead")
KIND_SHARES: Final = (0.72, 0.04, 0.12, 0.05, 0.07)
"""In order: auto commit every 5 s; a commit per poll; per micro-batch; a job every few hours; no members."""

GROUPS_PER_TOPIC: Final = 20
TOPICS_MIN: Final = 20
PARTITIONS: Final = (1, 3, 6, 12, 24, 50)
PARTITION_SHARES: Final = (0.20, 0.30, 0.25, 0.17, 0.06, 0.02)
TOPICS_PER_GROUP: Final = (1, 2, 3, 6)
TOPICS_PER_GROUP_SHARES: Final = (0.75, 0.16, 0.07, 0.02)
ZIPF_EXPONENT: Final = 1.0
RATE_MEDIAN_PER_SECOND: Final = 2.0  # Records produced to one partition, as the median over topics.
RATE_SIGMA: Final = 1.5
MEMBERS_MEDIAN: Final = 3.0
MEMBERS_SIGMA: Final = 0.8
MEMBERS_MAX: Final = 100
AUTO_INTERVAL_MS: Final = 5_000
SPARSE_INTERVAL_MS: Final = 20_000
CHANGED_ONLY_SHARE: Final = 0.30
STATIC_SHARE: Final = 0.08
SCALING_SHARE: Final = 0.15
SLOW_SHARE: Final = 0.03
STORMY_SHARE: Final = 0.005
BEHIND_SHARE: Final = 0.015
PEAKS_AT_HOUR: Final = (13.0, 19.0, 5.0)  # Hours of the day in UTC at which Europe, America and Asia peak.
PEAK_SHARES: Final = (0.40, 0.40, 0.20)

SERVICES: Final = (
    "payments", "orders", "inventory", "search-indexer", "fraud-detection", "billing", "shipping-events", "audit",
    "recommendations", "clickstream-sessions", "notifications", "pricing", "ledger-export", "catalogue-sync",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics as columns, with one entry per topic."""

    names: list[str]
    ids: list[bytes]
    partitions: Ints
    rates: Floats  # Records per second to each partition, averaged over a day.
    peak_hours: Floats  # The hour of the day, in UTC, at which most is produced.


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups as columns, with one entry per group; `topics` has the indexes of each group's topics."""

    names: list[str]
    kinds: NDArray[np.int8]
    topics: list[tuple[int, ...]]
    lanes: Ints  # Number of partitions that the group reads, over all its topics.
    members: Ints  # Members of the group at its intended size; 0 for a group without members.
    interval_ms: Ints  # Time between two commits of one member.
    changed_only: NDArray[np.bool_]  # Only changed offsets are committed, as by librdkafka; Java commits all.
    capacity: Floats  # How fast it can read, as a multiple of the mean rate of production.
    latency_ms: Ints  # How long after a record is produced it is committed, while the group keeps up.
    is_static: NDArray[np.bool_]
    scales: NDArray[np.bool_]
    is_slow: NDArray[np.bool_]
    is_stormy: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.names)


def new_topics(seed: int, groups: int) -> Topics:
    """The topics for a population of `groups` groups."""
    count = max(groups // GROUPS_PER_TOPIC, TOPICS_MIN)
    chance = np.random.default_rng([seed, 1])
    ids = Random(f"topic ids {seed}")
    return Topics(
        names=[f"{SERVICES[number % len(SERVICES)]}.events-{number:05d}" for number in range(count)],
        ids=[ids.randbytes(16) for _ in range(count)],
        partitions=chance.choice(np.array(PARTITIONS, np.int64), count, p=PARTITION_SHARES),
        rates=RATE_MEDIAN_PER_SECOND * np.exp(RATE_SIGMA * chance.standard_normal(count)),
        peak_hours=chance.choice(PEAKS_AT_HOUR, count, p=PEAK_SHARES),
    )


def new_groups(seed: int, count: int, topics: Topics) -> Groups:
    """`count` groups that read `topics`, the popular ones more often."""
    chance = np.random.default_rng([seed, 2])
    kinds = chance.choice(len(KINDS), count, p=KIND_SHARES).astype(np.int8)
    chosen = _choose_topics(chance, count, topics)
    lanes = np.array([int(topics.partitions[list(numbers)].sum()) for numbers in chosen], np.int64)
    stormy = chance.random(count) < STORMY_SHARE
    behind = chance.random(count) < BEHIND_SHARE
    return Groups(
        names=[f"{SERVICES[number * 7 % len(SERVICES)]}-{number:06d}" for number in range(count)],
        kinds=kinds,
        topics=chosen,
        lanes=lanes,
        members=_member_counts(chance, kinds, lanes),
        interval_ms=_commit_intervals(chance, kinds),
        changed_only=chance.random(count) < CHANGED_ONLY_SHARE,
        capacity=np.where(behind, 0.93, 1.5 + chance.exponential(2.0, count)),
        latency_ms=(20 + chance.exponential(200.0, count)).astype(np.int64),
        is_static=(chance.random(count) < STATIC_SHARE) & (kinds != SPARSE),
        scales=(chance.random(count) < SCALING_SHARE) & (kinds <= BATCH),
        is_slow=chance.random(count) < SLOW_SHARE,
        is_stormy=stormy & (kinds <= BATCH),
    )


def _choose_topics(chance: np.random.Generator, count: int, topics: Topics) -> list[tuple[int, ...]]:
    """The topics of each group by Zipf's law: the k-th topic has 1/k as many groups as the first."""
    weights = 1.0 / np.arange(1, len(topics.names) + 1) ** ZIPF_EXPONENT
    wanted = chance.choice(TOPICS_PER_GROUP, count, p=TOPICS_PER_GROUP_SHARES)
    drawn = chance.choice(len(topics.names), int(wanted.sum()), p=weights / weights.sum())
    ends = np.cumsum(wanted)
    return [tuple(sorted(set(drawn[end - n : end].tolist()))) for end, n in zip(ends, wanted, strict=True)]


def _member_counts(chance: np.random.Generator, kinds: NDArray[np.int8], lanes: Ints) -> Ints:
    """The number of members of each group, at most its partitions: a member without any would be taken down."""
    drawn = np.rint(MEMBERS_MEDIAN * np.exp(MEMBERS_SIGMA * chance.standard_normal(len(kinds))))
    members: Ints = np.minimum(np.clip(drawn, 1, MEMBERS_MAX), lanes).astype(np.int64)
    members[kinds == DEAD] = 0
    return members


def _commit_intervals(chance: np.random.Generator, kinds: NDArray[np.int8]) -> Ints:
    """Commit intervals in ms: 0.2 to 1 s for noisy groups, 10 s to 5 minutes for batches."""
    count = len(kinds)
    noisy = chance.integers(200, 1_000, count)
    batch = np.clip(60_000 * np.exp(0.7 * chance.standard_normal(count)), 10_000, 300_000)
    choices: list[Any] = [np.full(count, AUTO_INTERVAL_MS), noisy, batch, np.full(count, SPARSE_INTERVAL_MS)]
    drawn: Ints = np.select([kinds == kind for kind in (AUTO, NOISY, BATCH, SPARSE)], choices, 1).astype(
        np.int64
    )
    return drawn
