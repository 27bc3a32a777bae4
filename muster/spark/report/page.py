"""Makes one page of HTML from a report's document, with style, scripts, figures and plotly.js in it.

Its Content-Security-Policy allows these very scripts, by their hashes, and no request to anywhere. Styles are
allowed inline, for plotly sets them so. What clients chose is in the figures alone, as JSON that cannot end its
<script>, and in the sentences on top, escaped.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from muster.spark.report.errors import ReportError
from muster.spark.report.report import Report
from muster.spark.report.texts import as_json

SCRIPTS: Final = ("text.js", "state.js", "plots.js", "charts.js", "lists.js", "page.js")
"""The page's scripts, in the order in which they depend on each other."""

_PLACE: Final = re.compile(r"@@([A-Z]+)@@")
_SPAN_FORMAT: Final = "%-d %B %Y %H:%M"


def html_page(report: Report, title: str, made_at: datetime) -> str:
    """The page as HTML; `title` is any text of the user's, `made_at` an aware datetime."""
    plotly = plotly_js()
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();\n"
    return filled(
        _asset("page.html"),
        {
            "POLICY": policy(plotly, script),
            "TITLE": escape(title),
            "STYLE": _asset("style.css"),
            "SPAN": _span(report.document["span"]),
            "PROBLEMS": _problems(report.problems),
            "MADE": made_at.astimezone(UTC).strftime(_SPAN_FORMAT),
            "DATA": as_json(report.document).decode(),
            "PLOTLY": plotly,
            "SCRIPT": script,
        },
    )


def plotly_js() -> str:
    """The source of plotly.js from the package plotly. Raises ReportError if it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError:
        raise ReportError("plotly is not installed: pip install 'muster[spark]'") from None
    script = str(get_plotlyjs())
    return script.replace("</script", "<\\/script")


def policy(*scripts: str) -> str:
    """The Content-Security-Policy under which these scripts run and nothing is fetched."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its placeholders replaced in one pass: replaced text is not scanned again."""
    return _PLACE.sub(lambda place: values[place[1]], template)


def write_page(page: str, out: Path) -> int:
    """Write the page as a whole, or leave an earlier file; return its size in bytes. Raises ReportError."""
    content = page.encode("utf-8", errors="replace")
    try:
        with NamedTemporaryFile(dir=out.parent, prefix=f".{out.name[:100]}.", delete=False) as draft:
            try:
                draft.write(content)
                draft.flush()
                os.fchmod(draft.fileno(), 0o666 & ~_umask())
                os.replace(draft.name, out)
            except BaseException:  # Raised again; only so that no draft is left.
                os.unlink(draft.name)
                raise
    except OSError as error:
        raise ReportError(f"{out} cannot be written: {error.strerror or error}") from None
    return len(content)


def _asset(name: str) -> str:
    return (files("muster.spark.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _span(span_ms: list[int] | None) -> str:
    if span_ms is None:
        return "The tables have nothing in this time."
    begin, end = (_shown(each) for each in span_ms)
    return f"{begin} to {end} UTC"


def _shown(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(_SPAN_FORMAT)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms after 1970"


def _problems(problems: list[str]) -> str:
    if not problems:
        return ""
    items = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    return f'<div class="warning" role="note">Something is missing here:<ul>{items}</ul></div>'


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
