"""What a reader of a group's history believes, who knows its events and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind

_COMERS = (
    CauseKind.MEMBER_JOINED.slug,
    CauseKind.STATIC_MEMBER_REPLACED.slug,
    CauseKind.STATIC_MEMBER_NOT_STORED.slug,
)
"""Through these the member that an event names is a member from now on."""


@dataclass
class Ledger:
    """The state of one group and its members."""

    state: str
    members: set[str]

    def take(self, events: Iterable[GroupEvent]) -> str | None:
        """Believe `events`; returns the first that contradicts what is believed already."""
        for event in events:
            gone = set(event.removed_member_ids)
            if event.from_state != self.state or not gone <= self.members:
                return f"{event} does not follow on {self}"
            self.members -= gone
            if event.cause in _COMERS and event.member_id is not None:
                self.members.add(event.member_id)
            if event.member_count != len(self.members) or event.removed_count != len(gone):
                return f"{event} does not count {self}"
            self.state = event.to_state
        return None
