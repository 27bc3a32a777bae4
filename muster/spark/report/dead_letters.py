"""Figures of dead letters: how many records a job could not use, and why. They belong to no group."""

from __future__ import annotations

from typing import Final

import pandas as pd

from muster.spark.report.reading import TablesReader
from muster.spark.report.totals import ROWS, Totals

REASONS_MAX: Final = 25


def dead_letters(reader: TablesReader) -> tuple[pd.DataFrame, int]:
    """The most frequent (job, source_topic, reason) with `rows` and last `seen_at`; the number of dead letters."""
    by_reason = Totals(["job", "source_topic", "reason"], {ROWS: "sum", "seen_at": "max"})
    count = 0
    for rows in reader.scan("dead_letters", ["job", "seen_at", "source_topic", "reason"]):
        count += rows.num_rows
        by_reason.add(rows)
    found = by_reason.result()
    return found.nlargest(REASONS_MAX, ROWS) if len(found) else found, count
