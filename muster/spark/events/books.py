"""What a job keeps of one group, in a book: its story so far, and the windows that are not over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from coordinator.effects import GroupEvent
from muster.groups.rebalances import RebalanceFold
from muster.spark.events.churn import ChurnCounts
from muster.spark.events.sessions import JOINS, MemberStory
from muster.spark.events.storms import RUNNING_MAX_MS, StormRule, StormWindows


class Row(NamedTuple):
    """A row for a table, in the table's columns; times in ms since 1970."""

    table: str
    columns: dict[str, Any]


class Book(Protocol):
    """One group's. What is dumped fits into JSON."""

    def tell(self, event: GroupEvent) -> list[Row]:
        """Take the group's next event; the rows of what is over with it."""

    def advance(self, until_ms: int) -> list[Row]:
        """Everything up to then has been told: the rows of what is over by that."""

    def due_ms(self) -> int | None:
        """When `advance` will have rows; None: without another event, never."""

    def is_empty(self) -> bool:
        """A new book would do as well, now that no event of the past will come."""

    def dump(self) -> list[Any]: ...


class Shelf(Protocol):
    """Makes the books of one job."""

    def new(self, group_id: str, closed_ms: int) -> Book:
        """For a group that nothing is known of; windows until `closed_ms` have been told."""

    def load(self, group_id: str, dumped: list[Any]) -> Book: ...


def row(table: str, columns: Any) -> Row:
    """Of one of the tuples that stand for rows."""
    return Row(table, columns._asdict())


@dataclass(slots=True)
class RebalanceBook:
    """Of the job `rebalances`."""

    group_id: str
    rule: StormRule
    fold: RebalanceFold = field(default_factory=RebalanceFold)
    windows: StormWindows = field(default_factory=StormWindows)

    def tell(self, event: GroupEvent) -> list[Row]:
        ended = self.fold.add(event)
        for each in ended:
            self.windows.add(each.ended_at - each.duration_ms, each.ended_at, self.rule)
        return [row("rebalances", each) for each in ended]

    def advance(self, until_ms: int) -> list[Row]:
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
class MemberBook:
    """Of the job `members`."""

    group_id: str
    story: MemberStory = field(default_factory=MemberStory)
    churn: ChurnCounts = field(default_factory=ChurnCounts)

    def tell(self, event: GroupEvent) -> list[Row]:
        if event.cause in JOINS and event.member_id is not None:
            self.churn.joined(event.wall_ms, event.client_id, event.client_host)
        ended = self.story.tell(event)
        for each in ended:
            self.churn.ended(each.ended_at, each.client_id, each.client_host, each.ended_by)
        return [row("members", each) for each in ended]

    def advance(self, until_ms: int) -> list[Row]:
        self.story.forget_gone(until_ms)
        return [row("churn", each) for each in self.churn.close(self.group_id, until_ms)]

    def due_ms(self) -> int | None:
        return self.churn.due_ms()

    def is_empty(self) -> bool:
        return not (self.story.members or self.churn.counts or self.story.gone)

    def dump(self) -> list[Any]:
        return [self.story.dump(), self.churn.dump()]


@dataclass(frozen=True, slots=True)
class RebalanceShelf:
    """Books of rebalances and storms."""

    rule: StormRule

    def new(self, group_id: str, closed_ms: int) -> RebalanceBook:
        return RebalanceBook(group_id, self.rule, windows=StormWindows(closed_ms=closed_ms))

    def load(self, group_id: str, dumped: list[Any]) -> RebalanceBook:
        fold, windows = dumped
        return RebalanceBook(group_id, self.rule, RebalanceFold.load(fold), StormWindows.load(windows))


@dataclass(frozen=True, slots=True)
class MemberShelf:
    """Books of sessions and churn."""

    def new(self, group_id: str, closed_ms: int) -> MemberBook:
        return MemberBook(group_id)

    def load(self, group_id: str, dumped: list[Any]) -> MemberBook:
        story, churn = dumped
        return MemberBook(group_id, MemberStory.load(story), ChurnCounts.load(churn))
