"""The open batch of a log: records that a shard's handlers wrote and that are not appended yet.

It is cut (encoded and appended as one batch) when its runner calls `cut`, or when the next records would make it
too large. Nothing here knows the shard; errors of the log are raised to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.effects import ProducerAndEpoch
from protocol.records.batch import TRANSACTIONAL_BIT, BatchProducer
from protocol.records.control import Marker, encode_marker
from protocol.records.records import BATCH_OVERHEAD, Codec, Record, encode_batch
from protocol.records.run import Run
from storage.log.durable_log import DurableLog

RECORD_OVERHEAD_BYTES = 24
"""The most bytes that a record adds to a batch beside its key and value (varints of lengths and deltas)."""

BASE_SEQUENCE = 0
"""Base sequence of every transactional batch, as Kafka writes it: a coordinator does not number its batches."""


class OpenBatch:
    """Gathers records for one log, and appends them in batches."""

    def __init__(self, durable_log: DurableLog, max_batch_bytes: int, codec: Codec) -> None:
        self._durable_log = durable_log
        self._log = durable_log.log
        self._max_batch_bytes = max_batch_bytes  # Both before and after compression.
        self._codec = codec
        self._gathered: list[Record | Run] = []
        self._count = 0  # Number of records gathered; a run is several.
        self._gathered_bytes = BATCH_OVERHEAD
        self._producer: ProducerAndEpoch | None = None

    @property
    def position(self) -> int:
        """The offset that the next record gets."""
        return self._log.next_offset + self._count

    def add(
        self,
        records: Sequence[Record | Run],
        wall_ms: int,
        producer: ProducerAndEpoch | None = None,
    ) -> bool:
        """Gather `records`, all for one batch; return False, gathering none, if no batch can hold them.

        Records of a `producer`'s transaction share a batch with no others.
        """
        size_bytes = count = 0  # A plain loop: most often there is one record, and every commit runs this.
        for each in records:
            size_bytes += each.size_bytes
            count += each.count
        size_bytes += count * RECORD_OVERHEAD_BYTES
        if BATCH_OVERHEAD + size_bytes > self._max_batch_bytes:
            return False
        if producer != self._producer or self._gathered_bytes + size_bytes > self._max_batch_bytes:
            self.cut(wall_ms)
        self._producer = producer
        self._gathered += records
        self._count += count
        self._gathered_bytes += size_bytes
        return True

    def cut(self, wall_ms: int) -> None:
        """Append the gathered records, if any, to the log as one batch."""
        if not self._gathered:
            return
        batch = self._encode(self._codec)
        if len(batch) > self._max_batch_bytes:  # Some data grows when it is compressed.
            batch = self._encode(Codec.NONE)
        self.forget()
        self._durable_log.append(batch, wall_ms)

    def append_marker(self, marker: Marker, wall_ms: int) -> int:
        """Append a control batch behind the gathered records; return the offset of its record."""
        self.cut(wall_ms)
        batch = encode_marker(marker, base_offset=self._log.next_offset, wall_ms=wall_ms)
        return self._durable_log.append(batch, wall_ms)

    def _encode(self, codec: Codec) -> bytearray:
        base_offset = self._log.next_offset
        if self._producer is None:
            return encode_batch(self._gathered, base_offset=base_offset, codec=codec)
        producer = BatchProducer(*self._producer, BASE_SEQUENCE)
        return encode_batch(
            self._gathered,
            base_offset=base_offset,
            codec=codec,
            producer=producer,
            attributes=TRANSACTIONAL_BIT,
        )

    def forget(self) -> None:
        """Drop the gathered records."""
        self._gathered, self._count = [], 0
        self._gathered_bytes, self._producer = BATCH_OVERHEAD, None
