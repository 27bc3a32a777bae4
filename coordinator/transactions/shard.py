"""One partition of `__transaction_state`: its transactional ids, and the handler of each event.

Stored state changes in `replay` alone, after each append and again at start-up. Deadlines and the
markers to be written follow from it. Nothing here knows a socket, a file or a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from coordinator.effects import (
    NOTHING,
    AppendFinished,
    CoordinatorRecord,
    Event,
    MarkerReceived,
    MarkersWritten,
    Moment,
    PreparedCommitReceived,
    ProducerAndEpoch,
    RequestContext,
    RequestReceived,
    Result,
    TimerFired,
    TimerKey,
    TopicDeleted,
    WorkFinished,
    combine,
)
from coordinator.transactions.add_partitions import add_offsets, add_partitions
from coordinator.transactions.describe_transactions import describe_transactions
from coordinator.transactions.end_txn import end_txn
from coordinator.transactions.ending import TransactionMarked, markers_of, on_marked
from coordinator.transactions.expiry import ExpirySweep
from coordinator.transactions.init_producer_id import init_producer_id
from coordinator.transactions.list_transactions import list_transactions
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.states import ONGOING, PREPARING
from coordinator.transactions.timeouts import on_transaction_timer
from coordinator.transactions.timers import ExpiryTimer, TransactionTimer, arm_transaction_timer
from coordinator.transactions.transaction import Transaction
from coordinator.transactions.transaction_settings import TransactionDeps, TransactionSettings
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest

Handler: TypeAlias = Callable[[ShardTransactions, Any, RequestContext, Moment], Result]

HANDLERS: Final[dict[type, Handler]] = {
    InitProducerIdRequest: init_producer_id,
    AddPartitionsToTxnRequest: add_partitions,
    AddOffsetsToTxnRequest: add_offsets,
    EndTxnRequest: end_txn,
    DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
}
"""The handler of each request, by the request's class."""


class TransactionShard:
    """The transactional ids that hash to one partition. Used from one thread; every time is an argument."""

    def __init__(self, partition: int, settings: TransactionSettings, deps: TransactionDeps) -> None:
        self.partition = partition
        self.settings = settings
        self._state = ShardTransactions(settings, deps)
        self.transactions = self._state.transactions
        self._sweep = ExpirySweep(partition, settings)

    @property
    def size(self) -> int:
        return len(self.transactions)

    def handle(self, event: Event, now_ms: int) -> Result:
        """Return the effects of `event`; the caller appends and replays its records before the next event."""
        match event:
            case RequestReceived(request, context, wall_ms):
                return HANDLERS[type(request)](self._state, request, context, Moment(now_ms, wall_ms))
            case TimerFired(key, wall_ms):
                return self._on_timer(key, Moment(now_ms, wall_ms))
            case MarkerReceived():
                raise AssertionError("no transaction writes to the log of transactions")
            case MarkersWritten(then, wall_ms):
                assert isinstance(then, TransactionMarked), then
                return on_marked(self.transactions, then, Moment(now_ms, wall_ms))
            case AppendFinished() | TopicDeleted():
                return NOTHING  # `MarkerSender` handles deleted topics: their partitions need no marker.
            case PreparedCommitReceived() | WorkFinished():
                raise AssertionError(f"nothing of a transaction: {event}")

    def release(self, group_id: str) -> Event | None:
        """No event of a transaction is held back."""
        return None

    def replay(
        self, record: CoordinatorRecord, offset: int, producer: ProducerAndEpoch | None = None
    ) -> None:
        """Apply one record of the log, in order. Stored state changes here alone."""
        assert producer is None, "only shards of groups write transactional batches"
        if record.value is None:
            self.transactions.remove(record.key.transactional_id)
        else:
            self.transactions.put(record.key.transactional_id, record.value)

    def loaded(self, now_ms: int, wall_ms: int) -> Result:
        """Begin to serve after the log has been read: return the timers and markers of open transactions.

        An ongoing transaction has the rest of its timeout, by wall time. One in a Prepare state asks for all its
        markers, whether or not some of them have been written.
        """
        at = Moment(now_ms, wall_ms)
        revived = [self._revive(transaction, at) for transaction in self.transactions]
        return combine([self._sweep.schedule(now_ms), *revived])

    def resume(self, now_ms: int) -> Result:
        """Begin to write again: nothing to do, as the runner passes on the events that came meanwhile."""
        return NOTHING

    def _revive(self, transaction: Transaction, at: Moment) -> Result:
        if transaction.state in PREPARING:
            return Result(markers=(markers_of(transaction),))
        if transaction.state is not ONGOING:
            return NOTHING
        elapsed_ms = max(at.wall_ms - transaction.start_wall_ms, 0)
        return Result(timers=(arm_transaction_timer(transaction, at.now_ms, elapsed_ms),))

    def _on_timer(self, key: TimerKey, at: Moment) -> Result:
        if isinstance(key, ExpiryTimer):
            return self._sweep.on_timer(self.transactions, at)
        assert isinstance(key, TransactionTimer), key
        return on_transaction_timer(self._state, key, at)
