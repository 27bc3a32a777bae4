"""Figures of members: single sessions, sessions by length, and the clients that join and leave most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from muster.spark.report.reading import GROUP, TablesReader
from muster.spark.report.survey import only
from muster.spark.report.totals import ROWS, TopRows, Totals, per_group, with_column

SESSIONS_PER_GROUP: Final = 60
SESSIONS_MAX: Final = 3_000
CHURNERS_PER_GROUP: Final = 12
"""The number of clients in the list of one group, and in the list of all groups together."""

LENGTHS_MS: Final = (1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000)
"""Bounds between the classes of session lengths, in ms: 1 s, 10 s, 1 min, 10 min, 1 h, 6 h, 1 day."""

UNKNOWN_LENGTH: Final = len(LENGTHS_MS) + 1
"""The class of sessions with unknown length: they began before the topic does."""

CHURN: Final = ("total", "joined", "left", "expired")


@dataclass(frozen=True, slots=True)
class Sessions:
    """`lengths` counts sessions by group (null: all), class of length and ended_by; `bars` has the newest.

    `seen` is the number of sessions of the groups in detail.
    """

    lengths: pd.DataFrame
    bars: list[dict[str, Any]]
    seen: int


def sessions(reader: TablesReader, groups: Sequence[str]) -> Sessions:
    """The ended sessions: counts of all groups, and single sessions of `groups`."""
    lengths = Totals([GROUP, "length", "ended_by"], {ROWS: "sum"})
    for rows in reader.scan("members", [GROUP, "duration_ms", "ended_by"]):
        rows = with_column(rows, "length", length_class(rows.column("duration_ms")))
        lengths.add(with_column(rows, GROUP, pa.nulls(rows.num_rows, pa.string())))
        lengths.add(only(groups, rows))
    newest = TopRows("ended_at", SESSIONS_MAX, GROUP, per_group(SESSIONS_MAX, SESSIONS_PER_GROUP, groups))
    columns = (
        "member_id",
        "client_id",
        "client_host",
        "group_instance_id",
        "started_at",
        "ended_at",
        "duration_ms",
    )
    for rows in reader.scan("members", [GROUP, *columns, "joined_by", "ended_by"], groups=groups):
        newest.add(rows)
    return Sessions(lengths.result(), newest.result(), newest.row_count)


def length_class(duration_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    """The class of each length: 0 below LENGTHS_MS[0], and so on; UNKNOWN_LENGTH for null."""
    found = pa.chunked_array([pa.nulls(len(duration_ms), pa.int64()).fill_null(0)])
    for limit in LENGTHS_MS:
        found = pc.add(found, pc.greater_equal(duration_ms, limit).cast(pa.int64()))
    return pc.fill_null(found, UNKNOWN_LENGTH)


def churners(reader: TablesReader, groups: Sequence[str]) -> tuple[pd.DataFrame, bool]:
    """The clients with most joins, leaves and expiries, of all groups and of each; whether totals were cut."""
    totals = Totals([GROUP, "client_id", "client_host"], dict.fromkeys(CHURN, "sum"))
    for rows in reader.scan("churn", [GROUP, "client_id", "client_host", *CHURN[1:]]):
        joined, left, expired = (rows.column(name) for name in CHURN[1:])
        totals.add(with_column(rows, "total", pc.add(pc.add(joined, left), expired)))
    found = totals.result().sort_values("total", ascending=False, ignore_index=True)
    of_each = found[found[GROUP].isin(groups)].groupby(GROUP).head(CHURNERS_PER_GROUP)
    foremost = pd.concat([found.head(CHURNERS_PER_GROUP), of_each])
    return foremost[~foremost.index.duplicated()], totals.is_cut
