"""The time that is asked about, as people type it: in the local zone, since `why` shows its times in that."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from muster.groups.why.words import local

_CUT_MS = 999
"""A time to the second means all of that second, since times are shown without their fractions."""


def parse_moment(text: str, now_ms: int) -> int:
    """A time in ms since 1970: a time of day within the last 24 hours, or one with a date (ISO 8601).

    Without a zone it is local. Raises ValueError and OverflowError for what is no time, or none of a calendar.
    """
    moment = _time_of_day(text, now_ms) if ":" in text[:3] else datetime.fromisoformat(text)
    return round(moment.timestamp() * 1_000) + (0 if "." in text or "," in text else _CUT_MS)


def _time_of_day(text: str, now_ms: int) -> datetime:
    at = time.fromisoformat(text)
    now = local(now_ms).astimezone(at.tzinfo)
    found = datetime.combine(now.date(), at)
    if found.timestamp() * 1_000 > now_ms:
        found = datetime.combine(now.date() - timedelta(days=1), at)
    return found
