"""Producer snapshots: what a log's producers had appended below some offset, in Kafka's `<offset>.snapshot` files.

A start reads the newest one and then only the batches behind its offset. It has each producer's last batch
and the open transaction. A snapshot is written only of what is durable, and with the transaction indexes below it
synced; it is never waited for, since without it the log says the same. So one that is damaged is left out, and
the newest two are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Final

from google_crc32c import value as crc32c

from storage.files import Files
from storage.producers.producer_state import NO_OFFSET, NO_SEQUENCE, AppendedBatch, Producer, ProducerState

SNAPSHOT_SUFFIX: Final = ".snapshot"
SNAPSHOT_NAME: Final = re.compile(r"(\d{20})\.snapshot")
HEADER: Final = Struct(">hI")  # Version, CRC-32C of what follows.
COUNT: Final = Struct(">i")
ENTRY: Final = Struct(">qhiqiqiq")
"""Producer, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction's start."""
VERSION: Final = 1
KEPT: Final = 2
SEQUENCE_MODULUS: Final = 2**31

Entries = Sequence[tuple[int, int, int, int, int, int, int, int]]
"""The numbers of each entry, taken on the thread that appends and written on another."""


class CorruptSnapshot(ValueError):
    """A snapshot that cannot be what was written; the log is read in its stead."""


def snapshot_entries(state: ProducerState) -> Entries:
    """Return the entries of a snapshot of `state` as it is now."""
    return [_entry(producer_id, producer) for producer_id, producer in state.items()]


def _entry(producer_id: int, producer: Producer) -> tuple[int, int, int, int, int, int, int, int]:
    last = producer.batches[-1] if producer.batches else None
    start = producer.transaction_start
    return (
        producer_id,
        producer.epoch,
        producer.last_sequence,
        NO_OFFSET if last is None else last.last_offset,
        0 if last is None else last.last_offset - last.base_offset,
        producer.timestamp_ms,
        producer.coordinator_epoch,
        NO_OFFSET if start is None else start,
    )


def encode_snapshot(entries: Entries) -> bytes:
    body = COUNT.pack(len(entries)) + b"".join([ENTRY.pack(*entry) for entry in entries])
    return HEADER.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, wall_ms: int) -> ProducerState:
    """Return the state in `data`; its producers count as seen at `wall_ms`. Raises CorruptSnapshot."""
    try:
        version, crc = HEADER.unpack_from(data)
        (count,) = COUNT.unpack_from(data, HEADER.size)
    except StructError:
        raise CorruptSnapshot(f"{len(data)} bytes are too few") from None
    body = data[HEADER.size :]
    if version != VERSION or crc32c(body) != crc:
        raise CorruptSnapshot(f"its checksum is wrong, or its version: {version}")
    if len(body) != COUNT.size + count * ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes are not {count} producers")
    state = ProducerState()
    for entry in sorted(ENTRY.iter_unpack(body[COUNT.size :]), key=lambda entry: entry[7]):
        state.restore(entry[0], _producer(entry, wall_ms))
    return state


def _producer(entry: tuple[int, ...], wall_ms: int) -> Producer:
    _, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, start = entry
    producer = Producer(
        epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_start=None if start < 0 else start,
        timestamp_ms=timestamp_ms,
        seen_ms=wall_ms,
    )
    if last_offset >= 0:
        base_sequence = last_sequence
        if last_sequence != NO_SEQUENCE:
            base_sequence = (last_sequence - delta) % SEQUENCE_MODULUS
        producer.batches.append(
            AppendedBatch(base_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms)
        )
    return producer


def snapshot_path(directory: Path, offset: int) -> Path:
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among `names`, the newest first."""
    matches = map(SNAPSHOT_NAME.fullmatch, names)
    return sorted((int(match[1]) for match in matches if match), reverse=True)


def write_snapshot(files: Files, directory: Path, offset: int, entries: Entries) -> None:
    """Write the snapshot of `offset`, and remove all but the newest. Raises StorageError."""
    files.write_atomically(snapshot_path(directory, offset), encode_snapshot(entries), sync_name=False)
    for stale in snapshot_offsets(files.entries(directory) or ())[KEPT:]:
        files.unlink(snapshot_path(directory, stale))


def drop_snapshots_beyond(files: Files, directory: Path, offset: int) -> None:
    """Remove, durably, snapshots above `offset`: their batches were cut, and others may get the same offsets."""
    stale = [each for each in snapshot_offsets(files.entries(directory) or ()) if each > offset]
    for each in stale:
        files.unlink(snapshot_path(directory, each))
    if stale:
        files.sync_directory(directory)
