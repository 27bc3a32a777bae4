"""The newest offset of each key in the dirty part of a log, in bounded memory.

Kafka keeps a hash of 16 bytes for each key. Here the keys themselves are kept: a dict takes them as they are,
hashing them costs more time than their bytes cost room, and two keys that meet in a hash would cost an
application a committed offset. Keys that are long fill the bound sooner: the cleaning then ends earlier in the
log, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from protocol.records.spans import Span

ENTRY_BYTES: Final = 160
"""What an entry costs beside the key's own bytes: two small objects and, while the dict grows, two slots."""


class KeyMap:
    """The newest offset of each key, from all records in [`first_offset`, `end_offset`)."""

    def __init__(self, first_offset: int, bound_bytes: int) -> None:
        self.end_offset = first_offset
        self.newest: dict[bytes, int] = {}
        self._bound_bytes = bound_bytes
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the memory bound is reached. The first batch always fits, so that a cleaning moves on."""
        return self._size_bytes >= self._bound_bytes

    def add(self, base_offset: int, spans: Iterable[Span]) -> None:
        """Take in the records of the batch at `base_offset`."""
        newest = self.newest
        for delta, key, *_ in spans:
            if key is not None:
                if key not in newest:
                    self._size_bytes += len(key) + ENTRY_BYTES
                newest[key] = base_offset + delta
