"""All transactional ids of one partition of the log, the least recently changed first.

Stored state changes in `put` and `remove` alone, which the shard calls in its replay. Beside it is the one
field that the log does not keep: the epoch that a producer had before the last raise. Kafka loses it in a
failover, as Muster does in a restart; it only serves to recognise a repeated request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from coordinator.effects import CoordinatorRecord
from coordinator.transactions.record_schemas import TransactionLogValue
from coordinator.transactions.states import AT_REST
from coordinator.transactions.transaction import (
    NO_EPOCH,
    Transaction,
    transaction_from_value,
    transaction_record,
)


class Transactions:
    """The transactions of one partition of the log, by transactional id."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, Transaction] = OrderedDict()
        self._last_epochs: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._by_id.values())

    def get(self, transactional_id: str) -> Transaction | None:
        return self._by_id.get(transactional_id)

    def new_record(self, after: Transaction) -> CoordinatorRecord:
        """Return the record of `after`, and remember its `last_producer_epoch`, which the record lacks."""
        if after.last_producer_epoch == NO_EPOCH:
            self._last_epochs.pop(after.transactional_id, None)
        else:
            self._last_epochs[after.transactional_id] = after.last_producer_epoch
        return transaction_record(after)

    def put(self, transactional_id: str, value: TransactionLogValue) -> None:
        """Replay a record of the log: set the transaction of this id, as the most recently changed."""
        last_epoch = self._last_epochs.get(transactional_id, NO_EPOCH)
        self._by_id[transactional_id] = transaction_from_value(transactional_id, value, last_epoch)
        self._by_id.move_to_end(transactional_id)

    def remove(self, transactional_id: str) -> None:
        """Replay a tombstone of the log."""
        self._by_id.pop(transactional_id, None)
        self._last_epochs.pop(transactional_id, None)

    def longest_at_rest(self) -> Transaction | None:
        """Return the least recently changed id without a transaction under way, or None."""
        return next((transaction for transaction in self if transaction.state in AT_REST), None)
