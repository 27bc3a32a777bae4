"""The states of a transaction, their numbers in the log, and which may follow which (KIP-98, KIP-890).

All of it is data: a transition that VALID_PREVIOUS does not have is a bug of ours, never the client's fault.
Nothing here knows a request.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TransactionStatus(IntEnum):
    """The state of a transaction; the value is the number that the log stores."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6  # Never stored: a transactional id that has expired is a tombstone.
    PREPARE_EPOCH_FENCE = 7  # Never stored: the fence and PREPARE_ABORT are one record.


EMPTY: Final = TransactionStatus.EMPTY
ONGOING: Final = TransactionStatus.ONGOING
PREPARE_COMMIT: Final = TransactionStatus.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionStatus.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionStatus.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionStatus.COMPLETE_ABORT
DEAD: Final = TransactionStatus.DEAD
PREPARE_EPOCH_FENCE: Final = TransactionStatus.PREPARE_EPOCH_FENCE

STATE_NAMES: Final[dict[TransactionStatus, str]] = {
    EMPTY: "Empty",
    ONGOING: "Ongoing",
    PREPARE_COMMIT: "PrepareCommit",
    PREPARE_ABORT: "PrepareAbort",
    COMPLETE_COMMIT: "CompleteCommit",
    COMPLETE_ABORT: "CompleteAbort",
    DEAD: "Dead",
    PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
"""The names of the states as Describe- and ListTransactions show them."""

AT_REST: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""The states without a transaction under way: one may begin, and the transactional id may expire."""

PREPARING: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The states in which the outcome is decided and markers are being written: clients have to try again."""

VALID_PREVIOUS: Final[dict[TransactionStatus, frozenset[TransactionStatus]]] = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    # A client of protocol v2 that is not sure whether its transaction began may abort one that did not.
    PREPARE_ABORT: AT_REST | {ONGOING, PREPARE_EPOCH_FENCE},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: AT_REST,
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}
assert VALID_PREVIOUS.keys() == STATE_NAMES.keys() == set(TransactionStatus)


class IllegalTransactionStep(Exception):
    """A transition that VALID_PREVIOUS does not have."""


def check_transition(transactional_id: str, before: TransactionStatus, after: TransactionStatus) -> None:
    """Raise IllegalTransactionStep if the state `after` may not follow `before`."""
    if before not in VALID_PREVIOUS[after]:
        raise IllegalTransactionStep(f"{transactional_id}: {STATE_NAMES[after]} after {STATE_NAMES[before]}")
