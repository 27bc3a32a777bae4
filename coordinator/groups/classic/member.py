"""One member of a group: the protocols it offers, its assignment, and the requests it has parked.

A member whose JoinGroup or SyncGroup is not answered yet is parked: of the request, the token to reply to and
the version to reply in are kept, never a future. Its session deadline is one integer that heartbeats push
forward; the timer is left where it is, and armed again when it fires too early.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.effects import ReplyTo
from coordinator.groups.causes import Cause
from coordinator.groups.margins import NOT_HEARD


class OfferedProtocol(NamedTuple):
    """A protocol that a member offers (an assignor, for consumers) and its metadata, opaque to the coordinator."""

    name: str
    metadata: bytes


class Parked(NamedTuple):
    """An unanswered request of a member: the token to reply to, and the API version to reply in."""

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
    is_new: bool = False  # Was in no generation yet: it can expire while parked (3.27).
    awaiting_join: Parked | None = None
    awaiting_sync: Parked | None = None
    session_deadline_ms: int = 0
    session_timer_ms: int | None = None  # When the session timer will fire; never after the deadline.
    least_left_ms: int = NOT_HEARD  # Of its session, when it was heard: see `margins`.
    least_left_before_ms: int = NOT_HEARD
    taken_over_by: tuple[str, str] | None = (
        None  # Static members: client id and host of the process that last took over the instance id.
    )

    @property
    def is_parked(self) -> bool:
        """Whether the member waits for the coordinator's answer; its session cannot expire then (3.55)."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    @property
    def is_static(self) -> bool:
        """Whether the member has an instance id, which outlives its member id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def origin(self) -> tuple[str, str]:
        """Client id and host of the process that is this member now, for the history that people read.

        DescribeGroups and the log keep those of the first process under the instance id, as Kafka's do.
        """
        return self.taken_over_by or (self.client_id, self.client_host)

    def in_session(self, cause: Cause, now_ms: int) -> Cause:
        """Return `cause` with this member's session; a parked member's session does not run."""
        left_ms = None if self.is_parked else self.session_deadline_ms - now_ms
        return cause.in_session(self.session_timeout_ms, left_ms)

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for `protocol_name`, which must be a protocol it offers."""
        for name, metadata in self.protocols:  # A generator takes three times as long.
            if name == protocol_name:
                return metadata
        raise AssertionError(f"{self.member_id} offers no {protocol_name}")

    def vote(self, candidates: Collection[str]) -> str:
        """Return the candidate that the member prefers; it must offer at least one of them."""
        return next(offered.name for offered in self.protocols if offered.name in candidates)

    def protocol_names(self) -> set[str]:
        """Return the names of the protocols that the member offers, each once even if it was sent twice."""
        return {offered.name for offered in self.protocols}
