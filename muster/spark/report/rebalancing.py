"""Figures of rebalances: by cause, over time, the longest ones of each group, and storms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from muster.spark.report.reading import GROUP, TablesReader
from muster.spark.report.series import AT, Steps
from muster.spark.report.survey import UNKNOWN, only, with_unknown
from muster.spark.report.totals import ROWS, TopRows, Totals, floored, per_group, with_column

BARS_PER_GROUP: Final = 60
BARS_MAX: Final = 3_000
"""The number of rebalances drawn as bars, the longest; with their reasons and clients some 1 MB."""

STORMS_PER_GROUP: Final = 20
STORMS_MAX: Final = 600
CAUSES_MAX: Final = 30
"""The number of causes that are counted apart, of the 36 that Muster has: not all of them begin rebalances."""

OTHER_CAUSES: Final = "other_causes"

_EXTENT: Final = "extent_ms"
_COUNTED: Final = ("started_at", "ended_at", "cause", "duration_ms")
_DRAWN: Final = (
    "generation_id", "join_ms", "sync_ms", "attempts", "reason", "causes", "member_id", "client_id", "client_host",
    "last_member_id", "last_client_id", "last_client_host", "last_arrival_ms", "member_count", "outcome",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """`causes` has a row per group (null: all groups) and cause; `pace` has one per group, cause and step of time.

    Rebalances whose length is not known are counted in a column of their own, and in no sum of lengths.
    `bars` are the longest rebalances of groups in detail; `seen` is the number of all rebalances of these groups.
    """

    causes: pd.DataFrame
    pace: pd.DataFrame
    bars: list[dict[str, Any]]
    seen: int


def rebalancing(reader: TablesReader, steps: Steps, groups: Sequence[str]) -> Rebalancing:
    """Read the table `rebalances` twice: the counted columns of all groups, then all columns of `groups`."""
    sums = {"duration_ms": "sum", ROWS: "sum", UNKNOWN: "sum"}
    causes = Totals([GROUP, "cause"], {**sums, "longest_ms": "max"})
    pace = Totals([GROUP, AT, "cause"], sums)
    for rows in reader.scan("rebalances", [GROUP, *_COUNTED]):
        rows = with_unknown(with_column(rows, "longest_ms", rows.column("duration_ms")))
        rows = with_column(rows, AT, floored(rows.column("ended_at"), steps.width_ms))
        for counted in _of_all_and_of_each(rows, groups):
            causes.add(counted)
            pace.add(counted)
    bars = TopRows(_EXTENT, BARS_MAX, GROUP, per_group(BARS_MAX, BARS_PER_GROUP, groups))
    for rows in reader.scan("rebalances", [GROUP, *_COUNTED, *_DRAWN], groups=groups):
        bars.add(with_column(rows, _EXTENT, _extent(rows)))
    known = _frequent(causes.result())
    return Rebalancing(
        _with_other(causes.result(), known, [GROUP, "cause"], {**sums, "longest_ms": "max"}),
        _with_other(pace.result(), known, [GROUP, AT, "cause"], sums),
        sorted(bars.result(), key=lambda bar: (bar[GROUP], bar["started_at"])),
        bars.row_count,
    )


def _extent(rows: pa.Table) -> pa.ChunkedArray:
    """How long each bar is: where its length is not known, from the begin that is known to the end."""
    between = pc.subtract(rows.column("ended_at"), rows.column("started_at"))
    return pc.coalesce(rows.column("duration_ms"), between)


def storms(reader: TablesReader, groups: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """The windows with the largest shares, by group and time; the number of all storms of these groups."""
    columns = (GROUP, "window_start", "window_end", "rebalances", "rebalancing_ms", "share")
    worst = TopRows("share", STORMS_MAX, GROUP, per_group(STORMS_MAX, STORMS_PER_GROUP, groups))
    for rows in reader.scan("storms", columns, groups=groups):
        worst.add(rows)
    return sorted(worst.result(), key=lambda row: (row[GROUP], row["window_start"])), worst.row_count


def _of_all_and_of_each(rows: pa.Table, groups: Sequence[str]) -> Iterator[pa.Table]:
    yield with_column(rows, GROUP, pa.nulls(rows.num_rows, pa.string()))
    yield only(groups, rows)


def _frequent(causes: pd.DataFrame) -> set[str]:
    of_all = causes[causes[GROUP].isna()]
    return set(of_all.nlargest(CAUSES_MAX, ROWS)["cause"])


def _with_other(frame: pd.DataFrame, known: set[str], keys: list[str], how: dict[str, str]) -> pd.DataFrame:
    """The frame with all causes that are not in `known` added up as OTHER_CAUSES; a sum of none stays null."""
    if frame.empty:
        return frame
    frame["cause"] = frame["cause"].where(frame["cause"].isin(known), OTHER_CAUSES)
    frame = frame.groupby(keys, dropna=False, as_index=False).agg(how)
    frame["duration_ms"] = frame["duration_ms"].mask(frame[UNKNOWN] == frame[ROWS])
    return frame
