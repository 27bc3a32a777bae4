"""Walks all groups, again and again, and sums what a scrape then only reads: their lag, and which are foremost.

A walk begins every 15 s, or less often where the groups are so many that it would take more than a few hundredths
of the CPU. It is done in slices of about a millisecond, one in a turn of the loop: a million offsets delay nobody.
Of all groups the lag is kept; series of their own, with topics, have `groups_max`: those that are furthest behind,
and of the others those that were active last. What the rest has is summed. A group that is gone, or is Empty and
has done nothing for an hour, has none. Knows no text format.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from time import thread_time
from typing import Any, Final, NamedTuple, Protocol

from coordinator.metrics.figures import TopicLag
from coordinator.metrics.lag import LagMeter
from coordinator.metrics.lag_history import LagHistories
from coordinator.metrics.living_groups import EMPTY, LivingGroup, group_ids, living_group
from coordinator.metrics.other_counts import OtherCounts
from coordinator.metrics.rebalance_log import LOW_MARGIN
from coordinator.purgatory.delayed import TimerOwner
from coordinator.runtime.group_runner import GroupRunner
from coordinator.shard.shard import Shard

TICK_MS: Final = 15_000
SLICE_S: Final = 0.0008
"""CPU seconds after which a slice ends, with the group that is being looked at: a millisecond in all."""

PAUSE_MS: Final = 5
"""Between two slices the loop serves others for so long at least."""

REST: Final = 25
"""A walk takes at most one part in so many of the CPU: the next one begins later if need be."""

IDLE_MS: Final = 3_600_000
"""An Empty group leaves when it has done nothing for so long."""

WINDOW_MS: Final = 150_000
"""Half of the five minutes over which the margins of heartbeats are looked at."""

MANY: Final = 1000
"""Entries of a dict that are looked at between two yields."""

WALK: Final = "walk"

Steps = Generator[None, None, None]


class WalkHost(Protocol):
    """What is needed of the runtime."""

    @property
    def runners(self) -> list[GroupRunner]: ...
    @property
    def commits(self) -> dict[str, int]: ...
    @property
    def now_ms(self) -> Callable[[], int]: ...
    @property
    def wall_ms(self) -> Callable[[], int]: ...
    def set_timer(self, owner: TimerOwner[Any], key: Any, deadline_ms: int | None) -> None: ...


class KnownLag(NamedTuple):
    """The lag of a group over all its topics, as last summed. `seconds` is None where it is not known."""

    records: int
    seconds: float | None


class Foremost(NamedTuple):
    """A group with series of its own, as the walk found it; it is ordered by how far behind it is."""

    records: int
    active_ms: int
    group_id: str
    lags: Mapping[str, TopicLag]
    margin: float | None


@dataclass(slots=True)
class Others:
    """What all groups without series of their own have now, summed."""

    groups: int = 0
    members: int = 0
    records: int = 0
    seconds: float | None = None


@dataclass(slots=True)
class Walked:
    """What one walk has found."""

    groups: dict[str, Foremost] = field(default_factory=dict)
    others: Others = field(default_factory=Others)
    offsets: int = 0


class GroupWalk:
    """The walk, and what the last one found. Event-loop thread only."""

    def __init__(
        self,
        host: WalkHost,
        meter: LagMeter,
        *,
        groups_max: int,
        is_shown: Callable[[str], bool],
        on_low_margin: Callable[[str, float], None],
    ) -> None:
        """`is_shown` says which groups may have series; `on_low_margin` is called once in a window for a group."""
        self._host, self._meter = host, meter
        self._groups_max, self._is_shown, self._on_low_margin = groups_max, is_shown, on_low_margin
        self.found = Walked()
        self.lags: dict[str, KnownLag] = {}  # Of all groups with a committed offset, as last looked at.
        self.margins: dict[str, float] = {}  # Of all groups with members that were heard, as last looked at.
        self._seen: dict[str, int] = {}  # Groups, and in which walk each was seen last.
        self._walks = 0
        self.histories = LagHistories()
        self.commits: dict[str, int] = {}  # Offsets that each group has committed.
        self.others = OtherCounts()
        self.committed = 0  # Offsets of all groups, as far as they are taken.
        self.active_ms: dict[str, int] = {}  # When a group last committed or rebalanced, monotonic.
        self.counted: dict[str, Any] = {}  # What others keep by group, to be forgotten with it.
        self.late_ms = 0  # How late the last timer fired.
        self._started_ms = self._began_ms = self._window_ms = host.now_ms()
        self._due_ms = 0
        self._used_s = 0.0
        self._steps: Steps | None = None
        self._warned: set[str] = set()
        self._begins_window = False

    def start(self) -> None:
        """Begin the first walk soon."""
        self._set_timer(PAUSE_MS)

    def _set_timer(self, delay_ms: int) -> None:
        self._due_ms = self._host.now_ms() + delay_ms
        self._host.set_timer(self, WALK, self._due_ms)

    def timer_fired(self, key: str) -> None:
        """Do a slice; begin a walk if none is under way."""
        now_ms = self._host.now_ms()
        self.late_ms = max(now_ms - self._due_ms, 0)
        if self._steps is None:
            self._begin(now_ms)
        assert self._steps is not None
        began_s = thread_time()
        for _ in self._steps:
            if thread_time() - began_s >= SLICE_S:
                self._used_s += thread_time() - began_s
                self._set_timer(PAUSE_MS)
                return
        self._used_s += thread_time() - began_s
        self._steps = None
        least_ms = int(self._used_s * 1000 * REST)
        self._set_timer(max(self._began_ms + max(TICK_MS, least_ms) - self._host.now_ms(), PAUSE_MS))

    def _begin(self, now_ms: int) -> None:
        self._began_ms, self._used_s = now_ms, 0.0
        self._begins_window = now_ms - self._window_ms >= WINDOW_MS
        if self._begins_window:
            self._window_ms = now_ms
            self._warned.clear()
        self._steps = self.steps()

    def steps(self) -> Steps:
        """One whole walk; yields after each group, and within one that is large."""
        walk = Walked()
        self._walks += 1
        self._meter.begin_walk()
        heap: list[Foremost] = []
        for shard in self._shards():
            for group_id in group_ids(shard):
                committed = shard.offsets.by_topic(group_id)
                lags = self._meter.of_group(committed)
                if lags is None:
                    lags = yield from self._meter.steps(committed)
                found = self._look_at(shard, group_id, lags, walk)
                if found is not None:
                    self._place(shard, found, heap, walk)
                yield
        walk.groups = {each.group_id: each for each in heap}
        yield from self._forget_gone()
        for _ in self.others.settle(walk.groups):
            yield
        self._meter.forget_ends()
        self.found = walk
        now_ms = self._host.wall_ms()
        for each in heap:
            self.histories.add(each.group_id, now_ms, each.records, worst_of(each.lags))
            yield
        self.histories.keep(walk.groups)

    def _shards(self) -> Iterator[Shard]:
        for runner in tuple(self._host.runners):
            if (shard := runner.shard) is not None:
                yield shard

    def _look_at(
        self, shard: Shard, group_id: str, lags: Mapping[str, TopicLag], walk: Walked
    ) -> Foremost | None:
        """Take in one group's lag and all else; return it if it may have series of its own."""
        group = living_group(shard, group_id)
        if group is None:
            return None
        self._seen[group_id] = self._walks
        self._take_commits(group_id)
        records = 0
        if lags:
            for lag in lags.values():
                records += lag.records
                walk.offsets += lag.partitions
            self.lags[group_id] = KnownLag(records, worst_of(lags))
        else:
            self.lags.pop(group_id, None)
        margin = self._margin(shard, group_id) if group.members else None
        if margin is not None:
            self.margins[group_id] = margin
        else:
            self.margins.pop(group_id, None)
        if self._is_idle(shard, group_id, group) or not self._is_shown(group_id):
            return None
        return Foremost(records, self.active_ms.get(group_id, self._started_ms), group_id, lags, margin)

    def _take_commits(self, group_id: str) -> None:
        count = self._host.commits.pop(group_id, 0)
        if count:
            self.committed += count
            self.commits[group_id] = self.commits.get(group_id, 0) + count
            self.active_ms[group_id] = self._host.now_ms()
            if self._is_shown(group_id):
                self.others.add_commits(group_id, count)

    def _margin(self, shard: Shard, group_id: str) -> float | None:
        margin = min(shard.margins(group_id).values(), default=None)
        if margin is not None and margin < LOW_MARGIN and group_id not in self._warned:
            self._warned.add(group_id)
            self._on_low_margin(group_id, margin)
        if self._begins_window:
            shard.begin_margin_window(group_id)
        return margin

    def _is_idle(self, shard: Shard, group_id: str, group: LivingGroup) -> bool:
        if group.state != EMPTY:
            self.active_ms[group_id] = self._host.now_ms()
            return False
        return self._host.now_ms() - self.active_ms.get(group_id, self._started_ms) >= IDLE_MS

    def _place(self, shard: Shard, found: Foremost, heap: list[Foremost], walk: Walked) -> None:
        """Put a group among the foremost, and what falls out to the others."""
        if len(heap) < self._groups_max:
            heappush(heap, found)
            return
        out = heappushpop(heap, found) if heap else found
        others, lag = walk.others, self.lags.get(out.group_id)
        others.groups += 1
        others.records += out.records
        living = living_group(shard, out.group_id)
        others.members += 0 if living is None else living.members
        if lag is not None and lag.seconds is not None:
            others.seconds = max(others.seconds or 0.0, lag.seconds)

    def _forget_gone(self) -> Steps:
        """Forget what was kept of groups that are gone."""
        # Some have lived between two walks: they are in what others count alone.
        for kept in (self._seen, self.active_ms, self.counted, self._host.commits):
            yield
            for number, group_id in enumerate(tuple(kept)):
                if number % MANY == MANY - 1:
                    yield
                if self._seen.get(group_id) == self._walks or self._is_there(group_id):
                    continue
                self._seen.pop(group_id, None)
                self.lags.pop(group_id, None)
                self.margins.pop(group_id, None)
                self.active_ms.pop(group_id, None)
                self.counted.pop(group_id, None)
                self.commits.pop(group_id, None)
                self.committed += self._host.commits.pop(group_id, 0)

    def _is_there(self, group_id: str) -> bool:
        return any(group_id in shard.groups or group_id in shard.consumer_groups for shard in self._shards())


def worst_of(lags: Mapping[str, TopicLag]) -> float | None:
    """The longest time lag that is known; None if none is."""
    return max((lag.seconds for lag in lags.values() if lag.seconds is not None), default=None)
