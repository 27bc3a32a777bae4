"""The states of a log in use, and what moves it from one to the next.

A log that has failed is cut back to its durable end before it takes anything again. After a full disk it is then
paused until there is space. What cannot be cut back or opened is tried again later, unless it is damaged: that
is left to an operator. While its topic is being deleted a log is closed; it goes on where the deletion fails.
A log that another node leads is released, from whatever state, and is recovered before it is used here again.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class LogState(Enum):
    """The state of a `DurableLog`."""

    RECOVERING = auto()  # Being opened or cut back, off the loop; ACTIVE afterwards.
    RECOVERING_FULL = auto()  # Being cut back after the disk was full; PAUSED afterwards.
    ACTIVE = auto()  # It takes appends. In every other state it takes none.
    PAUSED = auto()  # There is no disk space; what is durable can be read.
    OFFLINE = auto()  # It could not be opened, read or cut back; that is tried again later.
    CORRUPT = auto()  # It could not be opened, read or cut back, and is not tried again: it is damaged.
    CLOSED = auto()  # Its topic is being deleted, or was.
    CLOSED_FAILED = auto()  # Its topic is being deleted; the log is to be cut back if that fails.
    RELEASED = auto()  # Another node leads it; flushes that had begun before may still end.


class LogTrigger(Enum):
    """An event that changes the state of a `DurableLog`."""

    FAILED = auto()  # An append or a flush failed, or the state that the owner keeps of the log.
    DISK_FULL = auto()  # An append, a flush or a recovery failed for want of disk space.
    RECOVERED = auto()
    UNUSABLE = auto()  # It could not be recovered or read; a retry may help.
    DAMAGED = auto()  # It could not be recovered or read; a retry cannot help.
    SPACE_FOUND = auto()
    RETRIED = auto()
    CLOSED = auto()  # The deletion of its topic begins.
    REOPENED = auto()  # The deletion of its topic failed.
    RELEASED = auto()  # Another node is to lead it, or none.
    TAKEN = auto()  # This node leads it from now on.


RECOVERING: Final = LogState.RECOVERING
RECOVERING_FULL: Final = LogState.RECOVERING_FULL
ACTIVE: Final = LogState.ACTIVE
PAUSED: Final = LogState.PAUSED
OFFLINE: Final = LogState.OFFLINE
CORRUPT: Final = LogState.CORRUPT
CLOSED: Final = LogState.CLOSED
CLOSED_FAILED: Final = LogState.CLOSED_FAILED
RELEASED: Final = LogState.RELEASED

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
    **{
        (state, LogTrigger.RELEASED): RELEASED
        for state in (RECOVERING, RECOVERING_FULL, ACTIVE, PAUSED, OFFLINE, CORRUPT)
    },
    (RELEASED, LogTrigger.TAKEN): RECOVERING,
}

MAY_FAIL: Final = frozenset({ACTIVE, PAUSED, CLOSED})
"""The states in which a failure changes the state. In the others it is known already."""
