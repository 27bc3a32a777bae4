"""Figures over time per group, in steps of time that are as wide as the page can draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
import pyarrow as pa

from muster.spark.report.reading import GROUP, TablesReader
from muster.spark.report.totals import Totals, floored, with_column

MINUTE_MS: Final = 60_000
DAY_MS: Final = 1_440 * MINUTE_MS
STEPS_MS: Final = tuple(
    minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1_440)
)
"""Possible widths of a step: whole minutes that divide a day."""

LINE_STEPS_MAX: Final = 480
"""The number of steps in a line; a chart has about two pixels for each."""

BAR_STEPS_MAX: Final = 72

AT: Final = "at_ms"


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of equal width that cover a span of time; `begin_ms` is the begin of the first."""

    begin_ms: int
    end_ms: int
    width_ms: int

    @classmethod
    def over(cls, span_ms: tuple[int, int], steps_max: int) -> Steps:
        """The narrowest steps of which `steps_max` cover the span; for very long spans, steps of whole days."""
        first, last = span_ms
        fitting = (width for width in STEPS_MS if last // width - first // width < steps_max)
        days = (last - first) // DAY_MS // max(steps_max - 1, 1) + 1
        width = next(fitting, days * DAY_MS)
        return cls(first // width * width, last // width * width + width, width)

    def position(self, at_ms: pd.Series) -> pd.Series:
        return (at_ms - self.begin_ms) // self.width_ms


def series(
    reader: TablesReader,
    table: str,
    steps: Steps,
    groups: Sequence[str],
    how: Mapping[str, str],
) -> pd.DataFrame:
    """The worst minute of each step per group: `how` ("sum" or "max") over the rows of a minute, then the largest.

    Columns: group_id, at_ms (begin of the step), and those of `how`; null where nothing is known. Steps without a
    row are left out. Read day by day, so that the minutes of one day are in memory at a time.
    """
    worst = Totals([GROUP, AT], dict.fromkeys(how, "max"))
    for day in reader.days(table):
        minutes = Totals([GROUP, "minute"], how)
        for rows in reader.scan(table, [GROUP, "minute", *how], groups=groups, days=[day]):
            minutes.add(rows)
        found = minutes.result()
        if len(found):
            rows = pa.Table.from_pandas(found, preserve_index=False)
            worst.add(with_column(rows, AT, floored(rows.column("minute"), steps.width_ms)))
    return worst.result().sort_values([GROUP, AT], ignore_index=True)
