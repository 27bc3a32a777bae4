"""The sizes of a log directory's sealed segments when they were last recorded: `sealed-segments.json`.

A file that is cut where a batch ends is sound as far as it goes, and that offsets are missing behind it looks like
compaction's work. So the size of every sealed segment below the recovery points is kept in a file of our own,
beside theirs. It counts only together with the recovery points it was written with, whose checksum it has: once
another program has written those, it is not known what became of the segments.

What stands in the file is true at every moment, also if the power goes: segments are replaced, shortened and
deleted only within `PartitionSeals.change`, which first has them forgotten, durably. The file is written
before the recovery points are; a crash in between leaves it without a meaning until it is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

from google_crc32c import value as crc32c

from protocol.topic_partition import TopicPartition
from storage.files import CorruptSegment, Files, StorageError
from storage.log.checkpoints import RECOVERY_POINTS, Garbled
from storage.log.config import INT64_MAX
from storage.log.segment import Segment, log_path
from storage.sealed_json import read_sealed, write_sealed

SEALED_SEGMENTS: Final = "sealed-segments.json"
SWAPPED_BY_HAND: Final = f"if files were exchanged by hand, remove {SEALED_SEGMENTS} from the log directory"

Sizes: TypeAlias = dict[int, int]
"""The size in bytes of each segment, by its base offset."""


class Fault(NamedTuple):
    """A sealed segment that is missing, or not of the recorded size; `byte` is the smaller of the two sizes."""

    path: Path
    byte: int
    base_offset: int
    what: str


def read_sealed_segments(files: Files, directory: Path) -> dict[TopicPartition, Sizes] | None:
    """Read the recorded sizes; None if there is no file, or it is not of the present recovery points.

    Raises Garbled; StorageError if the disk cannot read the file.
    """
    path = directory / SEALED_SEGMENTS

    def parse(document: dict[str, Any]) -> dict[TopicPartition, Sizes] | None:
        points = files.read_small(directory / RECOVERY_POINTS)
        if points is None or document["recovery_points"] != crc32c(points):
            return None
        return {
            _partition_named(name): _parsed_sizes(sizes) for name, sizes in document["partitions"].items()
        }

    try:
        return read_sealed(files, path, "list of sealed segments", parse)
    except StorageError as error:
        if error.errno is not None:
            raise
        raise Garbled(f"{path}: {error.reason}") from error


def _partition_named(directory_name: str) -> TopicPartition:
    topic, _, partition = directory_name.rpartition("-")
    return TopicPartition(topic, int(partition))


def _parsed_sizes(sizes: Mapping[str, int]) -> Sizes:
    return {int(base_offset): int(size_bytes) for base_offset, size_bytes in sizes.items()}


def faults(files: Files, directory: Path, sizes: Sizes, log_start_offset: int = 0) -> Iterator[Fault]:
    """Yield the recorded segments of one log that are gone or of another size, except below the log's start."""
    names = frozenset(files.entries(directory) or ())
    for base_offset, end_offset in pairwise([*sorted(sizes), INT64_MAX]):
        path, synced_bytes = log_path(directory, base_offset), sizes[base_offset]
        is_there = path.name in names
        size_bytes = files.size_bytes(path) if is_there else 0
        if end_offset > log_start_offset and (size_bytes != synced_bytes or not is_there):
            found = f"{size_bytes} bytes long" if is_there else "gone"
            what = f"it is {found}, {synced_bytes} bytes were synced ({SWAPPED_BY_HAND})"
            yield Fault(path, min(size_bytes, synced_bytes), base_offset, what)


class SealedSegments:
    """The recorded sizes of the sealed segments of all partitions in a log directory, and the file that has them.

    For any thread. Every method raises StorageError if the disk fails; `load` raises Garbled, too.
    """

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._path = directory / SEALED_SEGMENTS
        self._guard = Lock()  # The innermost lock: its holder takes no other one.
        self._known: dict[TopicPartition, Sizes] = {}
        self._points_crc: int | None = (
            None  # The CRC of the recovery points that go with it; None without any.
        )
        self._written: dict[str, Any] | None = None  # What the file holds; None: there is none.
        self._is_unsure = False  # True after a write that failed: the file may hold anything.

    def load(self) -> None:
        """Read the file, before anything at all is changed in the directory. Raises Garbled.

        A file that does not count is removed, so that it never counts again.
        """
        known = None
        try:
            known = read_sealed_segments(self._files, self._directory)
        finally:
            if known is None and SEALED_SEGMENTS in (self._files.entries(self._directory) or ()):
                self._remove()
        if known is not None:
            self._known = known
            self._points_crc = _checksum(self._files.read_small(self._directory / RECOVERY_POINTS))
            self._written = self._document()

    def keep(self, present: Collection[TopicPartition], points: bytes | None) -> None:
        """Forget partitions that are not `present`, at a start; `points` is the recovery points' file as it is."""
        with self._guard:
            self._known = {name: sizes for name, sizes in self._known.items() if name in present}
            self._points_crc = _checksum(points)
            if self._written is not None:
                self._save()

    def write_down(self, points: bytes, listed: Callable[[], Mapping[TopicPartition, Sizes]]) -> None:
        """Record the sizes that `listed` returns; those of other partitions stay.

        `points` is the contents of the recovery points' file, which is written next.
        """
        with self._guard:
            self._known.update(listed())  # Under the guard: no change begins or ends meanwhile.
            self._points_crc = _checksum(points)
            self._save()

    def add(self, listed: Callable[[], Mapping[TopicPartition, Sizes]]) -> None:
        """Record the sizes that `listed` returns, with unchanged recovery points; do nothing if there are none."""
        with self._guard:
            if self._points_crc is not None:
                self._known.update(listed())
                self._save()

    def sizes_of(self, name: TopicPartition) -> Sizes:
        with self._guard:
            return dict(self._known.get(name, {}))

    def forget(self, name: TopicPartition) -> None:
        """Forget a whole partition, durably, before it is deleted."""
        with self._guard:
            self._forget(name, list(self._known.get(name, ())))

    def _forget(self, name: TopicPartition, base_offsets: Iterable[int]) -> None:
        sizes = self._known.get(name, {})
        gone = [base for base in base_offsets if sizes.pop(base, None) is not None]
        if not gone and not self._is_unsure:
            return
        try:
            self._save()
        except StorageError:
            self._remove()  # Needs no space: on a full disk segments must go. The next checkpoint writes it again.

    def _save(self) -> None:
        document = self._document()
        if document == self._written:
            return
        self._is_unsure = True
        write_sealed(self._files, self._path, document)
        self._written, self._is_unsure = document, False

    def _document(self) -> dict[str, Any]:
        partitions = {
            name.directory_name: _written_form(sizes) for name, sizes in self._known.items() if sizes
        }
        return {"recovery_points": self._points_crc, "partitions": partitions}

    def _remove(self) -> None:
        self._is_unsure = True
        self._files.unlink(self._path)
        self._files.sync_directory(self._directory)
        self._written, self._is_unsure = None, False


def _checksum(points: bytes | None) -> int | None:
    return None if points is None else int(crc32c(points))


def _written_form(sizes: Sizes) -> dict[str, int]:
    return {str(base_offset): sizes[base_offset] for base_offset in sorted(sizes)}


class PartitionSeals:
    """One open log's part of the recorded sizes in `SealedSegments`."""

    def __init__(self, store: SealedSegments, name: TopicPartition) -> None:
        self._store = store
        self._name = name
        # The base offsets that each change now under way may touch; under the store's guard.
        self._bases_in_change: list[frozenset[int]] = []

    @classmethod
    def of_no_directory(cls) -> PartitionSeals:
        """Return the seals of a log outside any log directory: no sizes are known, and none are written."""
        return cls(SealedSegments(Files(), Path()), TopicPartition("", 0))

    def check(self, files: Files, directory: Path, log_start_offset: int) -> None:
        """Raise CorruptSegment if a segment is gone, or not of the recorded size."""
        for fault in faults(files, directory, self._store.sizes_of(self._name), log_start_offset):
            raise CorruptSegment(fault.path, fault.byte, fault.what)

    @contextmanager
    def change(self, segments: Iterable[Segment]) -> Iterator[None]:
        """A context in which segments that begin where `segments` do may be changed and removed, in any order.

        Their sizes are forgotten first, and recorded again only when the change is over and on the disk; never
        if it fails, since it is then not known what the files are.
        """
        changing, store = frozenset(segment.base_offset for segment in segments), self._store
        with store._guard:
            store._forget(self._name, changing)
            self._bases_in_change.append(changing)
        yield
        with store._guard:
            self._bases_in_change.remove(changing)

    def keep_only(self, sealed: Iterable[Segment]) -> None:
        """Forget all sizes but those of `sealed`, durably: if a crash took its successor, the last one grows."""
        store, kept = self._store, {segment.base_offset for segment in sealed}
        with store._guard:
            store._forget(self._name, [base for base in store._known.get(self._name, ()) if base not in kept])

    def unchanging_sizes(self, sealed: Sequence[Segment]) -> Sizes:
        """Return the sizes of those not being changed; only within `SealedSegments.write_down` and `add`."""
        changing = frozenset[int]().union(*self._bases_in_change)
        sizes = {segment.base_offset: segment.size_bytes for segment in sealed}
        return {base: size_bytes for base, size_bytes in sizes.items() if base not in changing}
