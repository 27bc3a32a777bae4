"""What the handlers of transaction requests work on: the transactional ids of one shard, and what they look up."""

from __future__ import annotations

from coordinator.transactions.transaction_settings import TransactionDeps, TransactionSettings
from coordinator.transactions.transactions import Transactions


class ShardTransactions:
    """The transactions of one shard, with the settings of its daemon and what it asks of the rest of it."""

    def __init__(self, settings: TransactionSettings, deps: TransactionDeps) -> None:
        self.transactions = Transactions()
        self.settings = settings
        self.deps = deps
