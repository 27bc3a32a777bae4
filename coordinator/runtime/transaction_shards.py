"""The `ShardKind` of the shards of transactions, which are on the partitions of `__transaction_state`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from coordinator.effects import CoordinatorRecord
from coordinator.runtime.shard_kind import Batches, ShardKind
from coordinator.transactions.records import decode_record, encode_record
from coordinator.transactions.shard import TransactionShard
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.records import Record as LogRecord
from protocol.records.records import iter_records

MAY_WRITE: Final = frozenset(
    {InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest}
)


def transaction_shards(new_shard: Callable[[int], TransactionShard]) -> ShardKind[TransactionShard]:
    """Return the `ShardKind` of transactions; `new_shard(partition)` creates an empty shard."""
    return ShardKind(
        partition_name="transaction partition",
        state_name="transactions",
        new_shard=new_shard,
        replay_batches=replay_batches,
        encode=encode,
        error_response=error_response,
        loading_answer=loading_answer,
        may_write=MAY_WRITE,
    )


def encode(record: CoordinatorRecord, wall_ms: int) -> Sequence[LogRecord]:
    """Return the encoded record, as written at `wall_ms`. Raises EncodeError."""
    return (LogRecord(*encode_record(record), timestamp_ms=wall_ms),)


def loading_answer(request: Any) -> ErrorCode:
    """Return the error for any request while its shard loads: clients try again."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def replay_batches(batches: Batches, shard: TransactionShard) -> tuple[int, int]:
    """Replay a whole log into the fresh `shard`; return the numbers of records and of unknown ones.

    Raises CorruptBatch, DecodeError.
    """
    records = skipped = 0
    for batch, data in batches:
        records += batch.record_count
        for entry in () if batch.is_control else iter_records(data, batch):
            record = decode_record(entry.key, entry.value)
            if record is None:
                skipped += 1
            else:
                shard.replay(record, entry.offset)
    return records, skipped
