"""One member of a group: what it offers, what it was given, and what it waits for.

A member that waits in JoinGroup or SyncGroup is parked: the request is kept as a name to reply to and
the version to reply in, never as a future. Its deadline is one integer that heartbeats push forward;
the timer behind it is left where it is and re-armed when it fires too early.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.effects import ReplyTo


class OfferedProtocol(NamedTuple):
    """One protocol a member speaks (an assignor, for consumers) and what it says there, opaque to us."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Parked:
    """A request that waits on the member: whom to answer, and in which version."""

    reply_to: ReplyTo
    api_version: int


@dataclass(slots=True)
class Member:
    """A member of the living group. Times are ms on the monotonic clock, timeouts in ms."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]  # In its order of preference.
    assignment: bytes = b""
    is_new: bool = False  # Never yet in a generation: it can expire while parked (3.27).
    awaiting_join: Parked | None = None
    awaiting_sync: Parked | None = None
    session_deadline_ms: int = 0
    session_timer_ms: int | None = None  # Where the timer is armed; never after the deadline.
    taken_over_by: tuple[str, str] | None = (
        None  # Client id and host of the process that is it now, if static.
    )

    @property
    def is_parked(self) -> bool:
        """Waiting on our account: it cannot be late (3.55)."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    @property
    def is_static(self) -> bool:
        """Known by an instance id that outlives its connections (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def origin(self) -> tuple[str, str]:
        """Client id and host of the process that is this member now, for people who look for it.

        Kafka goes on to describe, and store, those of the process that was it first.
        """
        return self.taken_over_by or (self.client_id, self.client_host)

    def metadata(self, protocol_name: str) -> bytes:
        """What it offers under `protocol_name`, which must be one of its own."""
        return next(offered.metadata for offered in self.protocols if offered.name == protocol_name)

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate it likes best; the candidates must be protocols that every member speaks."""
        return next(offered.name for offered in self.protocols if offered.name in candidates)

    def protocol_names(self) -> set[str]:
        """The names it offers, each once even if it was sent twice."""
        return {offered.name for offered in self.protocols}
