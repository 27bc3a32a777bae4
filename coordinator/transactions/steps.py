"""The steps of a transaction: the state after each, as a function of the state before (KIP-98, 360, 890).

A step returns a new Transaction and changes nothing. Whether a client may ask for it is decided by the handlers;
here only a transition that must never happen is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from coordinator.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionStatus,
    check_transition,
)
from coordinator.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, NO_TIME, Transaction
from protocol.topic_partition import TopicPartition

BUMPING_VERSION: Final = 2
"""First version of the transaction protocol in which every transaction raises the epoch (transactions v2)."""


def _step(before: Transaction, state: TransactionStatus, wall_ms: int, **changes: Any) -> Transaction:
    """Return `before` moved to `state`, with `changes`. Raises IllegalTransactionStep."""
    check_transition(before.transactional_id, before.state, state)
    return replace(
        before, state=state, update_wall_ms=wall_ms, previous_producer_id=before.producer_id, **changes
    )


def init_producer(
    before: Transaction, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, wall_ms: int
) -> Transaction:
    """Return the state after a producer begins, or begins again, with this id and epoch."""
    return _step(
        before,
        EMPTY,
        wall_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_wall_ms=NO_TIME,
    )


def add_partitions(
    before: Transaction, partitions: Iterable[TopicPartition], client_version: int, wall_ms: int
) -> Transaction:
    """Return the state with `partitions` added; the first ones begin the transaction."""
    return _step(
        before,
        ONGOING,
        wall_ms,
        partitions=before.partitions.union(partitions),
        start_wall_ms=before.start_wall_ms if before.state is ONGOING else wall_ms,
        client_version=client_version,
    )


def prepare_end(
    before: Transaction, *, is_commit: bool, client_version: int, next_producer_id: int, wall_ms: int
) -> Transaction:
    """Return the state with the outcome decided; from v2 on with the next epoch, which fences late writes.

    A transaction that has not begun may be aborted too, as if begun now: a client of v2 need not know.
    """
    epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
    if client_version >= BUMPING_VERSION:
        epoch, last_epoch = epoch + 1, epoch
    return _step(
        before,
        PREPARE_COMMIT if is_commit else PREPARE_ABORT,
        wall_ms,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        start_wall_ms=before.start_wall_ms if before.state is ONGOING else wall_ms,
        next_producer_id=next_producer_id,
        client_version=client_version,
    )


def complete(before: Transaction, wall_ms: int) -> Transaction:
    """Return the state once all markers are written; with the next producer id, if one was given."""
    producer_id, epoch = before.producer_id, before.producer_epoch
    if before.client_version >= BUMPING_VERSION and before.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = before.next_producer_id, 0
    return _step(
        before,
        COMPLETE_COMMIT if before.state is PREPARE_COMMIT else COMPLETE_ABORT,
        wall_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int) -> Transaction:
    """Return the state of a new transactional id, to which `init_producer` is applied before it is stored."""
    return Transaction(transactional_id, producer_id, NO_EPOCH, timeout_ms)
