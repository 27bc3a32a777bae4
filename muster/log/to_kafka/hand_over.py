"""Hands a stopped log directory over to Apache Kafka, which starts on it as on its own.

The logs are Kafka's as they are. What a broker takes from its metadata log (topics with their ids, settings,
users, rights) goes into `bootstrap.checkpoint`, which Kafka's controller appends to an empty metadata log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from coordinator.topics.catalogue import FILE_NAME as CATALOGUE
from coordinator.topics.catalogue import HANDED_OVER, KAFKA_CHECKPOINT, CatalogueEntry, read_catalogue
from muster.log.places import LogSource, LogToolError, open_source
from muster.log.to_kafka.carrying import carried, left_to_properties
from muster.log.to_kafka.metadata_records import encode_record
from muster.log.to_kafka.readiness import check_readiness, check_topic_ids
from protocol.records.records import Record, encode_batch
from storage.directory.log_directory import LOCK
from storage.files import CorruptSegment, Files, StorageError
from storage.log.checkpoints import META_PROPERTIES, Garbled, MetaProperties

RECORDS_A_BATCH: Final = 1_000
APPENDED_AT_ONCE: Final = 10_000
MAX_APPENDED_BYTES: Final = 8 << 20
"""Kafka's controller appends so many of these records as one batch, however they came, and refuses one larger than
that: it never starts then."""
RECORD_OVERHEAD_BYTES: Final = 32
"""At most, of a record in a batch beside its value."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What has become of a directory."""

    identity: MetaProperties
    records: list[Any]
    """What was carried over."""
    settings: dict[str, str]
    """What was set at run time, and is a setting that Kafka has to be started with."""


def hand_over(directory: Path) -> HandedOver:
    """Make the directory Kafka's. Nothing is written before everything has been read.

    Afterwards Muster refuses to start on it. Raises LogToolError where it is in use, was not stopped cleanly, is
    Kafka's already, or has what Kafka does not start on.
    """
    files = Files()
    try:
        with _held(directory, files):
            source = open_source(directory, files)
            identity = check_readiness(source)
            topics = _topics(source)
            check_topic_ids(source, topics)
            records, settings = carried(source, topics, identity), left_to_properties(source)
            _write(source, records)
            # Last, so that a write that fails leaves a directory of Muster's.
            if files.read_small(source.path / CATALOGUE) is not None:
                files.rename(source.path / CATALOGUE, source.path / HANDED_OVER)
    except StorageError as error:
        raise LogToolError(f"cannot {error}") from error
    except (CorruptSegment, Garbled) as error:
        raise LogToolError(str(error)) from error
    return HandedOver(identity, records, settings)


@contextmanager
def _held(directory: Path, files: Files) -> Iterator[None]:
    """Hold the directory's lock, as a server does. Raises LogToolError if one does already."""
    if files.read_small(directory / META_PROPERTIES) is None:
        raise LogToolError(f"there is no {META_PROPERTIES} in {directory}: it is no log directory")
    lock = files.lock(directory / LOCK)
    if lock is None:
        raise LogToolError(f"a server uses {directory}: stop it first")
    try:
        yield
    finally:
        lock.close()


def _topics(source: LogSource) -> list[CatalogueEntry]:
    """The catalogue, which an attempt that was ended may have given its other name already."""
    for name in (CATALOGUE, HANDED_OVER):
        if source.files.read_small(source.path / name) is not None:
            return list(read_catalogue(source.files, source.path, name).entries)
    raise LogToolError(f"there is no {CATALOGUE} in {source.path}: the directory is not Muster's")


def _write(source: LogSource, found: list[Any]) -> None:
    """Write the checkpoint, for its owner's eyes alone: it has what passwords are checked with."""
    now_ms, batches = int(time.time() * 1000), bytearray()
    values = [encode_record(record) for record in found]
    _check_sizes(values)
    for first in range(0, len(values), RECORDS_A_BATCH):
        some = [Record(None, value, now_ms) for value in values[first : first + RECORDS_A_BATCH]]
        batches += encode_batch(some, base_offset=first, leader_epoch=0)
    source.files.write_atomically(source.path / KAFKA_CHECKPOINT, bytes(batches), is_secret=True)


def _check_sizes(values: list[bytes]) -> None:
    for first in range(0, len(values), APPENDED_AT_ONCE):
        some = values[first : first + APPENDED_AT_ONCE]
        size_bytes = sum(map(len, some)) + RECORD_OVERHEAD_BYTES * len(some)
        if size_bytes > MAX_APPENDED_BYTES:
            raise LogToolError(
                f"{len(some)} settings, users, quotas and ACLs have {size_bytes} bytes; Kafka takes "
                f"{MAX_APPENDED_BYTES} at once and would not start: remove some, and make them anew in Kafka"
            )
