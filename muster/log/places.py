"""Finds out what a path on the command line is: a log directory, or one partition's directory.

It only reads: nothing is written or locked. That a server runs shows by the lock that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coordinator.topics.catalogue import FILE_NAME as CATALOGUE
from coordinator.topics.catalogue import CatalogueEntry, read_catalogue
from coordinator.topics.names import GROUP_METADATA_TOPIC
from protocol.topic_partition import TopicPartition
from storage.check.journal import JournalContent, read_journal
from storage.directory.log_directory import LOCK, METADATA_TOPIC, PARTITION_NAME
from storage.files import Files, StorageError
from storage.log.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    RECOVERY_POINTS,
    Garbled,
    read_meta_properties,
    read_offsets,
)
from storage.log.sealed_segments import SEALED_SEGMENTS, Sizes, read_sealed_segments
from storage.log.segment import base_offset_of

OWN_FILES: Final = frozenset({META_PROPERTIES, RECOVERY_POINTS, CATALOGUE, LOCK})


class LogToolError(Exception):
    """The command cannot be carried out; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """One partition's directory. `name` is None if the directory's name is not that of a partition."""

    directory: Path
    name: TopicPartition | None

    @property
    def is_offsets(self) -> bool:
        return self.name is not None and self.name.topic == GROUP_METADATA_TOPIC

    def __str__(self) -> str:
        return self.directory.name


@dataclass(slots=True)
class LogSource:
    """The content of a path. `root` is the log directory, None if a partition's directory stands alone."""

    path: Path
    root: Path | None
    places: list[PartitionDirectory]
    files: Files
    topics: list[CatalogueEntry] = field(default_factory=list)  # Empty where Kafka wrote the directory.
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    sealed_segments: dict[TopicPartition, Sizes] = field(default_factory=dict)
    was_shut_down_cleanly: bool = False
    unreadable_files: list[tuple[Path, str]] = field(default_factory=list)  # Small files that cannot be read.
    journal: JournalContent = field(default_factory=JournalContent)  # Of the log directory, if there is one.

    @property
    def is_partition(self) -> bool:
        """Whether the path itself is a partition's directory."""
        return len(self.places) == 1 and self.places[0].directory == self.path

    @property
    def is_in_use(self) -> bool:
        """Whether a server holds the directory's lock now."""
        return self.root is not None and self.files.is_locked(self.root / LOCK)

    def recovery_point(self, place: PartitionDirectory) -> int:
        return self.recovery_points.get(place.name, 0) if place.name else 0

    def sealed_sizes(self, place: PartitionDirectory) -> Sizes:
        """The sizes of the partition's sealed segments; segments that are not listed have no known size."""
        return self.sealed_segments.get(place.name, {}) if place.name else {}

    def offsets_places(self) -> list[PartitionDirectory]:
        return [place for place in self.places if place.is_offsets]

    def offsets_partition_count(self) -> int | None:
        """The number of partitions of the offsets topic; None if it does not exist.

        Taken from the catalogue, or else from the directories, since Kafka creates them all.
        """
        for entry in self.topics:
            if entry.name == GROUP_METADATA_TOPIC:
                return entry.partitions
        numbers = [place.name.partition for place in self.offsets_places() if place.name]
        return max(numbers) + 1 if numbers and not self.is_partition else None


def open_source(path: Path, files: Files | None = None) -> LogSource:
    """Read what `path` is. Raises LogToolError if it holds no log."""
    files = files or Files()
    path = path.absolute()
    try:
        names = files.entries(path)
        if names is None:
            raise LogToolError(f"{path} is not there")
        if _is_partition(path, names):
            return _partition(path, files)
        places = _places(path, names, files)
        if not places and OWN_FILES.isdisjoint(names):
            raise LogToolError(f"{path} is neither a log directory nor a partition's directory")
        source = LogSource(path, path, places, files)
        _read_small_files(source, path)
        source.places = sorted([*places, *_places_in_journal(source, path)], key=_in_order)
        return source
    except StorageError as error:
        raise LogToolError(f"cannot {error}") from error


def _is_partition(path: Path, names: Iterable[str]) -> bool:
    return any(base_offset_of(name) is not None for name in names) or bool(
        PARTITION_NAME.fullmatch(path.name) and "partition.metadata" in names
    )


def _partition(path: Path, files: Files) -> LogSource:
    match = PARTITION_NAME.fullmatch(path.name)
    place = PartitionDirectory(path, TopicPartition(match[1], int(match[2])) if match else None)
    parents = files.entries(path.parent) or []
    root = None if OWN_FILES.isdisjoint(parents) else path.parent
    source = LogSource(path, root, [place], files)
    if root is not None:
        _read_small_files(source, root)
    return source


def _places(path: Path, names: Iterable[str], files: Files) -> list[PartitionDirectory]:
    matches = (match for name in names if (match := PARTITION_NAME.fullmatch(name)))
    found = (
        PartitionDirectory(path / match[0], TopicPartition(match[1], int(match[2]))) for match in matches
    )
    kept = [
        place
        for place in found
        if place.name and place.name.topic != METADATA_TOPIC and files.is_directory(place.directory)
    ]
    return sorted(kept, key=_in_order)


def _in_order(place: PartitionDirectory) -> TopicPartition:
    return place.name or TopicPartition("", 0)


def _places_in_journal(source: LogSource, root: Path) -> Iterator[PartitionDirectory]:
    """Yield the partitions of which only the journal has something: their directories were not made yet."""
    there = {str(place) for place in source.places}
    for name in source.journal.batches.keys() - there:
        if match := PARTITION_NAME.fullmatch(name):
            yield PartitionDirectory(root / name, TopicPartition(match[1], int(match[2])))


def _read_small_files(source: LogSource, root: Path) -> None:
    """Read the journal, the catalogue, the checkpoints and the clean-shutdown marker.

    Garbled small files go to `unreadable_files`.
    """
    source.journal = read_journal(source.files, root, _directory_id(source.files, root))
    source.was_shut_down_cleanly = source.files.read_small(root / CLEAN_SHUTDOWN) is not None
    try:
        source.recovery_points = read_offsets(source.files, root / RECOVERY_POINTS)
    except Garbled as error:
        source.unreadable_files.append((root / RECOVERY_POINTS, str(error)))
    try:
        source.sealed_segments = read_sealed_segments(source.files, root) or {}
    except Garbled as error:
        source.unreadable_files.append((root / SEALED_SEGMENTS, str(error)))
    try:
        source.topics = list(read_catalogue(source.files, root).entries)
    except StorageError as error:
        source.unreadable_files.append((root / CATALOGUE, error.reason))


def _directory_id(files: Files, root: Path) -> str | None:
    """The directory's own id; None if nothing says it, of which `verify` speaks."""
    try:
        properties = read_meta_properties(files, root / META_PROPERTIES)
    except Garbled:
        return None
    return properties.directory_id if properties else None


def chosen_places(source: LogSource, topic: str | None, partition: int | None) -> list[PartitionDirectory]:
    """The partitions of `topic`, or of the offsets topic if None. Raises LogToolError if there are none."""
    if source.is_partition:
        return source.places
    wanted = topic or GROUP_METADATA_TOPIC
    found = [place for place in source.places if place.name and place.name.topic == wanted]
    if partition is not None:
        found = [place for place in found if place.name and place.name.partition == partition]
    if not found:
        topics = sorted({place.name.topic for place in source.places if place.name})
        asked = wanted if partition is None else f"{wanted}-{partition}"
        raise LogToolError(f"{asked} is not in {source.path}; there are: {', '.join(topics) or 'no topics'}")
    return found
