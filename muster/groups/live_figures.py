"""Figures of groups that only a Muster keeps, over HTTP: the time lost in rebalances, the margin of heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from muster.http_api import HttpApi, NoHttp

PAGE: Final = "1000"
PAGES_MAX: Final = 10
"""No table of more groups is read; those beyond have no such figures."""


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """Of one group: ms spent in rebalances since the daemon started, and the least share of a session left."""

    lost_ms: int | None = None
    margin: float | None = None


NOT_KNOWN: Final = LiveFigures()


async def live_figures(api: HttpApi | None) -> dict[str, LiveFigures]:
    """The figures by group id; none where no HTTP has them."""
    found: dict[str, LiveFigures] = {}
    cursor: str | None = ""
    try:
        for _ in range(0 if api is None else PAGES_MAX):
            assert api is not None, "there are pages"
            page = await api.get("/api/v1/groups", limit=PAGE, sort="-lag", after=cursor or "")
            found |= {str(each["group"]): _figures(each) for each in page["groups"]}
            if not (cursor := page["next"]):
                break
    except (NoHttp, KeyError, TypeError, ValueError):
        return {}  # The table has what Kafka's protocol says.
    return found


def _figures(each: dict[str, Any]) -> LiveFigures:
    lost_ms, margin = each["lost_ms"], each["margin"]
    return LiveFigures(None if lost_ms is None else int(lost_ms), None if margin is None else float(margin))
