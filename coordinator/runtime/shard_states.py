"""The states of a shard's runner, and what moves it from one to the next."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class ShardState(Enum):
    """The state of a runner: whether it has a shard, and if not, why."""

    LOADING = auto()  # The log is read: the first time, or again after a failure.
    ACTIVE = auto()  # There is a shard; there is none in any other state.
    FAILED = auto()  # The log could not be read, which may be tried again.
    ELSEWHERE = auto()  # Another node leads the shard, or none.
    CLOSED = auto()  # The daemon stops.


class ShardTrigger(Enum):
    """What moves a runner to another state."""

    LOADED = auto()
    LOAD_FAILED = auto()
    LOG_FAILED = auto()  # The log's epoch has ended.
    RELEASED = auto()  # Another node is to lead the shard, or none.
    TAKEN = auto()  # This node is to lead it.
    STOPPED = auto()


LOADING: Final = ShardState.LOADING
ACTIVE: Final = ShardState.ACTIVE
FAILED: Final = ShardState.FAILED
ELSEWHERE: Final = ShardState.ELSEWHERE
CLOSED: Final = ShardState.CLOSED

TRANSITIONS: Final = {
    (LOADING, ShardTrigger.LOADED): ACTIVE,
    (FAILED, ShardTrigger.LOADED): ACTIVE,
    (LOADING, ShardTrigger.LOAD_FAILED): FAILED,
    (FAILED, ShardTrigger.LOAD_FAILED): FAILED,
    (ACTIVE, ShardTrigger.LOG_FAILED): LOADING,
    # The log is read again, but clients are still answered NOT_COORDINATOR.
    (FAILED, ShardTrigger.LOG_FAILED): FAILED,
    **{(state, ShardTrigger.RELEASED): ELSEWHERE for state in (LOADING, ACTIVE, FAILED)},
    (ELSEWHERE, ShardTrigger.TAKEN): LOADING,
    **{(state, ShardTrigger.STOPPED): CLOSED for state in ShardState},
    **{(CLOSED, trigger): CLOSED for trigger in ShardTrigger},
}
