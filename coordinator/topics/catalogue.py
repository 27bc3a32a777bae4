"""The catalogue: the list of all topics, in one small file that is replaced as a whole.

`topics.json` in the log directory is written under another name, synced and renamed over the old file, so a crash
leaves one of the two; it has a checksum, since a wrong bit in a name or an id would make another topic of it. A
topic exists if it is in the catalogue: other partition directories belong to topics that were being made or
deleted when the daemon died. Knows nothing of logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storage.files import Files
from storage.sealed_json import read_sealed, write_sealed

FILE_NAME: Final = "topics.json"
HANDED_OVER: Final = "topics-handed-over.json"
"""The catalogue's name once the directory is Kafka's (`muster log to-kafka`): Muster refuses to start on it."""
KAFKA_CHECKPOINT: Final = "bootstrap.checkpoint"
"""Written with HANDED_OVER: what Kafka's controller begins with. Stale as soon as Muster starts again."""
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One topic in the catalogue. `overrides` are the settings that the topic was given, as text."""

    name: str
    topic_id: bytes
    partitions: int
    overrides: dict[str, str]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The contents of the catalogue: the topics, and the ids of those deleted last, the oldest first."""

    entries: tuple[CatalogueEntry, ...] = ()
    deleted_ids: tuple[bytes, ...] = ()


def read_catalogue(files: Files, directory: Path, name: str = FILE_NAME) -> Catalogue:
    """Read the catalogue in `directory`; an empty one is returned where there is no file yet.

    Raises StorageError if the file cannot be read or is not a catalogue: it must not be taken for an empty one.
    """
    return (
        read_sealed(files, directory / name, "catalogue of topics", _parse_catalogue, FORMAT) or Catalogue()
    )


def _parse_catalogue(document: dict[str, Any]) -> Catalogue:
    return Catalogue(
        entries=tuple(_parse_entry(topic) for topic in document["topics"]),
        deleted_ids=tuple(bytes.fromhex(topic_id) for topic_id in document.get("deleted", ())),
    )


def _parse_entry(topic: dict[str, Any]) -> CatalogueEntry:
    entry = CatalogueEntry(
        name=str(topic["name"]),
        topic_id=bytes.fromhex(topic["id"]),
        partitions=int(topic["partitions"]),
        overrides={str(name): str(value) for name, value in topic["configs"].items()},
    )
    if len(entry.topic_id) != 16 or entry.partitions < 1:
        raise ValueError(
            f"topic {entry.name}: id of {len(entry.topic_id)} bytes, {entry.partitions} partitions"
        )
    return entry


def write_catalogue(
    files: Files, directory: Path, entries: Iterable[CatalogueEntry], deleted_ids: Iterable[bytes] = ()
) -> None:
    """Replace the catalogue by these entries; durable when this returns. Raises StorageError."""
    topics = [
        {
            "name": entry.name,
            "id": entry.topic_id.hex(),
            "partitions": entry.partitions,
            "configs": entry.overrides,
        }
        for entry in sorted(entries, key=lambda entry: entry.name)
    ]
    deleted = [topic_id.hex() for topic_id in deleted_ids]
    write_sealed(files, directory / FILE_NAME, {"format": FORMAT, "topics": topics, "deleted": deleted})
