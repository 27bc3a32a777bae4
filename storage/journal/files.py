"""The journal's files, `muster-journal/<number>.journal`: frames are written to the last, and read at a start.

What is on the disk when: under the policy `fsync` a frame is synced before `append` returns, and so are the
name and the header of its file. So after a crash at most the last frame of the last file is torn, and that one
nobody has heard of: it is cut. A frame that is no good with another behind it, or in an older file, is
corruption. Under `os` nothing but the change to another file syncs, and a loss of power may leave any hole in the
last file: all behind the first one is cut.

After a failed write or sync the file is cut back to the last good frame; a failed sync may leave pages that count
as clean and are not on the disk, so what no sync has covered is written again, and frames go on in a new file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_bytes
from typing import Final

from storage.files import File, Files, StorageError
from storage.journal.frames import MARK_BYTES, FileHeader, Frame, Part, encode_file_header, encode_frame
from storage.journal.scan import Place, read_whole, scan_file
from storage.log.batch_walk import WINDOW_BYTES
from storage.log.segment import BLOCK_BYTES

DIRECTORY: Final = "muster-journal"
SUFFIX: Final = ".journal"
DIGITS: Final = 20


def number_of(name: str) -> int | None:
    """Return the number in the name of a journal's file; None for any other name."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if stem != name and len(stem) == DIGITS and stem.isdecimal() else None


class JournalFiles:
    """The files of one directory's journal. One thread at a time. Methods raise StorageError."""

    def __init__(self, files: Files, log_directory: Path, directory_id: str, *, is_synced: bool) -> None:
        self.path = log_directory / DIRECTORY
        self.is_synced = is_synced
        self.cut_bytes = 0  # Of a torn last frame, which `read` found.
        self._files = files
        self._directory_id = directory_id
        self._file: File | None = None  # The one that is written; None before the first frame.
        self._mark = b""  # Its frames begin with it.
        self._header_bytes = 0
        self._good_bytes = 0  # Its size up to the last good frame,
        self._synced_bytes = 0  # and how much of that a sync has covered.
        self._has_failed = False  # The file may differ from `_good_bytes`.
        self._ended: StorageError | None = None  # Why no frame is written any more.
        self._is_half_made = False  # There may be a file of the next number, which could not be made.
        self._is_name_synced = (
            False  # The journal's own; an earlier attempt may have made the directory alone.
        )
        self._sizes: dict[int, int] = {}  # Of all files there are, oldest first; the last is being written.
        self._next_sequence = 1
        self._next_number = 1

    @property
    def numbers(self) -> list[int]:
        """The numbers of the files, oldest first."""
        return list(self._sizes)

    @property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(self._sizes.values())

    @property
    def newest_bytes(self) -> int:
        """The size of the file that is written."""
        return self._good_bytes if self._file is not None else 0

    def _path_of(self, number: int) -> Path:
        return self.path / f"{number:0{DIGITS}d}{SUFFIX}"

    # The start.

    def read(self) -> list[Frame]:
        """Read all frames that count, in order; what is left is synced, and a torn end is cut off.

        Raises CorruptSegment, ForeignJournal.
        """
        names = self._files.entries(self.path) or []
        numbers = sorted(number for name in names if (number := number_of(name)) is not None)
        frames: list[Frame] = []
        expected: int | None = None
        for number in numbers:
            found, expected = self._read_file(number, expected, is_last=number == numbers[-1])
            frames += found
        self._next_sequence = expected or 1
        self._next_number = numbers[-1] + 1 if numbers else 1
        return frames

    def _read_file(
        self, number: int, expected: int | None, *, is_last: bool
    ) -> tuple[list[Frame], int | None]:
        """Return the file's frames and the sequence that comes next."""
        path = self._path_of(number)
        file = self._files.open(path)
        data, unreadable = read_whole(file)
        if unreadable is not None:
            raise unreadable
        scan = scan_file(Place(path, number, expected, is_last, self._directory_id), data)
        if scan.fault is not None:
            raise scan.fault
        if scan.header is None:
            self._drop(path)
            return [], expected
        if scan.torn is not None:
            self.cut_bytes += len(data) - scan.end
            file.truncate(scan.end)
        file.sync()  # What a killed process had only written counts from now on.
        file.close()
        self._sizes[number] = scan.end
        return scan.frames, scan.next_sequence

    def _drop(self, path: Path) -> None:
        self._files.unlink(path)
        self._files.sync_directory(self.path)

    # Writing.

    def append(self, parts: Sequence[Part]) -> None:
        """Write a frame; it is as durable as the policy says when this returns."""
        if self._ended is not None:
            raise self._ended
        self.cut_back()
        if self._is_half_made and self._file is not None:
            # Otherwise this file were not the last, and a torn frame in it no torn end.
            self._drop(self._path_of(self._next_number))
            self._is_half_made = False
        file = self._file or self.begin()
        buffers = encode_frame(self._mark, self._next_sequence, parts)
        try:
            file.write_at(buffers, self._good_bytes)
            if self.is_synced:
                file.sync()
        except BaseException:  # The disk's or a bug: the frame may be whole, and is not to come back.
            self._has_failed = True
            raise
        self._next_sequence += 1
        self._good_bytes += sum(map(len, buffers))
        if self.is_synced:
            self._synced_bytes = self._good_bytes
        self._sizes[self._next_number - 1] = self._good_bytes

    def end(self, why: str) -> None:
        """Refuse all frames from now on: a log has missed the last one, and would go on with its offsets.

        The next start reads that frame, as it does a frame whose outcome no client has heard of.
        """
        self._ended = StorageError("write", self.path, f"no frame may follow one that a bug ended ({why})")

    def begin(self) -> File:
        """Make the next file, to which frames go from now on; the one before is synced first.

        One that has no frame yet is as good as the next.
        """
        self.cut_back()
        if self._file is not None and self._good_bytes == self._header_bytes:
            return self._file
        self._sync_last()
        self._files.make_directory(self.path)
        if not self._is_name_synced:
            self._files.sync_directory(self.path.parent)
            self._is_name_synced = True
        number = self._next_number
        path = self._path_of(number)
        mark = token_bytes(MARK_BYTES)
        header = FileHeader(number, self._next_sequence, self.is_synced, mark, self._directory_id)
        data = encode_file_header(header)
        self._is_half_made = True
        file = self._files.open(path, create=True)
        file.truncate(0)  # An attempt that failed may have left one.
        file.write_at([data], 0)
        file.sync()
        self._files.sync_directory(self.path)
        self._is_half_made = False
        if self._file is not None:
            self._file.close()
        self._file, self._mark, self._next_number = file, mark, number + 1
        self._header_bytes = self._good_bytes = self._synced_bytes = len(data)
        self._sizes[number] = self._good_bytes
        return file

    def _sync_last(self) -> None:
        if self._file is None:
            return
        try:
            self._file.sync()
        except StorageError:
            self._has_failed = True  # A second try would prove nothing.
            raise
        self._synced_bytes = self._good_bytes

    def cut_back(self) -> None:
        """After a failure: cut the file back to its last good frame, and let the next frame begin a new one."""
        if not self._has_failed:
            return
        assert self._file is not None
        number = self._next_number - 1
        file = self._files.open(self._path_of(number))
        file.truncate(self._good_bytes)
        for position in range(
            self._synced_bytes - self._synced_bytes % BLOCK_BYTES, self._good_bytes, WINDOW_BYTES
        ):
            data = file.read_at(min(WINDOW_BYTES, self._good_bytes - position), position)
            file.write_at([data], position)
        file.sync()
        self._file.close()
        file.close()
        self._file, self._has_failed = None, False

    def older(self) -> Iterator[Frame]:
        """Yield the frames of all files but the newest. Raises CorruptSegment, StorageError."""
        for number in self.numbers[:-1]:
            path = self._path_of(number)
            data, unreadable = read_whole(self._files.open_to_read(path))
            scan = scan_file(Place(path, number, None, False, self._directory_id), data)
            if fault := unreadable or scan.fault:
                raise fault
            yield from scan.frames

    def delete_before(self, number: int) -> None:
        """Remove the files before `number`, oldest first, each name's removal synced before the next."""
        for old in [each for each in self.numbers if each < number]:  # A copy: a frame may begin a file.
            self._drop(self._path_of(old))
            del self._sizes[old]

    def remove(self) -> None:
        """Remove the journal altogether: all of it is in the logs, synced."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.delete_before(self._next_number)
        if self._files.is_directory(self.path):
            for name in self._files.entries(self.path) or ():
                self._files.unlink(self.path / name)
            self._files.remove_directory(self.path)
            self._files.sync_directory(self.path.parent)
            self._is_name_synced = False
