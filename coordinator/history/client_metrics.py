"""What a member's own client said of itself (KIP-714), put beside the event of its departure.

A figure stays as it was when the member went; later pushes say nothing of that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from coordinator.effects import HistoryRow
from coordinator.groups.causes import DEPARTURES

Latest: TypeAlias = Callable[[str, str | None, str, str], Mapping[str, int] | None]
"""Returns what the client of a member said lately, by group id, member id, client id and host."""


def with_client_metrics(row: HistoryRow, latest: Latest) -> HistoryRow:
    """Return the row with what the client behind it said lately; as it is, if it is of no departure."""
    cause = row.cause
    if cause.kind not in DEPARTURES or cause.client_id is None or cause.client_host is None:
        return row
    said = latest(row.group_id, cause.member_id, cause.client_id, cause.client_host)
    return row if said is None else row._replace(phase={**(row.phase or {}), "client_metrics": said})
