"""The catalogue: which topics there are, in one small file that is replaced whole.

`topics.json` in the log directory is written aside, synced and renamed over the old one, so a crash leaves
either; it has a checksum, for a wrong bit in a name or an id would be another topic. It is the truth about
topics: a partition directory of a topic that is not in it belongs to one that was being made or deleted when the
daemon died. Knows nothing of logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storage.files import Files
from storage.sealed_json import read_sealed, write_sealed

FILE_NAME: Final = "topics.json"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One topic as the file has it. `overrides` are the settings it was given, as text."""

    name: str
    topic_id: bytes
    partitions: int
    overrides: dict[str, str]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The contents of the file: the topics, and the ids of those deleted last, the oldest first."""

    entries: tuple[CatalogueEntry, ...] = ()
    deleted_ids: tuple[bytes, ...] = ()


def read_catalogue(files: Files, directory: Path) -> Catalogue:
    """The topics in `directory`; none where there is no catalogue yet.

    Raises StorageError if the file cannot be read or is none of ours: it must not be taken for empty.
    """
    return read_sealed(files, directory / FILE_NAME, "catalogue of topics", _catalogue, FORMAT) or Catalogue()


def _catalogue(document: dict[str, Any]) -> Catalogue:
    return Catalogue(
        entries=tuple(_entry(topic) for topic in document["topics"]),
        deleted_ids=tuple(bytes.fromhex(topic_id) for topic_id in document.get("deleted", ())),
    )


def _entry(topic: dict[str, Any]) -> CatalogueEntry:
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
    """Put these in place of what was there; on the disk when this returns. Raises StorageError."""
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
