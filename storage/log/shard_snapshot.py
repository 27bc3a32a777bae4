"""`shard-snapshot`: what a clean stop leaves beside a log for its owner, so that a start need not replay the log.

The file is sealed: its header says which log it belongs to - where that starts and ends, its topic, the size and
a CRC-32C of all that its segments hold - and what its body is. A start takes it: the file is removed before
anything is appended, and counts only if the log is byte for byte the one of that stop. So a file that is torn, of
another log, or older than the log's end is left out, and nothing of this is synced: without the file the log
says the same. The checksum reads the whole log once, as a replay would, but no batch is looked at.

Kafka leaves the file alone: in a partition's directory it looks at suffixes only, and knows none like this. What
the body means is the owner's affair.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final

from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from storage.files import Buffer, Files, StorageError
from storage.log.batch_walk import WINDOW_BYTES
from storage.log.log_reader import LogReader
from storage.log.partition_files import UUID_BYTES

SHARD_SNAPSHOT: Final = "shard-snapshot"
MAGIC: Final = b"muster/s"
FILE_VERSION: Final = 1
HEADER: Final = Struct(">8sHHqI")  # Magic, version of this file, of the body; length and CRC of the body.
IDENTITY: Final = Struct(f">qqqI{UUID_BYTES}s")  # Of the log: start, end, bytes, CRC, topic id.
CHECKSUM: Final = Struct(">I")  # Of header and identity.
SEGMENT: Final = Struct(">qq")  # Base offset and size of a segment, a part of the log's CRC.
HEADER_BYTES: Final = HEADER.size + IDENTITY.size + CHECKSUM.size
NO_TOPIC_ID: Final = bytes(UUID_BYTES)


class UnusableSnapshot(ValueError):
    """A snapshot that cannot be what the last stop of this very log has written; the text says why."""


def write_snapshot(
    files: Files, log: LogReader, topic_id: bytes | None, version: int, parts: Sequence[Buffer]
) -> None:
    """Write a snapshot with the body `parts`, of the owner's `version`; the log must not change meanwhile.

    Reads all of it. Raises StorageError; there is no file then, unless the disk fails to remove it, too.
    """
    body = b"".join(parts)
    head = HEADER.pack(MAGIC, FILE_VERSION, version, len(body), crc32c(body)) + identity(log, topic_id)
    path = log.directory / SHARD_SNAPSHOT
    try:
        file = files.open(path, create=True)
        file.truncate(0)
        file.write_at([head, CHECKSUM.pack(crc32c(head)), body], 0)
        file.close()
    except StorageError:
        with suppress(StorageError):
            files.unlink(path)
        raise


def take_snapshot(files: Files, log: LogReader, topic_id: bytes | None, version: int) -> memoryview | None:
    """Remove the snapshot and return its body; None if there is none. Reads the whole log.

    Raises UnusableSnapshot if the file is torn or cannot be read, its body is of another version, or the log is
    another one, or not as it was; StorageError where the log cannot be read, or the file not be removed.
    """
    path = log.directory / SHARD_SNAPSHOT
    try:
        found = _read(files, path, version)
    except StorageError as error:  # The log may be sound all the same.
        raise UnusableSnapshot(f"cannot {error}") from error
    finally:
        files.unlink(path)
    if found is None:
        return None
    log_then, body = found
    if log_then != identity(log, topic_id):
        raise UnusableSnapshot("it belongs to another log, or to this one as it was before")
    return memoryview(body)


def _read(files: Files, path: Path, version: int) -> tuple[bytes, bytes] | None:
    """Return the log's identity and the body that the file has; None without a file. Raises UnusableSnapshot.

    Of a file that is not as long as its header says no more than the header is read, however large it is.
    """
    try:
        file = files.open_to_read(path)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    head, head_bytes = file.read_at(HEADER_BYTES, 0), HEADER.size + IDENTITY.size
    if len(head) < HEADER_BYTES:
        raise UnusableSnapshot(f"{len(head)} bytes are too few")
    magic, file_version, body_version, body_bytes, body_crc = HEADER.unpack_from(head)
    if CHECKSUM.unpack_from(head, head_bytes)[0] != crc32c(head[:head_bytes]) or magic != MAGIC:
        raise UnusableSnapshot("its header is not what was written")
    if (file_version, body_version) != (FILE_VERSION, version):
        raise UnusableSnapshot(f"it is of version {file_version}.{body_version}")
    if file.size_bytes() != HEADER_BYTES + body_bytes:
        raise UnusableSnapshot("its body is not as long as what was written")
    body = file.read_at(body_bytes, HEADER_BYTES)
    if len(body) != body_bytes or crc32c(body) != body_crc:
        raise UnusableSnapshot("its body is not what was written")
    return head[HEADER.size : head_bytes], body


def identity(log: LogReader, topic_id: bytes | None) -> bytes:
    """Return what tells this log, as it is, from all others. Reads all of it; raises StorageError."""
    crc = size_bytes = 0
    for segment in log.segments:
        crc = crc32c_extend(crc, SEGMENT.pack(segment.base_offset, segment.size_bytes))
        for position in range(0, segment.size_bytes, WINDOW_BYTES):
            length = min(WINDOW_BYTES, segment.size_bytes - position)
            crc = crc32c_extend(crc, segment.file.read_at(length, position))
        size_bytes += segment.size_bytes
    return IDENTITY.pack(log.log_start_offset, log.durable_offset, size_bytes, crc, topic_id or NO_TOPIC_ID)
