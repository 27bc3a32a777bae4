"""The state that handlers of transaction requests work on: one shard's transactional ids and its settings."""

from __future__ import annotations

from coordinator.transactions.transaction_settings import TransactionDeps, TransactionSettings
from coordinator.transactions.transactions import Transactions


class ShardTransactions:
    """The transactions of one shard, its settings, and the functions it calls in the rest of the daemon."""

    def __init__(self, settings: TransactionSettings, deps: TransactionDeps) -> None:
        self.transactions = Transactions()
        self.settings = settings
        self.deps = deps
