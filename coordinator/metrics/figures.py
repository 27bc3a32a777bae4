"""What is known of one group in figures, for the API and the command line; plain values, no live objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Trend = Literal["growing", "steady", "shrinking"]


@dataclass(frozen=True, slots=True)
class TopicLag:
    """How far a group is behind in one topic, over the partitions in which it has a committed offset."""

    records: int
    seconds: float | None
    """The worst of its partitions: since when its first unread record is there. None: not known."""
    partitions: int


@dataclass(frozen=True, slots=True)
class LagFigures:
    """How far a group is behind in all its topics. None where it has no committed offset, or it is not known."""

    records: int | None = None
    seconds: float | None = None
    trend: Trend | None = None
    topics: Mapping[str, TopicLag] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """One group's figures; counts and times lost are since the daemon started."""

    group_id: str
    lag: LagFigures
    rebalances: Mapping[str, int]
    """Number of rebalances that ended, by the slug of the cause that began them."""
    lost_ms: Mapping[str, int]
    """Time spent in those, by phase: `join` and `sync`."""
    last_rebalance_ms: int | None
    """When the last one ended, in ms since 1970. None: there was none."""
    last_cause: str | None
    commits: int
    """Number of offsets committed."""
    margin: float | None
    """The least share of its session that a member had left when it was heard, in the last 5 minutes."""
    margins: Mapping[str, float]
    """The same of each member, by member id; members that were not heard meanwhile are missing."""


@dataclass(frozen=True, slots=True)
class LagHistory:
    """A group's lag over time as columns of one length, oldest first."""

    times_ms: tuple[int, ...] = ()  # Since 1970.
    records: tuple[int, ...] = ()
    seconds: tuple[float | None, ...] = ()
