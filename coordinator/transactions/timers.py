"""The timers of transactions, as keys for `SetTimer`: setting a key again replaces its deadline."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.effects import SetTimer
from coordinator.transactions.transaction import Transaction


@dataclass(frozen=True, slots=True)
class TransactionTimer:
    """The end of a transaction's timeout."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """The start of the next sweep for expired transactional ids, or of its next slice."""

    partition: int


def arm_transaction_timer(transaction: Transaction, now_ms: int, elapsed_ms: int = 0) -> SetTimer:
    """Return the timer of a transaction that began `elapsed_ms` ago, at the end of its timeout."""
    left_ms = max(transaction.timeout_ms - elapsed_ms, 0)
    return SetTimer(TransactionTimer(transaction.transactional_id), now_ms + left_ms)


def cancel_transaction_timer(transaction: Transaction) -> SetTimer:
    """Return the effect that cancels the timer of a transaction that has ended."""
    return SetTimer(TransactionTimer(transaction.transactional_id), None)
