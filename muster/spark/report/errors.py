"""The error that ends a report, in a module that can be imported without pyarrow."""

from __future__ import annotations


class ReportError(Exception):
    """No report can be made; the message is a sentence that says why."""
