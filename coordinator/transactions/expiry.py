"""The sweep that removes expired transactional ids, in slices that do not hold up the loop.

Ids are kept in the order in which they were last used, so the sweep ends at the first that is too young.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Final

from coordinator.effects import Moment, Result, SetTimer
from coordinator.transactions.states import AT_REST
from coordinator.transactions.timers import ExpiryTimer
from coordinator.transactions.transaction import Transaction, transaction_tombstone
from coordinator.transactions.transaction_settings import TransactionSettings
from coordinator.transactions.transactions import Transactions

SLICE: Final = 1_000
"""Number of ids removed before the sweep yields to other events: a few ms of work."""


class ExpirySweep:
    """The sweep over the transactional ids of one shard: its timer and its handler."""

    def __init__(self, partition: int, settings: TransactionSettings) -> None:
        self._key = ExpiryTimer(partition)
        self._settings = settings

    def schedule(self, now_ms: int) -> Result:
        """Return the timer of the next round."""
        interval_ms = self._settings.transaction_remove_expired_transaction_cleanup_interval_ms
        return Result(timers=(SetTimer(self._key, now_ms + interval_ms),))

    def on_timer(self, transactions: Transactions, at: Moment) -> Result:
        """Return tombstones for the next slice of expired ids, and the timer of the next slice or round."""
        youngest_ms = at.wall_ms - self._settings.transactional_id_expiration_ms

        def is_old(transaction: Transaction) -> bool:
            return transaction.update_wall_ms <= youngest_ms

        old = takewhile(is_old, transactions)
        expired = list(islice((each for each in old if each.state in AT_REST), SLICE))
        tombstones = Result(
            records=tuple(transaction_tombstone(each.transactional_id) for each in expired), atomic=False
        )
        if len(expired) == SLICE:
            return tombstones + Result(timers=(SetTimer(self._key, at.now_ms + 1),), atomic=False)
        return tombstones + self.schedule(at.now_ms)
