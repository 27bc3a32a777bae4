"""A log in memory: the part of `PartitionLog` that a runner and its loader use. A test ends its flushes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from protocol.records.records import Batch, parse_header, set_base_offset
from storage.files import Buffer, StorageError
from storage.log.partition_log import Appended, BatchTooLarge
from storage.producers.producer_state import ProducerState


class MemoryLog:
    """`stored` are the batches that are durable; `failure` is what the next append raises."""

    log_start_offset = 0
    is_open = True
    is_written_behind = False

    def __init__(self, max_batch_bytes: int) -> None:
        self.next_offset = 0
        self.durable_offset = 0
        self.producers = SimpleNamespace(state=ProducerState(), settle=lambda: None)
        self.failure: StorageError | None = None
        self.stored: list[bytearray] = []
        self.snapshot: bytes | None = None
        self.snapshot_failure: StorageError | None = None
        self._max_batch_bytes = max_batch_bytes
        self._staged: list[bytearray] = []

    def append(self, batch: bytearray, *, wall_ms: int) -> Appended:
        if self.failure is not None:
            raise self.failure
        if len(batch) > self._max_batch_bytes:
            raise BatchTooLarge(f"{len(batch)} bytes")
        base_offset = self.next_offset
        set_base_offset(batch, base_offset, 0)
        header = parse_header(batch)
        self.producers.state.appended(header, batch, base_offset, wall_ms)
        self.next_offset = header.last_offset + 1
        self._staged.append(batch)
        return Appended(base_offset, self.next_offset - 1)

    def flush(self) -> None:
        self.stored += self._staged
        self._staged, self.durable_offset = [], self.next_offset

    def fail_back(self) -> None:
        self._staged, self.next_offset, self.failure = [], self.durable_offset, None

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[tuple[Batch, memoryview]]:
        for data in self.stored:
            yield parse_header(data), memoryview(data)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.stored))

    def write_shard_snapshot(self, version: int, parts: Sequence[Buffer]) -> None:
        """Keep the snapshot; whether it is of this log is for tests with files."""
        if self.snapshot_failure is not None:
            raise self.snapshot_failure
        self.snapshot = b"".join(parts)

    def take_shard_snapshot(self, version: int) -> memoryview | None:
        taken, self.snapshot = self.snapshot, None
        return None if taken is None else memoryview(taken)

    def record_counts(self) -> list[int]:
        """Number of records in each durable batch."""
        return [parse_header(data).record_count for data in self.stored]
