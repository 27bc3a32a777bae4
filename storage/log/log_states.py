"""The states of a log in use, and what moves it from one to the next.

A log that has failed is cut back to its durable end before it takes anything again. After a full disk it is then
paused until there is space. What cannot be cut back or opened is tried again later, unless it is damaged: that
is left to an operator. While its topic is being deleted a log is closed; it goes on where the deletion fails.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class LogState(Enum):
    """Of a `DurableLog`."""

    RECOVERING = auto()  # Opened, or cut back, off the loop; it serves afterwards.
    RECOVERING_FULL = auto()  # Cut back after the disk was full; it is paused afterwards.
    ACTIVE = auto()  # It takes appends. In every other state it takes none.
    PAUSED = auto()  # There is no disk space; what is durable is read.
    OFFLINE = auto()  # It could not be opened, read or cut back; that is tried again later.
    CORRUPT = auto()  # It could not be, and time does not heal that.
    CLOSED = auto()  # Its topic is being deleted, or was.
    CLOSED_FAILED = auto()  # Likewise, and it is to be cut back if the deletion fails.


class LogTrigger(Enum):
    """What happens to a `DurableLog`."""

    FAILED = auto()  # An append, a flush, or the state that its owner keeps of it.
    DISK_FULL = auto()  # Likewise, or its recovery, for want of disk space.
    RECOVERED = auto()
    UNUSABLE = auto()  # It could not be recovered, or read; perhaps it can later.
    DAMAGED = auto()  # It could not be, and never will be.
    SPACE_FOUND = auto()
    RETRIED = auto()
    CLOSED = auto()  # The deletion of its topic begins.
    REOPENED = auto()  # That failed.


RECOVERING: Final = LogState.RECOVERING
RECOVERING_FULL: Final = LogState.RECOVERING_FULL
ACTIVE: Final = LogState.ACTIVE
PAUSED: Final = LogState.PAUSED
OFFLINE: Final = LogState.OFFLINE
CORRUPT: Final = LogState.CORRUPT
CLOSED: Final = LogState.CLOSED
CLOSED_FAILED: Final = LogState.CLOSED_FAILED

TRANSITIONS: Final = {
    (RECOVERING, LogTrigger.RECOVERED): ACTIVE,
    (RECOVERING_FULL, LogTrigger.RECOVERED): PAUSED,
    (RECOVERING_FULL, LogTrigger.SPACE_FOUND): RECOVERING,
    (PAUSED, LogTrigger.SPACE_FOUND): ACTIVE,
    (ACTIVE, LogTrigger.FAILED): RECOVERING,
    (ACTIVE, LogTrigger.DISK_FULL): RECOVERING_FULL,
    (PAUSED, LogTrigger.FAILED): RECOVERING_FULL,
    (PAUSED, LogTrigger.DISK_FULL): RECOVERING_FULL,
    (PAUSED, LogTrigger.RETRIED): RECOVERING,  # It was not even cut back, for want of space.
    (OFFLINE, LogTrigger.RETRIED): RECOVERING,
    **{(state, LogTrigger.DISK_FULL): PAUSED for state in (RECOVERING, RECOVERING_FULL)},
    **{(state, LogTrigger.UNUSABLE): OFFLINE for state in (RECOVERING, RECOVERING_FULL, ACTIVE)},
    **{(state, LogTrigger.DAMAGED): CORRUPT for state in (RECOVERING, RECOVERING_FULL, ACTIVE)},
    (ACTIVE, LogTrigger.CLOSED): CLOSED,
    **{
        (state, LogTrigger.CLOSED): CLOSED_FAILED
        for state in (RECOVERING, RECOVERING_FULL, PAUSED, OFFLINE, CORRUPT)
    },
    (CLOSED, LogTrigger.FAILED): CLOSED_FAILED,
    (CLOSED, LogTrigger.DISK_FULL): CLOSED_FAILED,
    (CLOSED, LogTrigger.REOPENED): ACTIVE,
    (CLOSED_FAILED, LogTrigger.REOPENED): OFFLINE,
}

MAY_FAIL: Final = frozenset({ACTIVE, PAUSED, CLOSED})
"""Where news of a failure counts. In the other states it is known already."""


class NoSuchTransition(AssertionError):
    """A trigger that the table has no row for: a bug of ours."""


def next_state(state: LogState, trigger: LogTrigger) -> LogState:
    """Where `trigger` leads from `state`. Raises NoSuchTransition."""
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise NoSuchTransition(f"{trigger} in {state}") from None
