"""A double of `storage.files` on real files: it records every operation, breaks some, and crashes.

A crash keeps what a disk promises to keep and nothing more: of each file the bytes and the length as of its
last sync, under the names as of the last sync of their directory. Everything else is lost, as if the power
had gone. Operations are recorded in order, so a test can say what came before what. A sync is only noted: the
real disk is not asked to, which makes this double quick as well.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from storage.files import Buffer, File, Files, StorageError


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that changes the disk or makes it last."""

    name: str
    path: Path
    size_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.path.name}"


@dataclass(slots=True, eq=False)
class Inode:
    """A file apart from its names: what of it is on the disk for good."""

    synced: bytes = b""


class FaultyFile(File):
    __slots__ = ("files", "inode")

    def __init__(self, path: Path, fd: int, files: FaultyFiles, inode: Inode) -> None:
        super().__init__(path, fd)
        self.files = files
        self.inode = inode

    def _write_some(self, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)
        allowed = self.files.perform("write", self.path, len(data))
        return super()._write_some([data[:allowed]], position)

    def truncate(self, size_bytes: int) -> None:
        self.files.perform("truncate", self.path, size_bytes)
        super().truncate(size_bytes)

    def sync(self) -> None:
        self.files.perform("sync", self.path)
        self.inode.synced = self.read_at(self.size_bytes(), 0)


class FaultyFiles(Files):
    """`root` is the directory that a crash concerns; what is in it at the start is on the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self.fault: Callable[[Operation], OSError | int | None] | None = None
        self._names: dict[Path, Inode] = {}
        self._synced_names: dict[Path, Inode] = {}
        self._directories = {root}
        self._synced_directories = {root}
        for path in sorted(root.rglob("*")):
            if path.is_dir():
                self._directories.add(path)
                self._synced_directories.add(path)
            else:
                self._names[path] = self._synced_names[path] = Inode(path.read_bytes())

    # Faults.

    def fail(self, nth: int, number: int = errno.EIO) -> None:
        """Let the `nth` operation from now on, counted from 0, fail with this errno; the others go well."""
        left = iter(range(nth, -1, -1))
        self.fault = lambda _: OSError(number, os.strerror(number)) if next(left, None) == 0 else None

    def fail_always(self, name: str, number: int = errno.EIO) -> None:
        """Let every operation of this name fail from now on."""
        self.fault = lambda op: OSError(number, os.strerror(number)) if op.name == name else None

    def write_short(self, size_bytes: int) -> None:
        """Let every write from now on take at most this many bytes."""
        self.fault = lambda op: min(size_bytes, op.size_bytes) if op.name == "write" else None

    def perform(self, name: str, path: Path, size_bytes: int = 0) -> int:
        """Record an operation, and fail it if its turn has come; else how many bytes it may write."""
        operation = Operation(name, path, size_bytes)
        outcome = self.fault(operation) if self.fault else None
        if isinstance(outcome, OSError):
            self.operations.append(Operation(f"failed {name}", path, size_bytes))
            raise StorageError.of(name, path, outcome)
        self.operations.append(operation)
        return size_bytes if outcome is None else outcome

    def history(self, suffix: str = "") -> list[str]:
        """The operations on names that end with `suffix`, as text."""
        return [str(operation) for operation in self.operations if operation.path.name.endswith(suffix)]

    # The crash.

    def crash(self) -> None:
        """Lose everything that was not synced. Files that are open are not to be used any more."""
        for path in sorted(self._directories - {self.root}, reverse=True):
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
        for file in self.root.iterdir():
            file.unlink()
        self._directories = {path for path in self._synced_directories if self._survives(path)}
        for path in sorted(self._directories - {self.root}):
            path.mkdir()
        self._names = {path: i for path, i in self._synced_names.items() if path.parent in self._directories}
        self._synced_names = dict(self._names)
        for path, inode in self._names.items():
            path.write_bytes(inode.synced)

    def _survives(self, directory: Path) -> bool:
        ancestors = [path for path in (directory, *directory.parents) if path.is_relative_to(self.root)]
        return all(path in self._synced_directories for path in ancestors)

    # The operations.

    def open(self, path: Path, *, create: bool = False) -> File:
        if create and path not in self._names:
            self.perform("create", path)
        return super().open(path, create=create)

    def _file(self, path: Path, fd: int) -> File:
        return FaultyFile(path, fd, self, self._names.setdefault(path, Inode()))

    def make_directory(self, path: Path) -> bool:
        if path not in self._directories:
            self.perform("mkdir", path)
        self._directories.add(path)
        return super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self.perform("sync", path)
        kept = {name: inode for name, inode in dict(self._synced_names).items() if name.parent != path}
        self._synced_names = kept | {n: inode for n, inode in dict(self._names).items() if n.parent == path}
        others = {directory for directory in self._synced_directories if directory.parent != path}
        self._synced_directories = others | {d for d in self._directories if d.parent == path}

    def rename(self, source: Path, target: Path) -> None:
        self.perform("rename", target)
        super().rename(source, target)
        if source in self._directories:
            self._move_directory(source, target)
        else:
            self._names[target] = self._names.pop(source)

    def _move_directory(self, source: Path, target: Path) -> None:
        """What is in a directory keeps its state, synced or not, under the new name."""
        self._directories = {target if path == source else path for path in self._directories}
        moved = {path: target / path.name if path.parent == source else path for path in self._names}
        self._names = {moved[path]: inode for path, inode in self._names.items()}
        self._synced_names |= {
            moved[path]: inode for path, inode in self._synced_names.items() if moved.get(path, path) != path
        }

    def unlink(self, path: Path) -> None:
        if path in self._names:
            self.perform("unlink", path)
            del self._names[path]
        super().unlink(path)

    def remove_directory(self, path: Path) -> None:
        self.perform("rmdir", path)
        super().remove_directory(path)
        self._directories.discard(path)
