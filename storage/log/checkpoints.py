"""The small files at the top of a log directory, in Kafka's formats: read and written as text, whole.

Offset checkpoints (`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`,
`cleaner-offset-checkpoint`), `meta.properties`, and
the marker of a clean shutdown. `log_directory` says what the offsets are used for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protocol.topic_partition import TopicPartition
from storage.files import Files
from storage.log.partition_files import UUID_BYTES, decode_uuid, encode_uuid

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
NO_BROKER_EPOCH: Final = -1
RESERVED_UUIDS: Final = 100  # Kafka keeps the first hundred for meanings of its own.


class Garbled(ValueError):
    """A small file whose contents cannot be right; the message says why."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The node and the cluster that a log directory belongs to."""

    node_id: int
    cluster_id: str
    directory_id: str


def new_uuid() -> str:
    """Return a random UUID in Kafka's text form that is not reserved and does not begin with a hyphen."""
    while True:
        value = os.urandom(UUID_BYTES)
        text = encode_uuid(value)
        if int.from_bytes(value, "big") >= RESERVED_UUIDS and not text.startswith("-"):
            return text


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Write an offset checkpoint to `path`, atomically and synced. Raises StorageError."""
    files.write_atomically(path, encode_offsets(offsets))


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the contents of an offset checkpoint's file."""
    lines = ["0", str(len(offsets))]
    lines += (f"{name.topic} {name.partition} {offset}" for name, offset in offsets.items())
    return ("\n".join(lines) + "\n").encode()


def read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; {} if missing, or empty as Kafka creates it. Raises StorageError, Garbled."""
    data = files.read_small(path)
    if not data:
        return {}
    try:
        version, count, *lines = data.decode().splitlines()
        if version != "0" or int(count) != len(lines):
            raise Garbled(f"{path}: version {version}, {count} entries, {len(lines)} lines")
        fields = (line.split() for line in lines)
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in fields}
    except ValueError as error:
        raise Garbled(f"{path} is no offset checkpoint: {error}") from error


def write_meta_properties(files: Files, path: Path, properties: MetaProperties) -> None:
    """Write a `meta.properties` file to `path`, atomically and synced. Raises StorageError."""
    lines = (
        f"cluster.id={properties.cluster_id}",
        f"directory.id={properties.directory_id}",
        f"node.id={properties.node_id}",
        "version=1",
        "",
    )
    files.write_atomically(path, "\n".join(lines).encode())


def read_meta_properties(files: Files, path: Path) -> MetaProperties | None:
    """Read a `meta.properties` file; None if there is no such file. Raises StorageError, Garbled."""
    data = files.read_small(path)
    if data is None:
        return None
    try:
        lines = (line.strip() for line in data.decode().splitlines())
        fields = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        if fields["version"] != "1":
            raise Garbled(f"{path}: version {fields['version']} is not 1")
        directory_id = fields.get("directory.id") or new_uuid()  # Kafka had no directory ids before 3.7.
        decode_uuid(directory_id)
        return MetaProperties(int(fields["node.id"]), fields["cluster.id"], directory_id)
    except (ValueError, KeyError) as error:
        raise Garbled(f"{path} is no meta.properties file: {error}") from error


def write_clean_shutdown(files: Files, directory: Path) -> None:
    """Write the marker of a clean shutdown into `directory`. Raises StorageError."""
    marker = json.dumps({"version": 0, "brokerEpoch": NO_BROKER_EPOCH}, separators=(",", ":"))
    files.write_atomically(directory / CLEAN_SHUTDOWN, marker.encode())


def was_shut_down_cleanly(files: Files, directory: Path) -> bool:
    """Return whether there is the marker of a clean shutdown. Raises Garbled if it is damaged."""
    data = files.read_small(directory / CLEAN_SHUTDOWN)
    if data is None:
        return False
    _check_marker(directory / CLEAN_SHUTDOWN, data)
    return True


def _check_marker(path: Path, data: bytes) -> None:
    try:
        if json.loads(data)["version"] != 0:
            raise Garbled(f"{path} has another version than 0")
    except (ValueError, KeyError, TypeError) as error:
        raise Garbled(f"{path} is no marker of a clean shutdown: {error}") from error


def take_clean_shutdown(files: Files, directory: Path) -> bool:
    """Remove the marker of a clean shutdown, durably, and return whether there was one.

    Raises Garbled, after the removal, if the marker is damaged: how the last run ended is then unknown.
    """
    path = directory / CLEAN_SHUTDOWN
    data = files.read_small(path)
    if data is None:
        return False
    files.unlink(path)
    files.sync_directory(directory)
    _check_marker(path, data)
    return True
