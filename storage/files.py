"""The one door to the disk: every file operation of the storage room goes through `Files` and `File`.

A thin layer over the system calls that turns each OSError into a `StorageError` naming the operation and the
path, finishes short writes and reads, and says when a read would have to wait for the disk. It knows nothing
of batches or segments. Tests put a double in its place that records the order of operations, breaks them and
forgets what was never synced (harness/doubles/faulty_files.py).

Reads and writes carry their position, so a `File` has no cursor and several threads may read one at a time
when another writes it. A file that is no longer wanted (a deleted segment) need not be closed while another
still reads it: it closes itself when the last reference goes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Chunk: TypeAlias = bytes | bytearray
"""The bytes that a read returns; the caller owns them."""

MAX_BUFFERS_PER_WRITE: Final = 1024  # Linux takes no more buffers (IOV_MAX) in one pwritev.
RWF_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)  # 0 where the system has no such flag.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_WOULD_BLOCK: Final = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.ENOSYS})


class Access(NamedTuple):
    """Who may use a file: its mode, its owner's number, and the mode of its folder."""

    mode: int
    owner: int
    folder_mode: int


class StorageError(Exception):
    """An operation on the disk failed: `operation` on `path`. `errno` is the system's number, if there is one."""

    def __init__(self, operation: str, path: Path, reason: str, number: int | None = None) -> None:
        super().__init__(f"{operation} {path}: {reason}")
        self.operation = operation
        self.path = path
        self.reason = reason
        self.errno = number

    @property
    def is_no_room(self) -> bool:
        """Whether the disk is full, or a quota is used up: nothing is broken then."""
        return self.errno in _NO_ROOM

    @classmethod
    def of(cls, operation: str, path: Path, error: OSError) -> StorageError:
        return StorageError(operation, path, error.strerror or str(error), error.errno)


OnFlushed: TypeAlias = Callable[[StorageError | None], None]
"""Called when a flush that was asked for has ended: None if what it covers is durable, else why it is not."""


class CorruptSegment(StorageError):
    """`path` is damaged from `byte` on, in bytes that were synced and may have been acknowledged."""

    def __init__(self, path: Path, byte: int, detail: str) -> None:
        super().__init__("read", path, f"corrupt at byte {byte}: {detail}")
        self.byte = byte


class File:
    """An open file. Every method raises StorageError."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write `buffers` one after the other from `position`, all of them or raise."""
        for first in range(0, len(buffers), MAX_BUFFERS_PER_WRITE):
            position = self._write_whole(buffers[first : first + MAX_BUFFERS_PER_WRITE], position)

    def _write_whole(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all `buffers`; return the position after them. A retry after a short write shows its reason."""
        wanted = sum(map(len, buffers))
        written = self._write_some(buffers, position)
        if written < wanted:
            rest = memoryview(b"".join(buffers))
            while written < wanted:
                count = self._write_some([rest[written:]], position + written)
                if count == 0:
                    raise StorageError("write", self.path, "the system wrote nothing", errno.EIO)
                written += count
        return position + wanted

    def _write_some(self, buffers: Sequence[Buffer], position: int) -> int:
        try:
            return os.pwritev(self._fd, buffers, position)
        except OSError as error:
            raise StorageError.of("write", self.path, error) from error

    def read_at(self, length: int, position: int) -> bytes:
        """Read `length` bytes from `position`; fewer only at the end of the file."""
        try:
            data = os.pread(self._fd, length, position)
            while len(data) < length:
                more = os.pread(self._fd, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise StorageError.of("read", self.path, error) from error
        return data

    def read_at_nowait(self, length: int, position: int) -> bytearray | None:
        """Read `length` bytes if they are in memory; None if the disk may have to be waited for.

        Also None where the system cannot say (no RWF_NOWAIT on this file system), so that no thread that must
        not wait ever does.
        """
        if not RWF_NOWAIT:
            return None
        data = bytearray(length)
        try:
            count = os.preadv(self._fd, [data], position, RWF_NOWAIT)
        except OSError as error:
            if error.errno in _WOULD_BLOCK:
                return None
            raise StorageError.of("read", self.path, error) from error
        return data if count == length else None

    def size_bytes(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            raise StorageError.of("stat", self.path, error) from error

    def truncate(self, size_bytes: int) -> None:
        try:
            os.ftruncate(self._fd, size_bytes)
        except OSError as error:
            raise StorageError.of("truncate", self.path, error) from error

    def sync(self) -> None:
        """Return once the bytes and the length are on the disk (fdatasync).

        After a failure the system may have dropped what it could not write and forgotten the error, so
        a second try proves nothing: cut the file back to what was synced before.
        """
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise StorageError.of("sync", self.path, error) from error

    def close(self) -> None:
        """Close; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                os.close(fd)
            except OSError as error:
                raise StorageError.of("close", self.path, error) from error

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class Files:
    """Operations on files and directories by their path. Every method raises StorageError."""

    def open(self, path: Path, *, create: bool = False, mode: int = 0o644) -> File:
        """Open for reading and writing; with `create` the file is made, with `mode`, if it is not there."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return self._file(path, os.open(path, flags, mode))
        except OSError as error:
            raise StorageError.of("open", path, error) from error

    def open_to_read(self, path: Path) -> File:
        """Open for reading alone: also from a disk that can no longer be written."""
        try:
            return self._file(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            raise StorageError.of("open", path, error) from error

    def _file(self, path: Path, fd: int) -> File:
        return File(path, fd)

    def read_small(self, path: Path) -> bytes | None:
        """The whole of a small file (checkpoints, properties), or None if there is none."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError.of("read", path, error) from error

    def entries(self, directory: Path) -> list[str] | None:
        """The names in `directory`, sorted; None if there is no such directory."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError.of("list", directory, error) from error

    def is_directory(self, path: Path) -> bool:
        try:
            return path.is_dir()
        except OSError as error:
            raise StorageError.of("stat", path, error) from error

    def size_bytes(self, path: Path) -> int:
        try:
            return path.stat().st_size
        except OSError as error:
            raise StorageError.of("stat", path, error) from error

    def modified_ms(self, path: Path) -> int:
        """When the file was last written, in milliseconds of the wall clock."""
        try:
            return path.stat().st_mtime_ns // 1_000_000
        except OSError as error:
            raise StorageError.of("stat", path, error) from error

    def make_directory(self, path: Path, *, is_private: bool = False) -> bool:
        """Make `path`, if `is_private` for its owner alone; False if it was there.

        Its name is safe after `sync_directory` of the parent.
        """
        try:
            path.mkdir(mode=0o700 if is_private else 0o777)
        except FileExistsError:
            return False
        except OSError as error:
            raise StorageError.of("mkdir", path, error) from error
        return True

    def make_directories(self, path: Path) -> None:
        """Make `path` and what is missing above it; nothing happens if it is there."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError.of("mkdir", path, error) from error

    def sync_directory(self, path: Path) -> None:
        """Return once the names made, moved and removed in `path` are on the disk."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise StorageError.of("sync", path, error) from error

    def rename(self, source: Path, target: Path) -> None:
        """Move `source` over `target` in one step."""
        try:
            source.rename(target)
        except OSError as error:
            raise StorageError.of("rename", source, error) from error

    def unlink(self, path: Path) -> None:
        """Remove a file's name; nothing happens if it is not there."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError.of("unlink", path, error) from error

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        try:
            path.rmdir()
        except OSError as error:
            raise StorageError.of("rmdir", path, error) from error

    def space(self, path: Path) -> tuple[int, int]:
        """Return the size in bytes of the volume that `path` lies on, and how many of them are free for us."""
        try:
            found = os.statvfs(path)
        except OSError as error:
            raise StorageError.of("statvfs", path, error) from error
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def lock(self, path: Path) -> File | None:
        """Hold `path` for this process until the returned file is closed; None if another process holds it.

        Both kinds of lock are taken: flock keeps daemons of ours apart, and a POSIX record lock is what
        a Java broker takes on the same file.
        """
        file = self.open(path, create=True)
        try:
            fcntl.flock(file._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise StorageError.of("lock", path, error) from error
        return file

    def is_locked(self, path: Path) -> bool:
        """Whether another process holds `path` by `lock`, or by a Java broker's; takes and makes nothing."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageError.of("open", path, error) from error
        try:
            os.lockf(fd, os.F_TEST, 0)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return True
            raise StorageError.of("lock", path, error) from error
        finally:
            os.close(fd)
        return False

    def access(self, path: Path) -> Access:
        """Return who may read and write the file, and put another in its place."""
        try:
            file, folder = path.stat(), path.parent.stat()
        except OSError as error:
            raise StorageError.of("stat", path, error) from error
        return Access(stat.S_IMODE(file.st_mode) & 0o777, file.st_uid, stat.S_IMODE(folder.st_mode))

    def write_atomically(
        self, path: Path, data: bytes, *, sync_name: bool = True, is_secret: bool = False
    ) -> None:
        """Put `data` at `path`, whole or not at all, and on the disk when this returns.

        Without `sync_name` that is so only after the caller's own `sync_directory`. What `is_secret` can be read
        by this user alone, at any time.
        """
        draft = path.with_name(path.name + ".tmp")
        if is_secret:
            self.unlink(draft)  # One that is there already may be readable by others.
        file = self.open(draft, create=True, mode=0o600 if is_secret else 0o644)
        file.truncate(0)
        file.write_at([data], 0)
        file.sync()
        file.close()
        self.rename(draft, path)
        if sync_name:
            self.sync_directory(path.parent)
