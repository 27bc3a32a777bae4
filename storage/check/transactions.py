"""Checks what a log's files say of transactions against its batches: the transaction indexes and the snapshots.

Each aborted transaction of which records are left must stand in the index of the segment that holds its marker,
and nothing else may. Where a part of the log is damaged it is not known what it held: after it no
entry is reported missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from protocol.records.batch import Batch, CorruptBatch
from protocol.records.control import ControlType
from storage.check.indexes import MAX_REPORTED, IndexFault
from storage.files import Files
from storage.index.indexes import CorruptIndex
from storage.producers.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    snapshot_offsets,
    snapshot_path,
)
from storage.producers.producer_state import read_marker
from storage.producers.transaction_index import (
    ENTRY,
    AbortedTransaction,
    check_entries,
    transaction_index_path,
)

UNKNOWN_START: Final = -1


class TransactionCheck:
    """A check of one log: call `batch` for each batch in order, `end_segment` after each segment's last one."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._open: dict[int, int] = {}  # The first record seen of each open transaction, by producer.
        self._aborted: dict[int, tuple[int, int]] = {}  # In this segment, by marker: producer, first record.
        self._is_damaged = False

    def batch(self, batch: Batch, data: memoryview) -> None:
        """Take in the next batch; a marker that cannot be read counts as damage."""
        if batch.producer_id < 0 or not batch.is_transactional:
            return
        if not batch.is_control:
            if batch.record_count:  # A batch that compaction emptied has no record to abort.
                self._open.setdefault(batch.producer_id, batch.base_offset)
            return
        try:
            marker = read_marker(data, batch)
        except CorruptBatch:
            self.damage()
            return
        first_offset = self._open.pop(batch.producer_id, UNKNOWN_START)
        if marker is not None and marker.kind is ControlType.ABORT:
            self._aborted[batch.base_offset] = (batch.producer_id, first_offset)

    def damage(self) -> None:
        """Note damage: from here on it is not known which transactions are open."""
        self._is_damaged = True

    def end_segment(self, base_offset: int) -> Iterator[IndexFault]:
        """Yield the first few faults of the transaction index of the segment that ends here."""
        path = transaction_index_path(self._directory, base_offset)
        data = self._files.read_small(path) or b""
        try:
            check_entries(data, base_offset)
            entries = [AbortedTransaction(*numbers) for _, *numbers in ENTRY.iter_unpack(data)]
            faults = [] if self._is_damaged else list(self._faults(path, entries))
        except CorruptIndex as error:
            faults = [IndexFault(path, 0, base_offset, str(error))]
        self._aborted.clear()
        yield from faults[:MAX_REPORTED]

    def _faults(self, path: Path, entries: list[AbortedTransaction]) -> Iterator[IndexFault]:
        for place, entry in enumerate(entries):
            producer_id, first_offset = self._aborted.pop(entry.last_offset, (None, UNKNOWN_START))
            byte = place * ENTRY.size
            if producer_id != entry.producer_id:
                what = f"producer {entry.producer_id} aborted nothing at offset {entry.last_offset}"
                yield IndexFault(path, byte, entry.last_offset, what)
            elif UNKNOWN_START < first_offset < entry.first_offset:
                what = f"the transaction begins at {first_offset}, not at {entry.first_offset}"
                yield IndexFault(path, byte, entry.last_offset, what)
        for offset, (producer_id, first_offset) in self._aborted.items():
            if first_offset != UNKNOWN_START:
                what = f"what producer {producer_id} aborted at offset {offset} is missing"
                yield IndexFault(path, len(entries) * ENTRY.size, offset, what)


def snapshot_faults(files: Files, directory: Path, names: list[str]) -> Iterator[tuple[Path, int, str]]:
    """Yield path, offset and reason for each snapshot among `names` that cannot be what was written."""
    for offset in snapshot_offsets(names):
        path = snapshot_path(directory, offset)
        try:
            decode_snapshot(files.read_small(path) or b"", wall_ms=0)
        except CorruptSnapshot as error:
            yield path, offset, str(error)
