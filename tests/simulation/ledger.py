"""What a reader of a group's history believes, who knows its events and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.effects import HistoryRow
from coordinator.groups.causes import CauseKind

_COMERS = (
    CauseKind.MEMBER_JOINED,
    CauseKind.STATIC_MEMBER_REPLACED,
    CauseKind.STATIC_MEMBER_NOT_STORED,
)
"""Through these the member that a row names is a member from now on."""


@dataclass
class Ledger:
    """The state of one group and its members."""

    state: str
    members: set[str]

    def take(self, rows: Iterable[HistoryRow]) -> str | None:
        """Believe `rows`; returns the first that contradicts what is believed already."""
        for row in rows:
            gone = set(row.cause.removed)
            if row.from_state != self.state or not gone <= self.members:
                return f"{row} does not follow on {self}"
            self.members -= gone
            if row.cause.kind in _COMERS and row.cause.member_id is not None:
                self.members.add(row.cause.member_id)
            if row.member_count != len(self.members) or row.removed_count != len(gone):
                return f"{row} does not count {self}"
            self.state = row.to_state
        return None
