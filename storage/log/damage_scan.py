"""Walks a segment that may be damaged: the whole batches that check, and between them what does not.

Unlike recovery's walk this one does not stop. After bytes that are not a batch it goes on where the length
in a damaged header leads, if a batch is there, and else looks for the next place where one begins. What the
disk cannot read counts as damage, block by block. Nothing is changed; the caller decides what a loss means.

Base offset and leader epoch stand outside a batch's CRC. An offset that goes back, reaches beyond the
segment, or leaps over the batch behind it is damage; one that leaps elsewhere looks like compaction's work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, MAGIC, Batch, check_crc, parse_header
from storage.files import File, StorageError
from storage.index.indexes import MAX_RELATIVE_OFFSET
from storage.log.batch_walk import LARGEST_BATCH_BYTES, WINDOW_BYTES, Located, Window
from storage.log.segment import BLOCK_BYTES

MAGIC_POSITION: Final = 16
OFFSETS_GO_WRONG: Final = "its offsets {first}-{last} cannot be: {why}"


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [position, end) of a segment that are no batch, and the offsets that may have stood there."""

    position: int
    end: int
    first_offset: int
    last_offset: int | None  # None: no batch follows that would show where the loss ends.
    reason: str


Found: TypeAlias = Located | Damage


@dataclass(slots=True)
class DamageScan:
    """A walk over one segment. `end_offset` is where the next segment begins, None for the last one."""

    file: File
    size_bytes: int
    base_offset: int
    end_offset: int | None = None
    unreadable: list[tuple[int, int, str]] = field(default_factory=list)  # Begin, end, the system's error.
    _window: Window = field(init=False)

    def __post_init__(self) -> None:
        self._window = Window(self._read, self.size_bytes, WINDOW_BYTES)

    def run(self) -> Iterator[Found]:
        """Yield every batch and all damage from byte 0 to the end of the file, in order and without a gap."""
        position, expected = 0, self.base_offset
        while position < self.size_bytes:
            found = self._batch_at(position, expected)
            why = found if isinstance(found, str) else self._leap_error(found, expected)
            if isinstance(found, Located) and why is None:
                expected = found.batch.last_offset + 1
                position = found.end
                yield found
            else:
                damage = self._damage(position, expected, why or "")
                position = damage.end
                yield damage

    def _batch_at(self, position: int, expected: int) -> Located | str:
        """Return the batch at `position`, or the reason why no valid batch is there."""
        head = self._window.view(position, BATCH_OVERHEAD)[:BATCH_OVERHEAD]
        if len(head) < BATCH_OVERHEAD:
            return f"{len(head)} bytes are no batch"
        if not any(head):
            return "zeros: they never reached the disk, or are gone from it"
        if head[MAGIC_POSITION] != MAGIC:
            return f"no batch of magic 2 (it says {head[MAGIC_POSITION]})"
        size_bytes = LOG_OVERHEAD + int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True)
        if not BATCH_OVERHEAD <= size_bytes <= LARGEST_BATCH_BYTES:
            return f"a batch cannot have {size_bytes} bytes"
        if size_bytes > self.size_bytes - position:
            return f"a batch of {size_bytes} bytes, of which {self.size_bytes - position} are there"
        data = self._window.view(position, size_bytes)[:size_bytes]
        batch = parse_header(data)
        if not check_crc(data, batch):
            return "CRC-32C is wrong"
        return self._offsets_error(batch, expected) or Located(position, batch, data)

    def _offsets_error(self, batch: Batch, expected: int) -> str | None:
        beyond = self.base_offset + MAX_RELATIVE_OFFSET if self.end_offset is None else self.end_offset - 1
        first, last = batch.base_offset, batch.last_offset
        if batch.record_count < 0 or last < first:
            return f"{batch.record_count} records at offsets {first}-{last} cannot be"
        if first < expected:
            return OFFSETS_GO_WRONG.format(first=first, last=last, why=f"below {expected}")
        if last > beyond:
            return OFFSETS_GO_WRONG.format(first=first, last=last, why=f"the segment ends at {beyond}")
        return None

    def _leap_error(self, found: Located, expected: int) -> str | None:
        """Return why the offset gap before `found` is damage, if the next batch has its offsets; else None."""
        first, last = found.batch.base_offset, found.batch.last_offset
        if first == expected or found.end >= self.size_bytes:
            return None
        after = self._batch_at(found.end, expected)
        if isinstance(after, str) or after.batch.base_offset > last:
            return None
        why = f"the batch behind it begins at {after.batch.base_offset}"
        return OFFSETS_GO_WRONG.format(first=first, last=last, why=why)

    def _damage(self, position: int, expected: int, reason: str) -> Damage:
        end, following = self._next_batch(position, expected)
        for begin, stop, system in self.unreadable:
            if begin < end and position < stop:
                reason = f"the disk cannot read bytes {begin}-{stop - 1}: {system}"
                break
        return Damage(position, end, expected, following, reason)

    def _next_batch(self, position: int, expected: int) -> tuple[int, int | None]:
        """Return where the first batch after the damage at `position` begins, and the offset before that batch."""
        for candidate in self._candidates(position):
            found = self._batch_at(candidate, expected)
            if isinstance(found, Located):
                return candidate, found.batch.base_offset - 1
        return self.size_bytes, None if self.end_offset is None else self.end_offset - 1

    def _candidates(self, position: int) -> Iterator[int]:
        """Yield bytes where a batch may begin: where the damaged header's length leads, then by each magic 2."""
        head = self._window.view(position, LOG_OVERHEAD)[:LOG_OVERHEAD]
        size_bytes = LOG_OVERHEAD + int.from_bytes(head[8:], "big", signed=True)
        if BATCH_OVERHEAD <= size_bytes < self.size_bytes - position:
            yield position + size_bytes
        start = position + 1 + MAGIC_POSITION
        while start < self.size_bytes:
            chunk = bytes(self._window.view(start, 1))
            at = chunk.find(MAGIC)
            while at >= 0:
                yield start + at - MAGIC_POSITION
                at = chunk.find(MAGIC, at + 1)
            start += len(chunk)

    def _read(self, length: int, position: int) -> bytes:
        """Like `File.read_at`, with zeros for blocks that cannot be read; these are noted in `unreadable`."""
        try:
            return self.file.read_at(length, position)
        except StorageError:
            return b"".join(self._read_blocks(length, position))

    def _read_blocks(self, length: int, position: int) -> Iterator[bytes]:
        end = position + length
        while position < end:
            stop = min((position // BLOCK_BYTES + 1) * BLOCK_BYTES, end)
            try:
                yield self.file.read_at(stop - position, position)
            except StorageError as error:
                self._note_unreadable(position, stop, error.reason)
                yield bytes(stop - position)
            position = stop

    def _note_unreadable(self, begin: int, end: int, reason: str) -> None:
        if self.unreadable and self.unreadable[-1][1] == begin:
            begin = self.unreadable.pop()[0]
        if not any(known <= begin and end <= stop for known, stop, _ in self.unreadable):
            self.unreadable.append((begin, end, reason))
