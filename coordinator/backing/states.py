"""The states of a node towards one shard of the log on Kafka, and what moves it from one to the next."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class OwnershipState(Enum):
    """How far a node is on the way to owning a shard, or back."""

    FOLLOWING = auto()  # It reads what others write.
    INITIATING = auto()  # It has asked for a producer epoch.
    SEALING = auto()  # It shuts out producer ids that are not its own.
    CLAIMING = auto()  # Its claim is on the way, and may be in the log.
    CATCHING_UP = auto()  # Its claim is in the log: it reads up to there.
    WAITING = auto()  # It has read all, and waits until no earlier owner answers.
    ACTIVE = auto()  # It owns the shard: it answers and writes.
    RELEASING = auto()  # It answers nothing new, and says so in the log.


class OwnershipTrigger(Enum):
    """What moves it to another state."""

    OPENED = auto()  # It is to own the shard.
    SEALS_WANTED = auto()
    SEALED = auto()  # No other producer id is left, as far as is known.
    CLAIM_ACKED = auto()
    CAUGHT_UP = auto()
    WAITED = auto()
    UNWANTED = auto()  # Another node is to own it.
    REOPENED = auto()  # What it knows of the log is wrong, or too old: it begins anew.
    ENDED = auto()  # It has let go, or another was there first.


FOLLOWING: Final = OwnershipState.FOLLOWING
INITIATING: Final = OwnershipState.INITIATING
SEALING: Final = OwnershipState.SEALING
CLAIMING: Final = OwnershipState.CLAIMING
CATCHING_UP: Final = OwnershipState.CATCHING_UP
WAITING: Final = OwnershipState.WAITING
ACTIVE: Final = OwnershipState.ACTIVE
RELEASING: Final = OwnershipState.RELEASING

CLAIMED: Final = frozenset({CATCHING_UP, WAITING, ACTIVE, RELEASING})
"""The states in which a claim of this node is known to be in the log."""

TRANSITIONS: Final = {
    (FOLLOWING, OwnershipTrigger.OPENED): INITIATING,
    (INITIATING, OwnershipTrigger.SEALS_WANTED): SEALING,
    (INITIATING, OwnershipTrigger.SEALED): CLAIMING,
    (SEALING, OwnershipTrigger.SEALED): CLAIMING,
    (CLAIMING, OwnershipTrigger.CLAIM_ACKED): CATCHING_UP,
    (CATCHING_UP, OwnershipTrigger.CAUGHT_UP): WAITING,
    (WAITING, OwnershipTrigger.WAITED): ACTIVE,
    **{(state, OwnershipTrigger.UNWANTED): RELEASING for state in (CATCHING_UP, WAITING, ACTIVE)},
    **{(state, OwnershipTrigger.REOPENED): INITIATING for state in OwnershipState if state is not FOLLOWING},
    **{(state, OwnershipTrigger.ENDED): FOLLOWING for state in OwnershipState if state is not FOLLOWING},
}
