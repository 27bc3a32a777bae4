"""Reads from a streaming query's checkpoint how far the query has come: from Spark's own files, and nothing else.

Spark writes `offsets/N` before batch N begins: a version, a line about the batch, and one line per source with
where the batch ends. It writes `commits/N` when the batch's sink is through. So the newest N under `commits` has
ended for certain, and `offsets/N` says where. Files that are still being written have other names; entries
older than the newest hundred are deleted by Spark, perhaps between a look at the folder and one into a file.
The lines do not name their sources: those of Kafka's are known by their form, {"topic":{"0":12}}.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Final, Protocol

from muster.spark.errors import PassingError
from muster.spark.progress.positions import CheckpointError, Positions, Standing, earliest
from protocol.topic_partition import TopicPartition

OFFSETS_VERSION_MAX: Final = 1
COMMITS_VERSION_MAX: Final = 2  # 2 since Spark 4.0, if state store checkpoints have format 2.
SOURCE_VERSION_MAX: Final = 1
LOOKS_MAX: Final = 5  # Spark deletes a file before we read it only if we are a hundred batches behind.
_VOID: Final = "-"  # The line of a source without an offset.
_BATCH_FILE: Final = re.compile(r"\d+", re.ASCII)
_VERSION: Final = re.compile(r"v(\d+)", re.ASCII)


class CheckpointFolder(Protocol):
    """The files of one checkpoint, by relative path. Both methods raise PassingError if it cannot be reached."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; empty if the folder does not exist."""

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if it does not exist. Raises CheckpointError if it is far too large."""


class _DeletedMeanwhile(Exception):
    """Spark has deleted the file that was to be read, so there are newer ones."""


class Checkpoint:
    """Reads how far the query of a checkpoint has come."""

    def __init__(self, files: CheckpointFolder) -> None:
        self._files = files

    def standing(self) -> Standing:
        """The newest finished batch and its end offsets. Raises PassingError, and CheckpointError for bad data."""
        for _ in range(LOOKS_MAX):
            with suppress(_DeletedMeanwhile):
                batch_id = self._finished_batch()
                return Standing(None, self._beginning()) if batch_id is None else self._at_end_of(batch_id)
        raise PassingError(f"the checkpoint changes faster than it can be read ({LOOKS_MAX} looks)")

    def query_id(self) -> str | None:
        """The id of the query, the same in all its runs; None before its first start."""
        data = self._files.read("metadata")
        if not data:
            return None
        try:
            return str(json.loads(data)["id"])
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(f"the checkpoint's metadata is not Spark's: {data[:80]!r}") from None

    def _finished_batch(self) -> int | None:
        """The number of the newest batch with a whole commit file; one that was cut short is not counted."""
        for batch_id in sorted(batch_ids(self._files.names("commits")), reverse=True):
            where = f"commits/{batch_id}"
            data = self._files.read(where)
            if data is None:
                raise _DeletedMeanwhile
            if is_whole_commit(data, where):
                return batch_id
        return None

    def _at_end_of(self, batch_id: int) -> Standing:
        where = f"offsets/{batch_id}"
        data = self._files.read(where)
        if data is not None:
            return Standing(batch_id, parse_offsets(data, where))
        if self._files.read(f"commits/{batch_id}") is None:
            raise _DeletedMeanwhile
        raise CheckpointError(f"the checkpoint is damaged: it has commits/{batch_id} without its offsets")

    def _beginning(self) -> dict[TopicPartition, int]:
        """The offsets at which the Kafka sources begin, for a query without a finished batch; empty if unknown."""
        found: list[Positions] = []
        for source in batch_ids(self._files.names("sources")):
            where = f"sources/{source}/0"
            data = self._files.read(where)
            # A zero byte first, which kept old versions of Spark from reading on, marks the Kafka source's file.
            if data is not None and data.startswith(b"\0"):
                version, newline, offset = _text(data[1:], where).partition("\n")
                if newline:
                    check_version(version, SOURCE_VERSION_MAX, where)
                    found.append(kafka_offsets(offset, where) or {})
        return earliest(found)


def batch_ids(names: list[str]) -> list[int]:
    """The batch numbers among file names; Spark's temporary files and checksums have other names."""
    return [int(name) for name in names if _BATCH_FILE.fullmatch(name)]


def is_whole_commit(data: bytes, where: str) -> bool:
    """Whether a commit file is whole: a version, then JSON. Raises CheckpointError if the version is too new."""
    version, newline, about = _text(data, where).partition("\n")
    if not newline:
        return False
    check_version(version, COMMITS_VERSION_MAX, where)
    try:
        json.loads(about)
    except ValueError:
        return False
    return True


def parse_offsets(data: bytes, where: str) -> dict[TopicPartition, int]:
    """The end offsets of a batch's Kafka sources. Raises CheckpointError.

    If two sources read the same partition its earlier end is taken, which both have reached.
    """
    version, *lines = _text(data, where).split("\n")
    check_version(version, OFFSETS_VERSION_MAX, where)
    if not lines:
        raise CheckpointError(f"the checkpoint's {where} was cut short")
    return earliest([kafka_offsets(line, where) or {} for line in lines[1:]])  # Line 0 is about the batch.


def kafka_offsets(line: str, where: str) -> dict[TopicPartition, int] | None:
    """The offsets in a Kafka source's line; None for another source's. Raises CheckpointError if it is cut."""
    if line == _VOID or not line.startswith("{"):
        return None
    try:
        offset = json.loads(line)
    except ValueError:
        raise CheckpointError(f"the checkpoint's {where} was cut short: {line[:80]!r}") from None
    if not all(_is_of_partitions(partitions) for partitions in offset.values()):
        return None
    return {
        TopicPartition(topic, int(partition)): next_offset
        for topic, partitions in offset.items()
        for partition, next_offset in partitions.items()
    }


def check_version(line: str, newest: int, where: str) -> None:
    """Raises CheckpointError unless the line is a version from v1 to v`newest`, as Spark writes it."""
    found = _VERSION.fullmatch(line.strip())
    if found is None:
        raise CheckpointError(f"the checkpoint's {where} is not Spark's: it begins with {line[:80]!r}")
    if not 1 <= int(found[1]) <= newest:
        raise CheckpointError(
            f"the checkpoint's {where} has version {found[1]}, known are those up to {newest}"
        )


def _is_of_partitions(partitions: object) -> bool:
    """Whether this is a map of partitions to offsets: {"0":12}."""
    return isinstance(partitions, dict) and all(
        _BATCH_FILE.fullmatch(partition) and type(offset) is int and offset >= 0
        for partition, offset in partitions.items()
    )


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"the checkpoint's {where} is not Spark's: it is no UTF-8") from None
