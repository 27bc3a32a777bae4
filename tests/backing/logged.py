"""What complaints have said, of what the fixture `logs` has."""

from __future__ import annotations

from structlog.typing import EventDict


def said(logs: list[EventDict]) -> list[tuple[str, str]]:
    """About what, and why; since it was last looked at."""
    found = [(each["about"], each["reason"]) for each in logs if each["log_level"] == "warning"]
    logs.clear()
    return found
