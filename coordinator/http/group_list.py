"""`/api/v1/groups`: all groups of both kinds, a page of them, by any of their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import GroupState as ClassicState
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.states import GroupState as ConsumerState
from coordinator.http.exchange import Question, Steps
from coordinator.http.pages import Key, Page, folded, sort_of, words_of
from coordinator.http.parts import in_parts
from coordinator.metrics.figures import GroupFigures
from coordinator.metrics.metrics import Metrics
from coordinator.runtime.loop import Runtime

PARAMETERS: Final = frozenset({"q", "state", "type", "sort", "limit", "after"})
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
TYPES: Final = (CLASSIC, CONSUMER)
STATES: Final = tuple(
    dict.fromkeys(state.value for states in (ClassicState, ConsumerState) for state in states)
)


class Row(NamedTuple):
    """One group in a few figures, in the state that it had when it was looked at."""

    group_id: str
    type: str
    state: str
    members: int
    generation: int
    protocol: str | None

    def fields(self, lag: int | None, figures: GroupFigures | None) -> dict[str, Any]:
        """As the API shows it; figures of a group that has gone meanwhile are None."""
        return {
            "group": self.group_id,
            "type": self.type,
            "state": self.state,
            "members": self.members,
            "generation": self.generation,
            "protocol": self.protocol,
            "lag": lag,
            "lag_seconds": None if figures is None else figures.lag.seconds,
            "rebalances": None if figures is None else sum(figures.rebalances.values()),
            "lost_ms": None if figures is None else sum(figures.lost_ms.values()),
            "last_cause": None if figures is None else figures.last_cause,
            "margin": None if figures is None else figures.margin,
        }


def classic_row(group: Group) -> Row:
    return Row(
        group.group_id,
        CLASSIC,
        group.state.value,
        len(group.members),
        group.generation_id,
        group.protocol_name,
    )


def consumer_row(group: ConsumerGroup, default_assignor: str) -> Row:
    """The row of a consumer group; its generation is its epoch."""
    protocol = group.assignor_votes.preferred or default_assignor
    return Row(group.group_id, CONSUMER, group.state.value, len(group.members), group.epoch, protocol)


class GroupList:
    """Finds the groups of a page."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self._keys: Mapping[str, Callable[[Row], float | str | None]] = {
            "group": lambda row: "",
            "state": lambda row: row.state,
            "members": lambda row: row.members,
            "generation": lambda row: row.generation,
            "lag": lambda row: metrics.lag_records(row.group_id),
            "lag_seconds": lambda row: metrics.lag_seconds(row.group_id),
            "rebalances": lambda row: metrics.rebalance_count(row.group_id),
            "lost_ms": lambda row: metrics.lost_ms(row.group_id),
            "margin": lambda row: metrics.margin(row.group_id),
        }

    def answer(self, question: Question) -> Steps:
        """The groups that match, without those of shards that are not loaded, whose number is reported."""
        sort, is_descending = sort_of(question, self._keys, "group")
        page = Page(question, sort, is_descending=is_descending)
        yield from page.fill(self._found(question, sort, is_descending=is_descending))
        yield from in_parts(
            {
                "groups": map(self._fields, page.things),
                "matched": page.matched,
                "shards_not_loaded": sum(runner.shard is None for runner in self._runtime.runners),
                "next": page.cursor,
            }
        )

    def _fields(self, row: Row) -> dict[str, Any]:
        return row.fields(self._metrics.lag_records(row.group_id), self._metrics.figures(row.group_id))

    def _found(
        self, question: Question, sort: str, *, is_descending: bool
    ) -> Iterator[tuple[Key, Row] | None]:
        """Each group with its key; those without a figure come last, whichever way it is sorted."""
        text = folded(question.query.get("q", ""))
        states, types = words_of(question, "state", STATES), words_of(question, "type", TYPES)
        figure = self._keys[sort]
        for row in self._rows():
            is_wanted = (
                (not text or text in folded(row.group_id))
                and (not states or row.state.lower() in states)
                and (not types or row.type in types)
            )
            if not is_wanted:
                yield None
                continue
            value = figure(row)
            is_last = value is None
            yield (is_last != is_descending, 0 if value is None else value, row.group_id), row

    def _rows(self) -> Iterator[Row]:
        for runner in self._runtime.runners:
            shard = runner.shard
            if shard is None:
                continue
            for group in tuple(shard.groups.values()):
                yield classic_row(group)
            for consumer_group in tuple(shard.consumer_groups.values()):
                yield consumer_row(consumer_group, shard.consumers.settings.assignors[0])
