"""The records of `__transaction_state`: the shape of their keys and values, in every version.

A key is an int16 record type (0, the only one) and then a body; a value is an int16 version and then a body of
that version. The prefixes, and what a record means, belong to `records` and to the shard.
"""

from typing import Final

from protocol.codec.codec import data, since, struct
from protocol.codec.primitives import Int8, Int16, Int32, Int64

TRANSACTION_LOG: Final = 0


@data(versions="0", flexible="none")
class TransactionLogKey:
    """The key of a record: one transactional id."""

    transactional_id: str


@struct
class PartitionsSchema:
    """The partitions of one topic that are part of a transaction."""

    topic: str
    partition_ids: list[Int32]


@data(versions="0-1", flexible="1+")
class TransactionLogValue:
    """The state of one transactional id. Times are ms since the epoch, -1 for none."""

    producer_id: Int64
    previous_producer_id: Int64 = since(1, tag=0, default=-1, ignorable=True)
    next_producer_id: Int64 = since(1, tag=1, default=-1, ignorable=True)
    producer_epoch: Int16
    next_producer_epoch: Int16 = since(1, tag=3, default=-1, ignorable=True)  # Two-phase commit (KIP-939).
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = since(1, tag=2, default=0, ignorable=True)
