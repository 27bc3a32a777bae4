"""A range of a file that is not read yet: what a fetch found, until the socket can take it.

A range holds its file open, so it stays readable when the segment is deleted or replaced meanwhile. Bytes that
a log shows never change, so it does not matter when they are read.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from storage.files import Chunk, File, StorageError


@dataclass(frozen=True, slots=True)
class FileRange:
    """`length` bytes of `file` from `position` on; `len()` of it is that length, as of the bytes themselves."""

    file: File
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read_nowait(self, start: int, length: int) -> Chunk | None:
        """Read `length` bytes from the range's byte `start` on; None if the disk would have to be waited for."""
        return self.file.read_at_nowait(length, self.position + start)

    def read(self, start: int, length: int) -> Chunk:
        """Read `length` bytes from the range's byte `start` on, waiting for the disk.

        Raises StorageError, also where the file has become shorter.
        """
        data = self.file.read_at(length, self.position + start)
        if len(data) < length:
            raise StorageError("read", self.file.path, f"{length - len(data)} bytes are gone", errno.EIO)
        return data

    def whole(self) -> Chunk:
        """Read the whole range, waiting for the disk. Raises StorageError."""
        return self.read(0, self.length)
