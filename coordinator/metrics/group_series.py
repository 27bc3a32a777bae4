"""The lines of single groups: of the foremost ones, and of all others summed. Reads what the walk has found.

Members, generation and state are read of the living groups. Series of partitions are there if they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Final, NamedTuple

from coordinator.groups.classic.group import Group
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.metrics.families import GROUPS, OTHER
from coordinator.metrics.group_walk import Foremost, GroupWalk
from coordinator.metrics.lag import Topics
from coordinator.metrics.living_groups import LivingGroup, living_group, unassigned_partitions
from coordinator.metrics.rebalance_counts import GroupCounts, RebalanceCounts
from coordinator.metrics.text import label_value, number
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.loop import Runtime
from coordinator.shard.shard import Shard

COMMITS: Final = "muster_group_commits_total"

ROWS_AT_ONCE: Final = 500
"""Groups whose lines go into one chunk, of one metric."""

READ_WEIGHT: Final = 200
"""Groups that are looked up between two chunks; and of those whose lines are made anew one counts as"""

MADE_WEIGHT: Final = 20
"""so many."""


class Row(NamedTuple):
    """One group with series of its own, and what its lines were made of."""

    label: str  # `group="..."`, ready.
    value: str  # What is between the quotes.
    group_id: str
    runner: GroupRunner
    shard: Shard
    group: Group | ConsumerGroup
    living: LivingGroup
    counts: GroupCounts | None
    rebalances: int
    found: Foremost
    topics_version: int
    unassigned: int | None


class Shown(NamedTuple):
    """A group's row, and its lines by metric."""

    row: Row
    lines: dict[str, str]


class Block(NamedTuple):
    """Groups that stand together, and their lines by metric, as far as they were asked for."""

    rows: list[Shown]
    texts: dict[str, str]

    def lines(self, name: str) -> str:
        """The lines of one metric."""
        text = self.texts.get(name)
        if text is None:
            text = self.texts[name] = "".join([each.lines[name] for each in self.rows])
        return text


class GroupSeries:
    """Makes the lines."""

    def __init__(self, runtime: Runtime, topics: Topics, counts: RebalanceCounts, walk: GroupWalk) -> None:
        self._runtime, self._topics, self._counts, self._walk = runtime, topics, counts, walk
        self._made: dict[str, Shown] = {}
        self._blocks: list[Block] = []

    def rows(self) -> Iterator[Shown | None]:
        """Yield the groups with series of their own as they are now, and None where there was work.

        Their lines are made anew where something in them has changed, which in most groups happens with a walk.
        """
        found, made = self._walk.found.groups, self._made
        weight = 0
        for group_id in [each for each in made if each not in found]:
            del made[group_id]
        for group_id, each in found.items():
            shown = made.get(group_id)
            if shown is None or shown.row.found is not each or not self._is_current(shown.row):
                shown = self._make(each)
                weight += MADE_WEIGHT
            if shown is not None:
                yield shown
            weight += 1
            if weight >= READ_WEIGHT:
                weight = 0
                yield None

    def commits_of(self, group_id: str) -> int:
        """Number of offsets that a group has committed by now."""
        return self._walk.commits.get(group_id, 0) + self._runtime.commits.get(group_id, 0)

    def _is_current(self, row: Row) -> bool:
        """Whether all that a group's lines were made of is as it was; asked of each group at each scrape."""
        group, living, shard = row.group, row.living, row.shard
        if row.runner.shard is not shard or row.topics_version != self._topics.version:
            return False
        counts = self._counts.groups.get(row.group_id)
        if counts is not row.counts or (counts is not None and counts.total != row.rebalances):
            return False
        if isinstance(group, Group):
            return (
                shard.groups.get(row.group_id) is group
                and len(group.members) == living.members
                and group.generation_id == living.generation
                and group.state.value == living.state
            )
        return shard.consumer_groups.get(row.group_id) is group and group.changes == living.changes

    def _make(self, found: Foremost) -> Shown | None:
        """Make a group's row and lines; None if it is gone."""
        group_id = found.group_id
        runner = self._runtime.runner_for(group_id)
        shard = runner.shard
        living = None if shard is None else living_group(shard, group_id)
        if shard is None or living is None:
            self._made.pop(group_id, None)
            return None
        value, counts = label_value(group_id, OTHER), self._counts.groups.get(group_id)
        row = Row(
            label=f'group="{value}"',
            value=value,
            group_id=group_id,
            runner=runner,
            shard=shard,
            group=shard.groups.get(group_id) or shard.consumer_groups[group_id],
            living=living,
            counts=counts,
            rebalances=0 if counts is None else counts.total,
            found=found,
            topics_version=self._topics.version,
            unassigned=unassigned_partitions(shard, group_id, self._topics) if living.members else None,
        )
        shown = self._made[group_id] = Shown(row, {name: make(row) for name, make in LINES.items()})
        return shown

    def lines(self, rows: Sequence[Shown]) -> Iterator[str]:
        """Yield the head of each metric, and its lines."""
        blocks = self._blocks_of(rows)
        for name in GROUPS:
            yield GROUPS[name].head
            for block in blocks:
                if name == COMMITS:
                    yield "".join([self._commits_line(each.row) for each in block.rows])
                else:
                    yield block.lines(name)
            yield "".join(self._lines_of_others(name))

    def _blocks_of(self, rows: Sequence[Shown]) -> list[Block]:
        """The groups by ROWS_AT_ONCE; of those that are all as they were the lines are there already."""
        blocks = []
        for number_of, start in enumerate(range(0, len(rows), ROWS_AT_ONCE)):
            some = [*rows[start : start + ROWS_AT_ONCE]]
            kept = self._blocks[number_of] if number_of < len(self._blocks) else None
            if kept is None or len(kept.rows) != len(some) or not all(map(is_, kept.rows, some)):
                kept = Block(some, {})
            blocks.append(kept)
        self._blocks = blocks
        return blocks

    def _commits_line(self, row: Row) -> str:
        return f"{COMMITS}{{{row.label}}} {self.commits_of(row.group_id)}\n"

    def _lines_of_others(self, name: str) -> Iterator[str]:
        """Yield the line of all other groups: of counters always, else where there are any."""
        summed, others = self._walk.found.others, self._walk.others
        group = f'{name}{{group="{OTHER}"'
        match name:
            case "muster_group_members" if summed.groups:
                yield f"{group}}} {summed.members}\n"
            case "muster_group_rebalances_total":
                for cause, count in sorted(others.by_cause.items()):
                    yield f'{group},cause="{cause}"}} {count}\n'
            case "muster_group_completed_rebalances_total":
                yield f"{group}}} {others.by_cause.total()}\n"
            case "muster_group_rebalance_seconds_total":
                yield f'{group},phase="join"}} {number(others.join_ms / 1000)}\n'
                yield f'{group},phase="sync"}} {number(others.sync_ms / 1000)}\n'
            case "muster_group_commits_total":
                yield f"{group}}} {others.commits}\n"
            case "muster_group_lag" if summed.groups:
                yield f'{group},topic="{OTHER}"}} {summed.records}\n'
            case "muster_group_lag_seconds" if summed.seconds is not None:
                yield f'{group},topic="{OTHER}"}} {number(summed.seconds)}\n'


def _members(row: Row) -> str:
    return f"muster_group_members{{{row.label}}} {row.living.members}\n"


def _generation(row: Row) -> str:
    return f"muster_group_generation{{{row.label}}} {row.living.generation}\n"


def _state(row: Row) -> str:
    return f'muster_group_state{{{row.label},state="{row.living.state}"}} 1\n'


def _rebalances(row: Row) -> str:
    if row.counts is None:
        return ""
    causes = sorted(row.counts.by_cause.items())
    return "".join(
        [f'muster_group_rebalances_total{{{row.label},cause="{cause}"}} {count}\n' for cause, count in causes]
    )


def _completed(row: Row) -> str:
    return f"muster_group_completed_rebalances_total{{{row.label}}} {row.rebalances}\n"


def _lost(row: Row) -> str:
    name = "muster_group_rebalance_seconds_total"
    join_ms, sync_ms = (0, 0) if row.counts is None else (row.counts.join_ms, row.counts.sync_ms)
    return (
        f'{name}{{{row.label},phase="join"}} {number(join_ms / 1000)}\n'
        f'{name}{{{row.label},phase="sync"}} {number(sync_ms / 1000)}\n'
    )


def _last_rebalance(row: Row) -> str:
    if row.counts is None or row.counts.last_ended_ms is None:
        return ""
    at_s = number(row.counts.last_ended_ms / 1000)
    return f"muster_group_last_rebalance_timestamp_seconds{{{row.label}}} {at_s}\n"


def _margin(row: Row) -> str:
    if row.found.margin is None or not row.living.members:
        return ""
    return f"muster_group_heartbeat_margin_ratio{{{row.label}}} {number(round(row.found.margin, 4))}\n"


def _unassigned(row: Row) -> str:
    if row.unassigned is None:
        return ""
    return f"muster_group_unassigned_partitions{{{row.label}}} {row.unassigned}\n"


def _lag(row: Row) -> str:
    lags = row.found.lags.items()
    return "".join(
        [
            f'muster_group_lag{{{row.label},topic="{label_value(topic)}"}} {lag.records}\n'
            for topic, lag in lags
        ]
    )


def _lag_seconds(row: Row) -> str:
    return "".join(
        [
            f'muster_group_lag_seconds{{{row.label},topic="{label_value(topic)}"}} {number(lag.seconds)}\n'
            for topic, lag in row.found.lags.items()
            if lag.seconds is not None
        ]
    )


LINES: Final[dict[str, Callable[[Row], str]]] = {
    "muster_group_members": _members,
    "muster_group_generation": _generation,
    "muster_group_state": _state,
    "muster_group_rebalances_total": _rebalances,
    "muster_group_completed_rebalances_total": _completed,
    "muster_group_rebalance_seconds_total": _lost,
    "muster_group_last_rebalance_timestamp_seconds": _last_rebalance,
    "muster_group_heartbeat_margin_ratio": _margin,
    "muster_group_unassigned_partitions": _unassigned,
    "muster_group_lag": _lag,
    "muster_group_lag_seconds": _lag_seconds,
}
"""The lines of one group, by metric; but for COMMITS, which counts on between two walks."""
