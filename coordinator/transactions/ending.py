"""How a transaction ends: the outcome is stored, then its markers are written, then it is complete.

From the first record on the outcome is final: after a restart, the markers of a transaction in a Prepare state
are asked for again. Writing them is tried for as long as it takes; a marker that is written twice does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.effects import NOTHING, MarkersWanted, Moment, Result
from coordinator.transactions import steps
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.states import ONGOING, PREPARE_COMMIT, PREPARING
from coordinator.transactions.timers import cancel_transaction_timer
from coordinator.transactions.transaction import NO_PRODUCER_ID, Transaction
from coordinator.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.records.control import Marker

COORDINATOR_EPOCH = 0
"""Coordinator epoch in every marker: the coordinator never moves to another node, so there is one epoch."""


@dataclass(frozen=True, slots=True)
class TransactionMarked:
    """`MarkersWanted.then` of a transaction; with its producer, as another one may have begun since."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def end_transaction(
    shard: ShardTransactions,
    before: Transaction,
    at: Moment,
    *,
    is_commit: bool,
    client_version: int = steps.BUMPING_VERSION,
) -> tuple[Result, Transaction] | ErrorCode:
    """Return the effects of storing the outcome and writing the markers, and the transaction as stored.

    COORDINATOR_LOAD_IN_PROGRESS: the producer id's epochs are used up and no new id is available now.
    """
    next_producer_id: int | None = NO_PRODUCER_ID
    if client_version >= steps.BUMPING_VERSION and before.is_exhausted:
        next_producer_id = shard.deps.next_producer_id()
    if next_producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    after = steps.prepare_end(
        before,
        is_commit=is_commit,
        client_version=client_version,
        next_producer_id=next_producer_id,
        wall_ms=at.wall_ms,
    )
    timers = (cancel_transaction_timer(before),) if before.state is ONGOING else ()
    record = shard.transactions.new_record(after)
    return Result(records=(record,), timers=timers, markers=(markers_of(after),)), after


def markers_of(transaction: Transaction) -> MarkersWanted:
    """Return the markers that a transaction in a Prepare state needs."""
    assert transaction.state in PREPARING
    marker = Marker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        coordinator_epoch=COORDINATOR_EPOCH,
        is_commit=transaction.state is PREPARE_COMMIT,
        transaction_version=transaction.client_version,
    )
    then = TransactionMarked(
        transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    )
    return MarkersWanted(marker, tuple(sorted(transaction.partitions)), then)


def on_marked(transactions: Transactions, marked: TransactionMarked, at: Moment) -> Result:
    """Complete the transaction once its markers are written, unless it is complete or another has begun."""
    before = transactions.get(marked.transactional_id)
    if before is None or before.state not in PREPARING:
        return NOTHING
    if (before.producer_id, before.producer_epoch) != (marked.producer_id, marked.producer_epoch):
        return NOTHING
    return Result(records=(transactions.new_record(steps.complete(before, at.wall_ms)),))
