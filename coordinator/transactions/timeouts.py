"""Transaction timeout: a transaction not ended in time is aborted, and its producer fenced (KIP-98)."""

from __future__ import annotations

from typing import Final

from coordinator.effects import NOTHING, Moment, Result, SetTimer
from coordinator.transactions.ending import end_transaction
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.states import ONGOING
from coordinator.transactions.timers import TransactionTimer
from protocol.errors import ErrorCode

TRY_AGAIN_MS: Final = 1_000
"""Pause before the abort is tried again, if it needed a new producer id and there was none."""


def on_transaction_timer(shard: ShardTransactions, key: TransactionTimer, at: Moment) -> Result:
    """Abort the transaction if it is still ongoing; a later transaction has replaced the timer of an earlier."""
    transaction = shard.transactions.get(key.transactional_id)
    if transaction is None or transaction.state is not ONGOING:
        return NOTHING
    ended = end_transaction(shard, transaction, at, is_commit=False)
    if isinstance(ended, ErrorCode):
        return Result(timers=(SetTimer(key, at.now_ms + TRY_AGAIN_MS),))
    return ended[0]
