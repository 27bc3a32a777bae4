"""A streaming query's checkpoint, read for how far the query has come: Spark's own files, and nothing else.

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
COMMITS_VERSION_MAX: Final = 2  # 2 from Spark 4.0 on, if the state store's checkpoints are of its format 2.
SOURCE_VERSION_MAX: Final = 1
LOOKS_MAX: Final = 5  # Spark deletes what we are about to read only if we are a hundred batches behind.
_VOID: Final = "-"  # The line of a source that has no offset yet.
_BATCH_FILE: Final = re.compile(r"\d+", re.ASCII)
_VERSION: Final = re.compile(r"v(\d+)", re.ASCII)


class CheckpointFolder(Protocol):
    """The files of one checkpoint, by paths relative to it. Both raise PassingError if they are out of reach."""

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing if there is no such folder."""

    def read(self, path: str) -> bytes | None:
        """A file's content; None if there is no such file. Raises CheckpointError if it is beyond measure."""


class _DeletedMeanwhile(Exception):
    """Spark deleted what was about to be read: there must be something newer."""


class Checkpoint:
    """How far the query of a checkpoint has come."""

    def __init__(self, files: CheckpointFolder) -> None:
        self._files = files

    def standing(self) -> Standing:
        """The newest finished batch. Raises CheckpointError for what is not understood, and PassingError."""
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
        """The newest batch with a whole commit: one that was cut short counts as not written."""
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
        """Where the Kafka sources of a query begin that has never ended a batch, if it has got so far."""
        found: list[Positions] = []
        for source in batch_ids(self._files.names("sources")):
            where = f"sources/{source}/0"
            data = self._files.read(where)
            # The zero byte, which once kept an older Spark from reading on, is the mark of the Kafka source.
            if data is not None and data.startswith(b"\0"):
                version, newline, offset = _text(data[1:], where).partition("\n")
                if newline:
                    check_version(version, SOURCE_VERSION_MAX, where)
                    found.append(kafka_offsets(offset, where) or {})
        return earliest(found)


def batch_ids(names: list[str]) -> list[int]:
    """The numbers among file names: Spark's temporary files and checksums have other names."""
    return [int(name) for name in names if _BATCH_FILE.fullmatch(name)]


def is_whole_commit(data: bytes, where: str) -> bool:
    """Whether a commit was written to its end: a version, and JSON. Raises CheckpointError if it is too new."""
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
    """The end offsets of a batch, of its Kafka sources. Raises CheckpointError.

    If two sources read a partition, the earlier end counts: what both have done.
    """
    version, *lines = _text(data, where).split("\n")
    check_version(version, OFFSETS_VERSION_MAX, where)
    if not lines:
        raise CheckpointError(f"the checkpoint's {where} was cut short")
    return earliest([kafka_offsets(line, where) or {} for line in lines[1:]])  # The first is about the batch.


def kafka_offsets(line: str, where: str) -> dict[TopicPartition, int] | None:
    """The offsets of a Kafka source; None if the line is another source's. Raises CheckpointError if it is cut."""
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
    """Raises CheckpointError unless this is a version from 1 to `newest`, as Spark writes them: v1."""
    found = _VERSION.fullmatch(line.strip())
    if found is None:
        raise CheckpointError(f"the checkpoint's {where} is not Spark's: it begins with {line[:80]!r}")
    if not 1 <= int(found[1]) <= newest:
        raise CheckpointError(
            f"the checkpoint's {where} has version {found[1]}, known are those up to {newest}"
        )


def _is_of_partitions(partitions: object) -> bool:
    """Whether this maps partitions to offsets: {"0":12}."""
    return isinstance(partitions, dict) and all(
        _BATCH_FILE.fullmatch(partition) and type(offset) is int and offset >= 0
        for partition, offset in partitions.items()
    )


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"the checkpoint's {where} is not Spark's: it is no UTF-8") from None
