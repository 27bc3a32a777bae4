"""How many members of a group came and went in each hour, by client.

Every session that begins or ends counts in the hour in which it did. An hour gets its row when it is over; for
sessions that are found out later, or come late, the hour gets another row: its rows add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coordinator.groups.causes import CauseKind

HOUR_MS: Final = 3_600_000

EXPIRED: Final = frozenset(
    kind.slug
    for kind in (
        CauseKind.SESSION_EXPIRED,
        CauseKind.NEW_MEMBER_JOIN_TIMEOUT,
        CauseKind.REBALANCE_TIMEOUT,
        CauseKind.INITIAL_DELAY_OVER,  # These three end a join phase and name the members that did not join.
        CauseKind.JOIN_PHASE_EXTENDED,
        CauseKind.GROUP_EMPTIED,
        CauseKind.SYNC_TIMEOUT,
        CauseKind.REVOCATION_TIMEOUT,
        CauseKind.REJOIN_TIMEOUT,
    )
)
"""Causes by which a member expires, as it sent nothing in time. By any other a member leaves or is removed."""

CLIENTS_MAX: Final = 1_000
"""The number of clients of one group that are counted apart at a time; the others are counted with null ids."""

Client = tuple[int, str | None, str | None]  # The hour's begin in ms, the client id and the client's host.


class Churn(NamedTuple):
    """A row of the table `churn`; times in ms since 1970."""

    window_start: int
    window_end: int
    group_id: str
    client_id: str | None
    client_host: str | None
    joined: int
    left: int
    expired: int


@dataclass(slots=True)
class ChurnCounts:
    """Numbers of sessions of one group that joined, left and expired, by hour and client."""

    counts: dict[Client, list[int]] = field(default_factory=dict)

    def joined(self, at_ms: int, client_id: str | None, client_host: str | None) -> None:
        self._of(at_ms, client_id, client_host)[0] += 1

    def ended(self, at_ms: int, client_id: str | None, client_host: str | None, cause: str) -> None:
        self._of(at_ms, client_id, client_host)[2 if cause in EXPIRED else 1] += 1

    def _of(self, at_ms: int, client_id: str | None, client_host: str | None) -> list[int]:
        key = (at_ms - at_ms % HOUR_MS, client_id, client_host)
        if key not in self.counts and len(self.counts) >= CLIENTS_MAX:
            key = (key[0], None, None)
        return self.counts.setdefault(key, [0, 0, 0])

    def close(self, group_id: str, until_ms: int) -> list[Churn]:
        """Remove the counts of hours that end by `until_ms`, and return them as rows."""
        over = [key for key in self.counts if key[0] + HOUR_MS <= until_ms]
        return [
            Churn(key[0], key[0] + HOUR_MS, group_id, key[1], key[2], *self.counts.pop(key)) for key in over
        ]

    def due_ms(self) -> int | None:
        """The end of the earliest hour with counts; None without any."""
        return min((key[0] + HOUR_MS for key in self.counts), default=None)

    def dump(self) -> list[Any]:
        """The counts for `load`, as values that fit into JSON."""
        return [[*key, *counts] for key, counts in self.counts.items()]

    @classmethod
    def load(cls, dumped: list[Any]) -> ChurnCounts:
        return cls({(hour, client_id, host): counts for hour, client_id, host, *counts in dumped})
