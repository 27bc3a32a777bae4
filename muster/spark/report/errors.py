"""What ends a report. Here, so that it can be caught where pyarrow is not installed."""

from __future__ import annotations


class ReportError(Exception):
    """No report can be made; the message is a sentence that says why."""
