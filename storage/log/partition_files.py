"""The small text files of a partition's directory: `partition.metadata` and `leader-epoch-checkpoint`.

Both in Kafka's formats, so that Kafka takes our directories for its own. What topic ids and epochs are used
for is not known here.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Final, TypeAlias

from storage.files import CorruptSegment, Files

PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
UUID_BYTES: Final = 16

LeaderEpochs: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of a leader epoch and the offset of its first record, in rising order."""


def encode_uuid(value: bytes) -> str:
    """Return Kafka's text form of a UUID: URL-safe base64 without padding."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def decode_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID in Kafka's text form; ValueError for any other text."""
    value = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(value) != UUID_BYTES:
        raise ValueError(f"{text!r} is no UUID")
    return value


def write_partition_metadata(files: Files, directory: Path, topic_id: bytes) -> None:
    """Write the topic id to `partition.metadata`; durable once the directory is synced. Raises StorageError."""
    text = f"version: 0\ntopic_id: {encode_uuid(topic_id)}"
    files.write_atomically(directory / PARTITION_METADATA, text.encode(), sync_name=False)


def read_partition_metadata(files: Files, directory: Path) -> bytes | None:
    """Read the topic id; None if the file is missing or empty. Raises StorageError, CorruptSegment."""
    path = directory / PARTITION_METADATA
    data = files.read_small(path)
    if not data:  # A loss of power may leave an empty file.
        return None
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines())
        if fields["version"] != "0":
            raise ValueError(f"version {fields['version']}")
        return decode_uuid(fields["topic_id"])
    except (ValueError, KeyError) as error:
        raise CorruptSegment(path, 0, f"not a partition.metadata file ({error})") from error


def write_leader_epochs(files: Files, directory: Path, epochs: LeaderEpochs) -> None:
    """Write `leader-epoch-checkpoint`; durable once the directory is synced. Raises StorageError."""
    lines = ["0", str(len(epochs)), *(f"{epoch} {offset}" for epoch, offset in epochs), ""]
    files.write_atomically(directory / LEADER_EPOCHS, "\n".join(lines).encode(), sync_name=False)


def read_leader_epochs(files: Files, directory: Path) -> LeaderEpochs:
    """Read the leader epochs; () if the file is missing or empty. Raises StorageError, CorruptSegment."""
    path = directory / LEADER_EPOCHS
    data = files.read_small(path)
    if not data:
        return ()
    try:
        version, count, *lines = data.decode().splitlines()
        if version != "0" or int(count) != len(lines):
            raise ValueError(f"version {version}, {count} entries, {len(lines)} lines")
        return tuple((int(epoch), int(offset)) for epoch, offset in map(str.split, lines))
    except ValueError as error:
        raise CorruptSegment(path, 0, f"not a leader-epoch-checkpoint file ({error})") from error
