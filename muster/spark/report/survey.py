"""Reads all tables once: the figures of every group, the span of time, and the groups that stand out.

A page can draw a few hundred of all groups. A group stands out if it is among the first by some measure
(time lost, lag, commits, churn, storms), taken in turn, so that no measure crowds the others out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from muster.spark.report.reading import GROUP, TablesReader
from muster.spark.report.totals import ROWS, TopRows, Totals, with_column
from muster.spark.tables import TABLES

DETAILED_GROUPS_MAX: Final = 200
"""The number of groups drawn in detail: with 480 steps of time each, some 3 MB of figures."""

RANKING_COLUMNS: Final = ("lost_ms", "lag_records", "lag_seconds", "per_second", "churn", "storms")
"""The columns by which groups are ranked as standing out; they take turns in this order."""

UNKNOWN: Final = "unknown"
"""A column of totals of rebalances: the number of those whose length is not known."""

_OF_GROUPS: Final[dict[str, tuple[dict[str, str], dict[str, str]]]] = {
    "rebalances": (
        {"duration_ms": "sum", ROWS: "sum", UNKNOWN: "sum"},
        {"duration_ms": "lost_ms", ROWS: "rebalances", UNKNOWN: "unknown_lengths"},
    ),
    "lag": ({"lag_records": "max", "lag_seconds": "max"}, {}),
    "commits": ({"per_second": "max", "commits": "sum", "noisy": "sum"}, {"noisy": "noisy_minutes"}),
    "churn": (
        {"joined": "sum", "left": "sum", "expired": "sum"},
        {"left": "gone"},
    ),
    "storms": ({ROWS: "sum"}, {ROWS: "storms"}),
    "members": ({ROWS: "sum"}, {ROWS: "sessions"}),
}
"""For each table, the columns that are totalled per group, and the names of the totals."""

_WORST: Final = ("lag_records", "lag_seconds")


@dataclass(slots=True)
class GroupSurvey:
    """`groups` has a row of totals per group id; `span_ms` is the first and the last moment in any table.

    `worst` has the row of `lag` with the largest lag_records, and the one with the largest lag_seconds, if any.
    """

    groups: pd.DataFrame
    span_ms: tuple[int, int] | None
    worst: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_cut: bool = False

    def detailed(self) -> list[str]:
        """The ids of the groups that stand out, the first of each measure first."""
        return standing_out(self.groups, DETAILED_GROUPS_MAX)


def survey(reader: TablesReader) -> GroupSurvey:
    """Read every table once, except dead letters, which have no group, and times chosen by clients."""
    frames, spans, is_cut = [], [], False
    worst = {name: TopRows(name, 1) for name in _WORST}
    for table, (how, names) in _OF_GROUPS.items():
        totals, at = Totals([GROUP], how), TABLES[table].day_of
        columns = [GROUP, at, *(column for column in how if column not in (ROWS, UNKNOWN))]
        for rows in reader.scan(table, [*columns, *(("topic", "partition") if table == "lag" else ())]):
            totals.add(with_unknown(rows) if UNKNOWN in how else rows)
            spans.append(pc.min_max(rows.column(at)).as_py())
            for column in _WORST if table == "lag" else ():
                worst[column].add(rows)
        frames.append(totals.result().rename(columns=names).set_index(GROUP))
        is_cut |= totals.is_cut
    found = {name: kept.result() for name, kept in worst.items()}
    return GroupSurvey(
        _joined_by_group(frames),
        _span(spans),
        {name: rows[0] for name, rows in found.items() if rows},
        is_cut,
    )


def standing_out(
    groups: pd.DataFrame, groups_max: int, measures: Sequence[str] = RANKING_COLUMNS
) -> list[str]:
    """At most `groups_max` group ids, taken from each measure's ranking in turns; groups without figures last."""
    orders = [
        groups[name][groups[name] > 0].nlargest(groups_max).index for name in measures if name in groups
    ]
    turns: Iterable[str] = (
        order[turn] for turn in range(groups_max) for order in orders if turn < len(order)
    )
    return list(dict.fromkeys([*turns, *sorted(groups.index[:groups_max])]))[:groups_max]


def unknown_groups(reader: TablesReader, found: GroupSurvey) -> list[str]:
    """The selected groups that no table has."""
    return [group for group in reader.selection.groups if group not in found.groups.index]


def _joined_by_group(frames: list[pd.DataFrame]) -> pd.DataFrame:
    groups = pd.concat(frames, axis=1)
    groups = groups[groups.index.notna()].astype(float).replace([np.inf, -np.inf], np.nan)
    groups["churn"] = groups[["joined", "gone", "expired"]].sum(axis=1)
    return groups


def _span(spans: list[dict[str, int]]) -> tuple[int, int] | None:
    return (min(each["min"] for each in spans), max(each["max"] for each in spans)) if spans else None


def with_unknown(rows: pa.Table) -> pa.Table:
    """Rebalances with the column UNKNOWN: 1 for each whose length is not known."""
    return with_column(rows, UNKNOWN, pc.is_null(rows.column("duration_ms")).cast(pa.int64()))


def only(groups: Sequence[str], rows: pa.Table) -> pa.Table:
    """The rows of `groups` alone."""
    return rows.filter(pc.is_in(rows.column(GROUP), pa.array(groups, pa.string())))
