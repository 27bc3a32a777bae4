"""Reading a shard's state back from its log: the same replay that the living shard uses."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.clock import Clock
from coordinator.groups.effects import Result
from coordinator.groups.records import decode_record
from coordinator.groups.shard import Shard
from protocol.records import read_records
from storage.files import StorageError
from storage.partition_log import PartitionLog

MAX_INFLATED_BYTES = 256 << 20
"""One batch of the offsets log cannot honestly inflate beyond this: it was cut at message.max.bytes."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A shard that was read from its log, and what bringing its groups to life asks for."""

    shard: Shard
    result: Result
    records: int


def load_shard(
    partition_log: PartitionLog, shard: Shard, clock: Clock, buffer_bytes: int, cut_back: bool
) -> Loaded:
    """Replay the whole log, `buffer_bytes` at a time, into the fresh `shard` and bring its groups to life.

    Runs on a thread: nobody else has `shard` yet. With `cut_back` what is not durable is cut off first,
    after a failed flush; if there is no room even for that, what is durable can be read all the same.
    Raises StorageError, CorruptSegment, CorruptBatch or DecodeError: damage keeps the shard from loading
    past it.
    """
    if cut_back:
        _cut_back(partition_log)
    records = _replay(partition_log, shard, buffer_bytes)
    return Loaded(shard, shard.loaded(clock.now_ms(), clock.wall_ms()), records)


def _cut_back(partition_log: PartitionLog) -> None:
    try:
        partition_log.fail_back()
    except StorageError as error:
        if not (error.is_no_room and partition_log.is_open):
            raise


def _replay(partition_log: PartitionLog, shard: Shard, buffer_bytes: int) -> int:
    count = 0
    for batch, data in partition_log.batches(partition_log.log_start_offset, buffer_bytes):
        if batch.is_control:
            continue
        for record in read_records(data, batch, max_inflated_bytes=MAX_INFLATED_BYTES):
            count += 1
            typed = decode_record(record.key, record.value)
            if typed is not None:
                shard.replay(typed, record.offset)
    return count
