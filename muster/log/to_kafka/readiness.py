"""What a directory has to be to be handed over to Kafka: looked at before anything is written.

Kafka fails as a whole where Muster leaves one partition out, and once it has run there is no way back. So whatever
it would stumble over is refused while the directory is still Muster's. Segments are not read: `muster log verify`
does that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.topics.catalogue import CatalogueEntry
from muster.log.places import LogSource, LogToolError
from storage.directory.log_directory import METADATA_TOPIC, PARTITION_NAME
from storage.files import CorruptSegment
from storage.log.checkpoints import (
    CLEANED,
    LOG_STARTS,
    META_PROPERTIES,
    Garbled,
    MetaProperties,
    read_meta_properties,
    read_offsets,
    was_shut_down_cleanly,
)
from storage.log.partition_files import read_leader_epochs, read_partition_metadata

CLEANLY: Final = "start and stop Muster on it once (muster serve, then Ctrl-C), and try again"
REPAIR: Final = "`muster log verify` shows what is wrong, `muster log repair` mends what can be mended"
KAFKAS_OWN: Final = ("-delete", "-stray", "-future")
"""How the names of directories end that Kafka makes beside those of partitions."""


def check_readiness(source: LogSource) -> MetaProperties:
    """Return whose directory it is. Raises LogToolError, with what to do, if Kafka cannot go on with it."""
    identity = read_meta_properties(source.files, source.path / META_PROPERTIES)
    assert identity is not None, "it was there when the directory was locked"
    if source.files.entries(source.path / f"{METADATA_TOPIC}-0") is not None:
        raise LogToolError(f"{source.path} is Kafka's: there is a metadata log in it")
    for path, reason in source.unreadable_files:
        raise LogToolError(f"cannot read {path}: {reason}")
    _check_small_files(source)
    _check_names(source)
    if not _was_stopped_cleanly(source):
        raise LogToolError(f"{source.path} was not left by a clean stop: {CLEANLY}")
    return identity


def check_topic_ids(source: LogSource, topics: Iterable[CatalogueEntry]) -> None:
    """Raise LogToolError if a partition has another id than its topic: Kafka would set it aside as a stray."""
    ids = {entry.name: entry.topic_id for entry in topics}
    for place in source.places:
        assert place.name is not None, "in a log directory all have names"
        stored = read_partition_metadata(source.files, place.directory)
        if stored != ids.get(place.name.topic):
            raise LogToolError(f"{place} is not a partition of a topic that Muster has: {CLEANLY}")


def _check_small_files(source: LogSource) -> None:
    try:
        for name in (LOG_STARTS, CLEANED):
            read_offsets(source.files, source.path / name)
        for place in source.places:
            read_partition_metadata(source.files, place.directory)
            read_leader_epochs(source.files, place.directory)
    except (CorruptSegment, Garbled) as error:
        raise LogToolError(f"{error}; {REPAIR}") from error


def _check_names(source: LogSource) -> None:
    """Kafka ends its start at a directory whose name is not a partition's, be it empty."""
    for name in sorted(source.files.entries(source.path) or ()):
        is_known = PARTITION_NAME.fullmatch(name) or name.endswith(KAFKAS_OWN)
        if not is_known and source.files.is_directory(source.path / name):
            raise LogToolError(
                f"{source.path / name} is no partition's: Kafka does not start beside it; move it away"
            )


def _was_stopped_cleanly(source: LogSource) -> bool:
    if source.journal.batches or source.journal.faults:
        return False
    try:
        return was_shut_down_cleanly(source.files, source.path)
    except Garbled:
        return False
