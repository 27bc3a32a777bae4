"""Hands a stopped log directory over to Apache Kafka, which starts on it as on its own.

The logs are Kafka's as they are. What a broker takes from its metadata log (topics with their ids, settings,
users, rights) goes into `bootstrap.checkpoint`, which Kafka's controller appends to an empty metadata log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from coordinator.topics.catalogue import FILE_NAME as CATALOGUE
from coordinator.topics.catalogue import HANDED_OVER, KAFKA_CHECKPOINT, CatalogueEntry, read_catalogue
from muster.log.places import LogSource, LogToolError, open_source
from muster.log.to_kafka.carrying import carried
from muster.log.to_kafka.metadata_records import encode_record
from protocol.records.records import Record, encode_batch
from storage.directory.log_directory import LOCK, METADATA_TOPIC
from storage.files import CorruptSegment, Files, StorageError
from storage.log.checkpoints import META_PROPERTIES, Garbled, MetaProperties, read_meta_properties

RECORDS_A_BATCH: Final = 1_000
"""Of some hundred bytes each: a batch of Kafka's metadata log has at most 8 MiB."""
CLEANLY: Final = "start and stop Muster on it once (muster serve, then Ctrl-C), and try again"


def hand_over(directory: Path) -> tuple[MetaProperties, list[Any]]:
    """Make the directory Kafka's; return whose it is, and the records that were carried over.

    Nothing is written before everything has been read. Afterwards Muster refuses to start on it. Raises
    LogToolError where it is in use, was not stopped cleanly, or is Kafka's already.
    """
    files = Files()
    try:
        with _held(directory, files):
            source = open_source(directory, files)
            identity = _checked(source)
            records = carried(source, _topics(source), identity)
            if files.read_small(source.path / CATALOGUE) is not None:
                files.rename(source.path / CATALOGUE, source.path / HANDED_OVER)
            _write(source, records)
    except (StorageError, CorruptSegment, Garbled) as error:
        raise LogToolError(str(error)) from error
    return identity, records


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


def _checked(source: LogSource) -> MetaProperties:
    identity = read_meta_properties(source.files, source.path / META_PROPERTIES)
    assert identity is not None, "it was there when the directory was locked"
    if source.files.entries(source.path / f"{METADATA_TOPIC}-0") is not None:
        raise LogToolError(f"{source.path} is Kafka's: there is a metadata log in it")
    if not source.was_shut_down_cleanly or source.journal.batches or source.journal.faults:
        raise LogToolError(f"{source.path} was not left by a clean stop: {CLEANLY}")
    if source.unreadable_files:
        path, reason = source.unreadable_files[0]
        raise LogToolError(f"cannot read {path}: {reason}")
    return identity


def _topics(source: LogSource) -> list[CatalogueEntry]:
    """The catalogue, which an attempt that was ended may have given its other name already."""
    for name in (CATALOGUE, HANDED_OVER):
        if source.files.read_small(source.path / name) is not None:
            return list(read_catalogue(source.files, source.path, name).entries)
    raise LogToolError(f"there is no {CATALOGUE} in {source.path}: the directory is not Muster's")


def _write(source: LogSource, found: list[Any]) -> None:
    """Write the checkpoint, for its owner's eyes alone: it has what passwords are checked with."""
    now_ms, records, batches = int(time.time() * 1000), iter(found), bytearray()
    written = 0
    while some := list(islice(records, RECORDS_A_BATCH)):
        batch = _batch(some, written, now_ms)
        batches += batch
        written += len(some)
    source.files.write_atomically(source.path / KAFKA_CHECKPOINT, bytes(batches), is_secret=True)


def _batch(records: list[Any], base_offset: int, now_ms: int) -> bytearray:
    values = [Record(None, encode_record(record), now_ms) for record in records]
    return encode_batch(values, base_offset=base_offset, leader_epoch=0)
