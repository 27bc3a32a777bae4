"""A double of `storage.files` on real files: it records every operation, breaks some, and crashes.

What a disk promises is kept and nothing more. Of each file the bytes and the length as of its last sync are
safe, under the names as of the last sync of their directory. What came after is lost in a crash; or, given a
`Random`, any of it may be there: of each sector any version that was written since, any length that the file
had, and of the changes of a directory any number from the first on (file systems keep those in order). A sync
that fails drops what it was to write, as Linux does: the file reads as before, the pages count as clean, and
the next sync succeeds without them.

Operations are recorded in order, so a test can say what came before what. A sync is only noted: the real disk
is not asked to, which makes this double quick as well.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import RLock
from typing import TypeAlias

from storage.files import Buffer, File, Files, StorageError

PAGE_BYTES = 4096  # The unit in which the page cache is dirty or clean.
SECTOR_BYTES = 512  # The unit that reaches the disk whole or not at all.


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that changes the disk or syncs it; as an argument of `read_fault`, one that only reads."""

    name: str
    path: Path
    size_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.path.name}"

    def is_at(self, name: str, place: str) -> bool:
        """Whether it is this operation on a path whose last two parts have `place` in them.

        What stands before them is the machine's: pytest's own folder may be called "pytest-1".
        """
        return self.name == name and place in "/".join(self.path.parts[-2:])


Fault: TypeAlias = Callable[[Operation], OSError | int | None]
"""Decides the outcome of an operation: an error to raise, the bytes that a write takes, or None for success."""


class Inode:
    """A file's content apart from its names: what is synced, and every version written since."""

    __slots__ = ("sizes", "synced", "versions")

    def __init__(self, synced: bytes = b"") -> None:
        self.synced = bytearray(synced)
        self.versions: dict[int, list[bytes]] = {}  # By dirty page: its content after each write.
        self.sizes: list[int] = []  # The file's size after each write since the last sync.

    def changed(self, file: File, first: int, end: int) -> None:
        """Record that bytes [first, end) have just been written."""
        for page in range(first // PAGE_BYTES, -(-end // PAGE_BYTES)):
            data = File.read_at(file, PAGE_BYTES, page * PAGE_BYTES)
            self.versions.setdefault(page, []).append(data.ljust(PAGE_BYTES, b"\0"))
        self.sizes.append(file.size_bytes())

    def reach_the_disk(self, size_bytes: int) -> None:
        for page, versions in self.versions.items():
            self.put(self.synced, page * PAGE_BYTES, versions[-1])
        self.resize(self.synced, size_bytes)
        self.drop()

    def drop(self) -> None:
        self.versions.clear()
        self.sizes.clear()

    def after_crash(self, random: Random | None) -> bytes:
        """The content that the disk has after a power failure, of which `random` draws the unsynced part."""
        data = bytearray(self.synced)
        if random is not None and self.sizes:
            for page, versions in self.versions.items():
                for start in range(0, PAGE_BYTES, SECTOR_BYTES):
                    version = random.randrange(-1, len(versions))
                    if version >= 0:
                        self.put(
                            data, page * PAGE_BYTES + start, versions[version][start : start + SECTOR_BYTES]
                        )
            self.resize(data, random.choice([len(self.synced), *self.sizes]))
        return bytes(data)

    @staticmethod
    def put(data: bytearray, position: int, piece: bytes) -> None:
        if len(data) < position + len(piece):
            data.extend(bytes(position + len(piece) - len(data)))
        data[position : position + len(piece)] = piece

    @staticmethod
    def resize(data: bytearray, size_bytes: int) -> None:
        del data[size_bytes:]
        data.extend(bytes(size_bytes - len(data)))


@dataclass(slots=True, eq=False)
class Folder:
    """A directory: its entries, its entries as of its last sync, and the changes since, in order."""

    entries: dict[str, Inode | Folder] = field(default_factory=dict)
    synced: dict[str, Inode | Folder] = field(default_factory=dict)
    changes: list[dict[str, Inode | Folder | None]] = field(default_factory=list)

    def change(self, change: dict[str, Inode | Folder | None]) -> None:
        """Apply one change as a whole: add the names with a file or folder, remove those with None."""
        self.changes.append(change)
        apply(self.entries, change)

    def sync(self) -> None:
        self.synced = dict(self.entries)
        self.changes.clear()

    def after_crash(self, random: Random | None) -> dict[str, Inode | Folder]:
        kept = dict(self.synced)
        for change in self.changes[: random.randint(0, len(self.changes)) if random else 0]:
            apply(kept, change)
        return kept


def apply(entries: dict[str, Inode | Folder], change: dict[str, Inode | Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class FaultyFile(File):
    __slots__ = ("files", "inode")

    def __init__(self, path: Path, fd: int, files: FaultyFiles, inode: Inode) -> None:
        super().__init__(path, fd)
        self.files = files
        self.inode = inode

    def _write_some(self, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)
        allowed = self.files.perform("write", self.path, len(data))
        with self.files.guard:
            count = super()._write_some([data[:allowed]], position)
            self.inode.changed(self, position, position + count)
        return count

    def truncate(self, size_bytes: int) -> None:
        self.files.perform("truncate", self.path, size_bytes)
        with self.files.guard:
            before = self.size_bytes()
            super().truncate(size_bytes)
            self.inode.changed(self, min(before, size_bytes), max(before, size_bytes))

    def sync(self) -> None:
        try:
            self.files.perform("sync", self.path)
        except StorageError:
            with self.files.guard:
                self.inode.drop()
            raise
        with self.files.guard:
            self.inode.reach_the_disk(self.size_bytes())

    def read_at(self, length: int, position: int) -> bytes:
        self.files.look("read", self.path)
        return self.files.flipped(self.path, super().read_at(length, position), position)

    def read_at_nowait(self, length: int, position: int) -> bytearray | None:
        self.files.look("read", self.path)
        data = super().read_at_nowait(length, position)
        return data if data is None else bytearray(self.files.flipped(self.path, data, position))


class FaultyFiles(Files):
    """A file layer on the directory `root`, which a crash concerns; its content at the start counts as synced."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self.fault: Fault | None = None
        self.read_fault: Fault | None = None  # For "open", "read", "list" and "stat", which are not recorded.
        self.flips: dict[Path, dict[int, int]] = {}  # By file and byte: the mask that a read XORs it with.
        self.guard = RLock()
        self._tree = synced_folder(root)

    # Faults.

    def fail(self, nth: int, number: int = errno.EIO) -> None:
        """Let the `nth` operation from now on, counted from 0, fail with errno `number`; others succeed."""
        left = iter(range(nth, -1, -1))
        self.fault = lambda _: OSError(number, os.strerror(number)) if next(left, None) == 0 else None

    def fail_always(self, name: str, number: int = errno.EIO) -> None:
        """Let every operation of this name fail from now on."""
        self.fault = lambda op: OSError(number, os.strerror(number)) if op.name == name else None

    def fail_randomly(self, random: Random, share: float, errnos: Sequence[int] = (errno.EIO,)) -> None:
        """Let this share of operations fail with an errno of `errnos`; half of such writes are cut short."""

        def fault(operation: Operation) -> OSError | int | None:
            if random.random() >= share:
                return None
            if operation.name == "write" and operation.size_bytes and random.random() < 0.5:
                return random.randrange(operation.size_bytes)
            number = random.choice(errnos)
            return OSError(number, os.strerror(number))

        self.fault = fault

    def write_short(self, size_bytes: int) -> None:
        """Let every write from now on take at most this many bytes."""
        self.fault = lambda op: min(size_bytes, op.size_bytes) if op.name == "write" else None

    def run_out_of_room(self, left_bytes: int = 0) -> None:
        """Let writes take `left_bytes` more in all; after that, writes and new names fail with ENOSPC."""
        left = [left_bytes]

        def fault(operation: Operation) -> OSError | int | None:
            if operation.name == "write" and left[0] > 0:
                count = min(left[0], operation.size_bytes)
                left[0] -= count
                return count
            if operation.name in ("write", "create", "mkdir"):
                return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return None

        self.fault = fault

    def refuse_to_open(self, suffix: str, number: int = errno.EMFILE) -> None:
        """Let every open of a file whose path ends with `suffix` fail from now on."""
        self.read_fault = lambda op: (
            OSError(number, os.strerror(number))
            if op.name == "open" and str(op.path).endswith(suffix)
            else None
        )

    def perform(self, name: str, path: Path, size_bytes: int = 0) -> int:
        """Record an operation and return the bytes it may write. Raises StorageError if a fault is due."""
        operation = Operation(name, path, size_bytes)
        outcome = self.fault(operation) if self.fault else None
        if isinstance(outcome, OSError):
            self.operations.append(Operation(f"failed {name}", path, size_bytes))
            raise StorageError.of(name, path, outcome)
        self.operations.append(operation)
        return size_bytes if outcome is None else outcome

    def look(self, name: str, path: Path) -> None:
        """Raise StorageError if `read_fault` has an error for this operation, which changes nothing."""
        outcome = self.read_fault(Operation(name, path)) if self.read_fault else None
        if isinstance(outcome, OSError):
            raise StorageError.of(name, path, outcome)

    def flipped(self, path: Path, data: Buffer, position: int) -> bytes:
        """The bytes that a read at `position` returns: `data` with the test's flips in it."""
        flips = self.flips.get(path)
        if not flips:
            return bytes(data)
        damaged = bytearray(data)
        for byte, mask in flips.items():
            if position <= byte < position + len(damaged):
                damaged[byte - position] ^= mask
        return bytes(damaged)

    def history(self, suffix: str = "") -> list[str]:
        """The recorded operations on names that end with `suffix`, each as text."""
        return [str(operation) for operation in self.operations if operation.path.name.endswith(suffix)]

    # The crash.

    def crash(self, random: Random | None = None) -> None:
        """Lose all that was not synced, or what `random` draws of it. Files that are open become unusable."""
        self.put_image(self.root, random)
        self._tree = synced_folder(self.root)

    def write_back(self) -> None:
        """Let all that was changed reach the disk, as the system sees to by itself when it has time."""
        with self.guard:
            write_back(self._tree)

    def put_image(self, target: Path, random: Random | None = None) -> None:
        """Write to `target` what a power failure now would leave of `root`, which itself stays as it is."""
        with self.guard:
            empty(target)
            for path, data in self._surviving(self._tree, target, random):
                if data is None:
                    path.mkdir()
                else:
                    path.write_bytes(data)

    def _surviving(
        self, folder: Folder, path: Path, random: Random | None
    ) -> Iterator[tuple[Path, bytes | None]]:
        for name, node in sorted(folder.after_crash(random).items()):
            if isinstance(node, Folder):
                yield path / name, None
                yield from self._surviving(node, path / name, random)
            else:
                yield path / name, node.after_crash(random)

    # The operations.

    def _folder(self, path: Path) -> Folder:
        folder = self._tree
        for depth, name in enumerate(path.relative_to(self.root).parts, 1):
            node = folder.entries.get(name)
            if node is None:  # Made by the test and not through this class: counts as synced.
                node = synced_folder(self.root.joinpath(*path.relative_to(self.root).parts[:depth]))
                folder.entries[name] = folder.synced[name] = node
            assert isinstance(node, Folder), path
            folder = node
        return folder

    def _node(self, path: Path) -> Inode | Folder | None:
        return self._folder(path.parent).entries.get(path.name)

    def open(self, path: Path, *, create: bool = False, mode: int = 0o644) -> File:
        self.look("open", path)
        if create and not path.exists():
            self.perform("create", path)
            with self.guard:
                self._folder(path.parent).change({path.name: Inode()})
        return super().open(path, create=create, mode=mode)

    def _file(self, path: Path, fd: int) -> File:
        with self.guard:
            node = self._node(path)
            if node is None:
                folder = self._folder(path.parent)
                node = folder.entries[path.name] = folder.synced[path.name] = Inode(path.read_bytes())
        assert isinstance(node, Inode), path
        return FaultyFile(path, fd, self, node)

    def read_small(self, path: Path) -> bytes | None:
        self.look("read", path)
        data = super().read_small(path)
        return data if data is None else self.flipped(path, data, 0)

    def entries(self, directory: Path) -> list[str] | None:
        self.look("list", directory)
        return super().entries(directory)

    def size_bytes(self, path: Path) -> int:
        self.look("stat", path)
        return super().size_bytes(path)

    def make_directory(self, path: Path, *, is_private: bool = False) -> bool:
        if not path.is_dir():
            self.perform("mkdir", path)
            with self.guard:
                self._folder(path.parent).change({path.name: Folder()})
        return super().make_directory(path, is_private=is_private)

    def sync_directory(self, path: Path) -> None:
        self.perform("sync", path)
        with self.guard:
            self._folder(path).sync()

    def rename(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent, "a rename within one directory is one change"
        self.perform("rename", target)
        with self.guard:
            super().rename(source, target)
            folder = self._folder(source.parent)
            folder.change({source.name: None, target.name: folder.entries[source.name]})

    def unlink(self, path: Path) -> None:
        if path.exists():
            self.perform("unlink", path)
            with self.guard:
                self._folder(path.parent).change({path.name: None})
        super().unlink(path)

    def remove_directory(self, path: Path) -> None:
        self.perform("rmdir", path)
        super().remove_directory(path)
        with self.guard:
            self._folder(path.parent).change({path.name: None})


def synced_folder(path: Path) -> Folder:
    """The content of the real directory `path`, taken as synced."""
    folder = Folder()
    for entry in os.scandir(path):
        child = path / entry.name
        folder.entries[entry.name] = synced_folder(child) if entry.is_dir() else Inode(child.read_bytes())
    folder.sync()
    return folder


def write_back(folder: Folder) -> None:
    """Sync the content of `folder`, and all below it."""
    folder.sync()
    for node in folder.entries.values():
        if isinstance(node, Folder):
            write_back(node)
        elif node.sizes:
            node.reach_the_disk(node.sizes[-1])


def empty(path: Path) -> None:
    """Remove everything in the real directory `path`."""
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry)
        else:
            os.unlink(entry)
