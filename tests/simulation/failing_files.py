"""What happens to single operations on a simulated machine's files: they fail, come out short, or are the last."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from harness.doubles.faulty_files import FaultyFiles, Operation

if TYPE_CHECKING:
    from tests.simulation.real_storage import RealDisk

LOOKS: Final = frozenset({"open", "read", "list", "stat"})
"""Operations that change nothing."""


class Died(BaseException):
    """The process is gone in the middle of an operation; nothing of it may handle that."""


class QuietFiles(FaultyFiles):
    """Files whose times are virtual, like all others; nothing is recorded."""

    def __init__(self, root: Path, wall_ms: Callable[[], int]) -> None:
        super().__init__(root)
        self._wall_ms = wall_ms

    def perform(self, name: str, path: Path, size_bytes: int = 0) -> int:
        self.operations.clear()
        return super().perform(name, path, size_bytes)

    def modified_ms(self, path: Path) -> int:
        super().modified_ms(path)
        return self._wall_ms()


class Faults:
    """What the disk does to each operation at present; and when the process dies in one, if it is to."""

    def __init__(self, disk: RealDisk, random: Random) -> None:
        self.is_off = False  # While the simulation looks for itself.
        self._disk = disk
        self._random = random
        self._left: int | None = None  # Operations before the process dies.

    def die_after(self, operations: int) -> None:
        self._left = operations

    def live(self) -> None:
        self._left = None

    def of_change(self, operation: Operation) -> OSError | int | None:
        """For `FaultyFiles.fault`."""
        if self._left is not None:
            return self._on_the_way_to_death(operation)
        if self.is_off:
            return None
        if self._disk.is_full:
            return self._without_room(operation)
        if self._disk.takes_failure():
            if operation.name == "write" and self._random.random() < 0.5:
                return self._random.randrange(operation.size_bytes)
            return OSError(errno.EIO, os.strerror(errno.EIO))
        return None

    def _on_the_way_to_death(self, operation: Operation) -> int | None:
        assert self._left is not None
        self._left -= 1
        if self._left >= 0:
            return None
        if self._left == -1 and operation.name == "write" and operation.size_bytes:
            return self._random.randrange(operation.size_bytes)  # It has come so far; the rest is not begun.
        raise Died

    def _without_room(self, operation: Operation) -> OSError | int | None:
        if operation.name == "write" and operation.size_bytes > 1 and self._random.random() < 0.3:
            return self._random.randrange(1, operation.size_bytes)  # As much as there is; the rest is tried.
        needs_room = operation.name in ("write", "create", "mkdir")
        if needs_room or (operation.name == "truncate" and self._disk.has_no_room_to_cut()):
            self._disk.times_no_room += 1
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return None

    def of_look(self, operation: Operation) -> OSError | None:
        """For `FaultyFiles.read_fault`."""
        if self.is_off or self._left is not None or not self._disk.takes_read_failure():
            return None
        return OSError(errno.EIO, os.strerror(errno.EIO))
