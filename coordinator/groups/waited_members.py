"""What a rebalance that is on waits for: which members have come, which have not, and what is known of those.

`Waiting` is the same for all kinds of groups; each kind has a function that returns it, of a group and the time.
The lists are iterators over a copy of the members, so that ten thousand are looked at a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, unique
from typing import Final, NamedTuple

HEARTBEAT_INTERVAL_MS: Final = 3_000
"""The default heartbeat.interval.ms of Java and librdkafka, whatever the session is. No request has it."""
HEARTBEATS_PER_SESSION: Final = 3
"""As clients advise it: who sets a longer interval sets it to a third of the session at most."""
LATE_HEARTBEAT_MS: Final = 1_000
"""So much later than its interval the heartbeat of a healthy client may come."""


@unique
class Says(Enum):
    """What a member that is waited for says by what it sends: a slug for programs, and a text for people."""

    HEARTBEATS = "heartbeats", "heartbeats, but does not poll"
    NOT_HEARD = "not_heard", "has sent nothing since the rebalance began"
    SILENT = "silent", "sends nothing, not even heartbeats"
    ID_UNUSED = "id_unused", "was given a member id, and has not joined with it yet"
    LEADS = "leads", "is the leader, whose assignment is waited for"
    SYNCS_NOT = "syncs_not", "has joined, and has not asked for its assignment yet"
    GIVES_UP = "gives_up", "has partitions that it has not given up yet"
    AWAITS = "awaits", "waits for partitions that others have not given up yet"
    BEHIND = "behind", "has not come for its assignment yet"
    AWAY = "away", "has left for now; its place is kept"

    def __init__(self, slug: str, text: str) -> None:
        self.slug = slug
        self.text = text


class Waited(NamedTuple):
    """A member that is waited for; `heard_ms` is how long ago it was heard, None where that is not known."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    heard_ms: int | None
    says: Says
    ends_in_ms: int | None = None  # Until it is waited for no more, if it has a time of its own.


class Waiting(NamedTuple):
    """What a rebalance waits for. `ends_in_ms` is how long it waits at most; None where each member has a time."""

    joined_count: int
    missing_count: int
    joined: Iterator[str]
    missing: Iterator[Waited]
    ends_in_ms: int | None


def heard_ms(deadline_ms: int, timeout_ms: int, now_ms: int) -> int:
    """How long ago a member was heard: each time, its session was set to end so much later."""
    return max(now_ms - (deadline_ms - timeout_ms), 0)


def is_silent(heard_ms_ago: int, timeout_ms: int, interval_ms: int = HEARTBEAT_INTERVAL_MS) -> bool:
    """Whether it has missed a heartbeat; only if it has by the default interval and by a third of its session."""
    longest_ms = max(timeout_ms // HEARTBEATS_PER_SESSION, interval_ms)
    return heard_ms_ago > longest_ms + LATE_HEARTBEAT_MS
