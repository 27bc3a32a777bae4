"""The names of this core's deadlines, as keys for `SetTimer`: setting one again replaces what it was."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.effects import SetTimer
from coordinator.transactions.transaction import Transaction


@dataclass(frozen=True, slots=True)
class TransactionTimer:
    """The end of the time that a producer has for its transaction."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """The next sweep for transactional ids that have expired, or its next slice."""

    partition: int


def expect_end(transaction: Transaction, now_ms: int, elapsed_ms: int = 0) -> SetTimer:
    """Give a transaction that began `elapsed_ms` ago the rest of its time."""
    left_ms = max(transaction.timeout_ms - elapsed_ms, 0)
    return SetTimer(TransactionTimer(transaction.transactional_id), now_ms + left_ms)


def stop_expecting(transaction: Transaction) -> SetTimer:
    """Cancel the timer of a transaction that has ended."""
    return SetTimer(TransactionTimer(transaction.transactional_id), None)
