"""One transactional id: its producer and the state of its transaction. A value: each step returns a new one.

The steps are in `steps`; here are the fields, and their form in the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.effects import CoordinatorRecord
from coordinator.transactions.record_schemas import PartitionsSchema, TransactionLogKey, TransactionLogValue
from coordinator.transactions.states import EMPTY, TransactionStatus
from protocol.errors import DecodeError
from protocol.topic_partition import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
LAST_EPOCH: Final = 2**15 - 1
"""The last epoch, with which a coordinator fences a producer; a producer's own epochs end one before."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of one transactional id, as the log has it except for `last_producer_epoch`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionStatus = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()  # In a Prepare state: all, with or without marker.
    start_wall_ms: int = NO_TIME
    update_wall_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID  # The id before the latest step, often the same.
    next_producer_id: int = NO_PRODUCER_ID  # Set if this producer id's epochs end with this transaction.
    client_version: int = (
        0  # The transaction protocol's: 2 raises the epoch with every transaction (KIP-890).
    )
    last_producer_epoch: int = NO_EPOCH
    """The epoch before the last raise, which a repeated request may still have. Not kept in the log."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the present producer id has no epoch left for its producer."""
        return is_exhausted(self.producer_epoch)


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no epoch follows for the producer: the very last is kept to fence it."""
    return producer_epoch >= LAST_EPOCH - 1


def transaction_record(transaction: Transaction) -> CoordinatorRecord:
    """Return the record of `transaction`."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if transaction.state is EMPTY else by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.update_wall_ms,
        transaction_start_timestamp_ms=transaction.start_wall_ms,
        client_transaction_version=transaction.client_version,
    )
    return CoordinatorRecord(TransactionLogKey(transactional_id=transaction.transactional_id), value)


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the tombstone record of a transactional id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    """Return `partitions` grouped by topic, sorted, as a TransactionLogValue has them."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def transaction_from_value(transactional_id: str, value: TransactionLogValue, last_epoch: int) -> Transaction:
    """Return the transaction in a record's `value`. Raises DecodeError for an unknown state."""
    try:
        state = TransactionStatus(value.transaction_status)
    except ValueError:
        raise DecodeError(
            f"transaction of {transactional_id!r} in state {value.transaction_status}"
        ) from None
    topics = value.transaction_partitions or ()
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, index) for topic in topics for index in topic.partition_ids
        ),
        start_wall_ms=value.transaction_start_timestamp_ms,
        update_wall_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
        last_producer_epoch=last_epoch,
    )
