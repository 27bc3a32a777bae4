"""The daemon's figures: as text for Prometheus, and of single groups for the API.

What happens is counted in plain integers where it happens, and read here; rebalances are counted from the events
of the history, and what takes long is summed by a walk over all groups. Nothing here knows HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from coordinator.effects import CoordinatorRecord, Event, Records, TimerFired
from coordinator.groups.record_schemas import OffsetCommitKey
from coordinator.history.rebalances import Rebalance
from coordinator.metrics.arrivals import Arrivals
from coordinator.metrics.daemon_series import DaemonSeries, Parts
from coordinator.metrics.families import DAEMON
from coordinator.metrics.figures import GroupFigures, LagFigures, LagHistory
from coordinator.metrics.group_series import GroupSeries, Shown
from coordinator.metrics.group_walk import GroupWalk, worst_of
from coordinator.metrics.lag import LagMeter, Topics, UnreadRecords
from coordinator.metrics.partition_series import PartitionSeries
from coordinator.metrics.rebalance_counts import GroupCounts, RebalanceCounts
from coordinator.metrics.rebalance_log import RebalanceLog
from coordinator.metrics.shown_groups import shown_groups
from coordinator.metrics.text import sample
from coordinator.settings.model import Settings
from coordinator.shard.shard import Shard
from coordinator.topics.workers import Workers

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of the exposition, as Prometheus asks for it."""

READ_EVERY_MS: Final = 1000
"""How often timestamps of unread records are read, some at a time."""

READ: Final = "read"

MINUTE_MS: Final = 60_000


class Metrics:
    """All figures of one daemon. Event-loop thread only."""

    def __init__(self, settings: Settings, parts: Parts, topics: Topics, readers: Workers) -> None:
        runtime = self._runtime = parts.runtime
        now_ms = runtime.now_ms
        self.arrivals = Arrivals(now_ms)
        self._unread = UnreadRecords(readers)
        self._meter = LagMeter(topics, self.arrivals, self._unread, now_ms, runtime.wall_ms)
        self._log = RebalanceLog(now_ms)
        self.rebalances = RebalanceCounts(self._on_ended)
        self._is_shown = shown_groups(
            settings.muster_metrics_groups_include, settings.muster_metrics_groups_exclude
        )
        self.walk = GroupWalk(
            runtime,
            self._meter,
            groups_max=settings.muster_metrics_groups_max,
            is_shown=self._is_shown,
            on_low_margin=self._log.on_low_margin,
        )
        self.walk.counted = self.rebalances.groups
        self._daemon = DaemonSeries(parts, self.rebalances, self.walk)
        self._groups = GroupSeries(runtime, topics, self.rebalances, self.walk)
        self._partitions = PartitionSeries(self._meter, topics, settings, self._groups.commits_of)
        runtime.count_records = self._count_records
        self.more: Callable[[], Iterator[str]] = lambda: iter(())
        """Lines of what one daemon alone does not have."""

    def start(self) -> None:
        """Begin to walk the groups."""
        self.walk.start()
        self.timer_fired(READ)

    def timer_fired(self, key: str) -> None:
        """Have timestamps read that were asked for, now and then."""
        self._unread.read()
        self._runtime.set_timer(self, READ, self._runtime.now_ms() + READ_EVERY_MS)

    # What is counted.

    def _count_records(self, event: Event, records: Records) -> None:
        """Count the offsets that records commit, expire or delete; those of prepared commits are counted apart."""
        for record in records:
            if not isinstance(record, CoordinatorRecord):
                self._count_commits(getattr(record, "group_id", ""), record.count)
            elif isinstance(record.key, OffsetCommitKey):
                if record.value is not None:
                    self._count_commits(record.key.group, 1)
                elif isinstance(event, TimerFired):
                    self._daemon.expired += 1
                else:
                    self._daemon.deleted += 1

    def _count_commits(self, group_id: str, count: int) -> None:
        commits = self._runtime.commits
        commits[group_id] = commits.get(group_id, 0) + count

    def _on_ended(self, ended: Rebalance, counts: GroupCounts) -> None:
        self._log.on_ended(ended, counts)
        self.walk.active_ms[ended.group_id] = self._runtime.now_ms()
        if self._is_shown(ended.group_id):
            self.walk.others.add_rebalance(ended, counts.last_cause or "")

    # What is shown.

    def exposition(self) -> Iterator[bytes]:
        """Yield the text for Prometheus (format 0.0.4), UTF-8, in chunks that each take at most 1 ms to make.

        A chunk may be empty: then there was work, but nothing to send yet. The caller may let other work of the
        loop go first between any two of them, and may stop early; what it reads is of the time of the reading.
        """
        series = 0
        for text in self._text():
            if not text.startswith("#"):
                series += text.count("\n")
            yield text.encode("utf-8", "replace")
        yield f"{DAEMON['muster_metrics_series'].head}{sample('muster_metrics_series', (), series)}".encode()

    def _text(self) -> Iterator[str]:
        yield from self._daemon.lines()
        yield from self.more()
        found = self.walk.found
        yield DAEMON["muster_metrics_groups"].head
        yield sample("muster_metrics_groups", (("shown", "yes"),), len(found.groups))
        yield sample("muster_metrics_groups", (("shown", "no"),), found.others.groups)
        rows: list[Shown] = []
        for row in self._groups.rows():
            if row is None:
                yield ""
            else:
                rows.append(row)
        yield from self._groups.lines(rows)
        yield from self._partitions.lines(rows)
        yield DAEMON["muster_metrics_partitions"].head
        yield sample("muster_metrics_partitions", (("shown", "yes"),), self._partitions.shown)
        yield sample("muster_metrics_partitions", (("shown", "no"),), self._partitions.left_out)

    # Single groups.

    def figures(self, group_id: str) -> GroupFigures | None:
        """Return one group's figures; None if there is no such group. Costs a look-up per member and offset."""
        shard = self._runtime.runner_for(group_id).shard
        if shard is None or (group_id not in shard.groups and group_id not in shard.consumer_groups):
            return None
        counts = self.rebalances.groups.get(group_id)
        margins = shard.margins(group_id)
        return GroupFigures(
            group_id=group_id,
            lag=self._lag_of(shard, group_id),
            rebalances={} if counts is None else dict(counts.by_cause),
            lost_ms={"join": 0, "sync": 0}
            if counts is None
            else {"join": counts.join_ms, "sync": counts.sync_ms},
            last_rebalance_ms=None if counts is None else counts.last_ended_ms,
            last_cause=None if counts is None else counts.last_cause,
            commits=self.walk.commits.get(group_id, 0) + self._runtime.commits.get(group_id, 0),
            margin=min(margins.values(), default=None),
            margins=margins,
        )

    def _lag_of(self, shard: Shard, group_id: str) -> LagFigures:
        lags = self._meter.now(shard.offsets.by_topic(group_id))
        if not lags:
            return LagFigures()
        trend = self.walk.histories.trend(group_id, self._runtime.wall_ms())
        return LagFigures(sum(lag.records for lag in lags.values()), worst_of(lags), trend, lags)

    def lag_records(self, group_id: str) -> int | None:
        """Return a group's lag in records, as last summed: a look-up, to sort all groups by. None: not known."""
        known = self.walk.lags.get(group_id)
        return None if known is None else known.records

    def lag_seconds(self, group_id: str) -> float | None:
        """The same of its lag in time."""
        known = self.walk.lags.get(group_id)
        return None if known is None else known.seconds

    def rebalance_count(self, group_id: str) -> int:
        """The number of the group's rebalances that ended."""
        counts = self.rebalances.groups.get(group_id)
        return 0 if counts is None else counts.total

    def lost_ms(self, group_id: str) -> int:
        """The time that the group spent in those."""
        counts = self.rebalances.groups.get(group_id)
        return 0 if counts is None else counts.join_ms + counts.sync_ms

    def margin(self, group_id: str) -> float | None:
        """The group's least margin, as last looked at. None: not known."""
        return self.walk.margins.get(group_id)

    def lag_history(self, group_id: str, minutes: int) -> LagHistory:
        """Return the group's lag of the last `minutes`, a point each 15 s, of at most an hour.

        Empty for a group that is not among those whose history is kept (docs/metrics.md).
        """
        return self.walk.histories.since(group_id, self._runtime.wall_ms() - minutes * MINUTE_MS)
