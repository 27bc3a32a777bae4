"""Aggregators: what a job keeps of one group, which is rebalances or sessions that last, and open windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from coordinator.effects import GroupEvent
from coordinator.history.rebalances import RebalanceFold, known_ms
from muster.spark.events.churn import ChurnCounts
from muster.spark.events.sessions import JOINS, SessionFold
from muster.spark.events.storms import RUNNING_MAX_MS, StormRule, StormWindows


class TableRow(NamedTuple):
    """A row of the table `table` by column name; times in ms since 1970."""

    table: str
    columns: dict[str, Any]


class GroupAggregator(Protocol):
    """Turns one group's events into rows of tables. Its dump fits into JSON."""

    def add(self, event: GroupEvent) -> list[TableRow]:
        """Take in the group's next event; return the rows of what it ends."""

    def advance(self, until_ms: int) -> list[TableRow]:
        """Close what is over at `until_ms`, up to which all events have been added; return its rows."""

    def due_ms(self) -> int | None:
        """When `advance` will have rows next; None if only another event can bring any."""

    def is_empty(self) -> bool:
        """Whether it holds nothing that a new aggregator would lack, if no late event comes."""

    def dump(self) -> list[Any]: ...


class AggregatorFactory(Protocol):
    """Makes the aggregators of one job."""

    def new(self, group_id: str, closed_ms: int) -> GroupAggregator:
        """An aggregator for a group without state; windows up to `closed_ms` have their rows already."""

    def load(self, group_id: str, dumped: list[Any]) -> GroupAggregator: ...


def row(table: str, columns: Any) -> TableRow:
    """A TableRow of `table` with the fields of the NamedTuple `columns`."""
    return TableRow(table, columns._asdict())


@dataclass(slots=True)
class RebalanceAggregator:
    """One group's rebalances and storms, for the job `rebalances`."""

    group_id: str
    rule: StormRule
    fold: RebalanceFold = field(default_factory=RebalanceFold)
    windows: StormWindows = field(default_factory=StormWindows)

    def add(self, event: GroupEvent) -> list[TableRow]:
        ended = self.fold.add(event)
        for each in ended:
            self.windows.add(each.ended_at - known_ms(each), each.ended_at, self.rule)
        return [row("rebalances", each) for each in ended]

    def advance(self, until_ms: int) -> list[TableRow]:
        storms = self.windows.close(self.group_id, until_ms, self._running(), self.rule)
        return [row("storms", storm) for storm in storms]

    def due_ms(self) -> int | None:
        return self.windows.due_ms(self._running(), self.rule)

    def is_empty(self) -> bool:
        return self.fold.running is None and not self.windows.open

    def _running(self) -> tuple[int, int] | None:
        running = self.fold.running
        return None if running is None else (running.started_ms, running.heard_ms + RUNNING_MAX_MS)

    def dump(self) -> list[Any]:
        return [self.fold.dump(), self.windows.dump()]


@dataclass(slots=True)
class MemberAggregator:
    """One group's sessions and churn, for the job `members`."""

    group_id: str
    sessions: SessionFold = field(default_factory=SessionFold)
    churn: ChurnCounts = field(default_factory=ChurnCounts)

    def add(self, event: GroupEvent) -> list[TableRow]:
        if event.cause in JOINS and event.member_id is not None:
            self.churn.joined(event.wall_ms, event.client_id, event.client_host)
        ended = self.sessions.add(event)
        for each in ended:
            self.churn.ended(each.ended_at, each.client_id, each.client_host, each.ended_by)
        return [row("members", each) for each in ended]

    def advance(self, until_ms: int) -> list[TableRow]:
        self.sessions.forget_gone(until_ms)
        return [row("churn", each) for each in self.churn.close(self.group_id, until_ms)]

    def due_ms(self) -> int | None:
        return self.churn.due_ms()

    def is_empty(self) -> bool:
        return not (self.sessions.members or self.churn.counts or self.sessions.gone)

    def dump(self) -> list[Any]:
        return [self.sessions.dump(), self.churn.dump()]


@dataclass(frozen=True, slots=True)
class RebalanceAggregatorFactory:
    """Makes the aggregators of rebalances and storms."""

    rule: StormRule

    def new(self, group_id: str, closed_ms: int) -> RebalanceAggregator:
        return RebalanceAggregator(group_id, self.rule, windows=StormWindows(closed_ms=closed_ms))

    def load(self, group_id: str, dumped: list[Any]) -> RebalanceAggregator:
        fold, windows = dumped
        return RebalanceAggregator(group_id, self.rule, RebalanceFold.load(fold), StormWindows.load(windows))


@dataclass(frozen=True, slots=True)
class MemberAggregatorFactory:
    """Makes the aggregators of sessions and churn."""

    def new(self, group_id: str, closed_ms: int) -> MemberAggregator:
        return MemberAggregator(group_id)

    def load(self, group_id: str, dumped: list[Any]) -> MemberAggregator:
        sessions, churn = dumped
        return MemberAggregator(group_id, SessionFold.load(sessions), ChurnCounts.load(churn))
