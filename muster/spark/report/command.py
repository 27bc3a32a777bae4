"""Runs `muster spark report`: refuses wrong options, makes the page, and puts it in its place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from muster.sentences import say
from muster.spark.report.errors import ReportError

NEEDED: Final = ("pyarrow", "pandas", "plotly")
"""The packages that make a report; the extra `spark` has them."""


def write_report(
    tables: Path, out: Path, groups: Sequence[str], begin: str | None, end: str | None, title: str
) -> str:
    """Make the page `out` from the tables; return a line about it. Raises ReportError, a sentence.

    What could not be read is listed on standard error, and on the page.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ReportError(f"{' and '.join(missing)} not installed: pip install 'muster[spark]'")
    from_ms, to_ms = parse_moment("from", begin), parse_moment("to", end)
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise ReportError(f"--from {begin} is not before --to {end}")
    require_place(out)
    from muster.spark.report.page import html_page, write_page
    from muster.spark.report.reading import Selection
    from muster.spark.report.report import make_report

    report = make_report(tables, Selection(tuple(groups), from_ms, to_ms))
    size = write_page(html_page(report, title, datetime.now(UTC)), out)
    for problem in report.problems:
        say(problem)
    return f"{out}: {report.groups:,} groups, {report.rebalances:,} rebalances, {size / 1e6:.1f} MB"


def parse_moment(option: str, text: str | None) -> int | None:
    """A date, or date and time, UTC unless it has a zone, in ms since 1970; None for None. Raises ReportError."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ReportError(f"--{option} {text} is no moment: 2026-03-02 or 2026-03-02T06:00, in UTC") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def require_place(out: Path) -> None:
    """Raises ReportError, before anything is read, if no file can be written at `out`."""
    if out.is_dir():
        raise ReportError(f"{out} is a folder; --out is the page to write, an HTML file")
    if not out.absolute().parent.is_dir():
        raise ReportError(f"there is no folder {out.absolute().parent} for {out.name}")
