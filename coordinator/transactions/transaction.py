"""One transactional id: its producer and how its transaction stands. A value: each step makes another.

The steps themselves are in `steps`; here is what there is to know, and its form in the log.
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
"""The epoch with which a coordinator fences; those of producers end one before."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id as the log has it, but for `last_producer_epoch`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionStatus = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()  # While preparing: all that began it, marked or not.
    start_wall_ms: int = NO_TIME
    update_wall_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID  # Before the latest step: often the same.
    next_producer_id: int = NO_PRODUCER_ID  # Given when this one's epochs end with this transaction.
    client_version: int = (
        0  # Of the transaction protocol: 2 raises the epoch with every transaction (KIP-890).
    )
    last_producer_epoch: int = NO_EPOCH
    """What a producer that repeats its request may still believe to have. The log does not keep it."""

    @property
    def is_exhausted(self) -> bool:
        """Whether this producer id has no epoch left to give."""
        return is_exhausted(self.producer_epoch)


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no epoch is left to give: one is kept back, to fence the producer with the last."""
    return producer_epoch >= LAST_EPOCH - 1


def transaction_record(transaction: Transaction) -> CoordinatorRecord:
    """The whole of `transaction`, for the log."""
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
    """The transactional id is forgotten."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    """`partitions` as the log has them, in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def transaction_from(transactional_id: str, value: TransactionLogValue, last_epoch: int) -> Transaction:
    """What the record with `value` says. Raises DecodeError for a state that there is not."""
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
