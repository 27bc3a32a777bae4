"""Checks the files of one partition's log, and changes none: batches, offsets, indexes, stray files.

An `ERROR` says that something that was written is gone or wrong. A `NOTE` says what the next start puts in
order by itself: a tail that a crash tore above the recovery point, an index that was not closed, a file
that belongs to no segment. What the records mean is not known here: a caller that knows passes `look_at`,
which gets each batch and returns what is wrong with its records.

Works on what Kafka wrote as well, and on the files of a running server; its last bytes may then look torn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

from protocol.records.batch import Batch
from storage.check.indexes import IndexCheck, IndexFault
from storage.check.transactions import TransactionCheck, snapshot_faults
from storage.files import CorruptSegment, Files, StorageError
from storage.index.segment_indexes import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.log.batch_walk import Located
from storage.log.damage_scan import Damage
from storage.log.partition_files import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    read_leader_epochs,
    read_partition_metadata,
)
from storage.log.sealed_segments import Sizes, faults
from storage.log.segment import LOG_SUFFIX
from storage.log.segment_files import SegmentFile, scan_segment_file, segment_files
from storage.log.shard_snapshot import SHARD_SNAPSHOT

SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
SMALL_FILES: Final = frozenset({PARTITION_METADATA, LEADER_EPOCHS, SHARD_SNAPSHOT})
SIDE_FILE_SUFFIXES: Final = (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    ".txnindex",
)  # Kafka's snapshots stand alone.

LookAt: TypeAlias = Callable[[Batch, memoryview], Iterable[tuple[int, str]]]
"""Takes a sound batch and its bytes; returns an offset and a sentence for each fault in its records."""


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: the file, and the byte and the offset that it concerns, if there are any."""

    severity: Severity
    path: Path
    byte: int | None
    offset: int | None
    what: str


@dataclass(slots=True)
class Checked:
    """How much of a log was checked."""

    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    first_offset: int | None = None
    next_offset: int = 0
    missing_offsets: int = 0  # Left out between batches: compaction's work, as a rule.


def no_record_faults(batch: Batch, data: memoryview) -> Iterable[tuple[int, str]]:
    return ()


@dataclass(slots=True)
class LogCheck:
    """The check of one partition's directory. `advance` is called with the number of bytes of each step."""

    files: Files
    directory: Path
    recovery_point: int = 0
    was_shut_down_cleanly: bool = False
    look_at: LookAt = no_record_faults
    advance: Callable[[int], None] = lambda _: None
    sealed_sizes: Sizes = field(default_factory=dict)  # The recorded sizes of sealed segments.
    checked: Checked = field(default_factory=Checked)

    def run(self) -> Iterator[Finding]:
        """Yield all findings, in the order of the log. Raises StorageError if a file cannot be opened."""
        names = self.files.entries(self.directory) or []
        segments = segment_files(self.files, self.directory)
        yield from self._small_file_findings()
        yield from self._stray_file_findings(names, segments)
        for fault in faults(self.files, self.directory, self.sealed_sizes):
            yield Finding(Severity.ERROR, fault.path, fault.byte, fault.base_offset, fault.what)
        transactions = TransactionCheck(self.files, self.directory)
        for segment in segments:
            yield from self._segment_findings(segment, transactions)
        for path, offset, reason in snapshot_faults(self.files, self.directory, names):
            what = f"a damaged snapshot, in whose stead the next start reads the log: {reason}"
            yield Finding(Severity.NOTE, path, 0, offset, what)
        if self.checked.next_offset < self.recovery_point:
            what = f"the log ends at {self.checked.next_offset}, all was synced up to {self.recovery_point}"
            yield Finding(Severity.ERROR, self.directory, None, self.checked.next_offset, what)

    def _small_file_findings(self) -> Iterator[Finding]:
        for read, name in (
            (read_partition_metadata, PARTITION_METADATA),
            (read_leader_epochs, LEADER_EPOCHS),
        ):
            try:
                read(self.files, self.directory)
            except CorruptSegment as error:
                yield Finding(Severity.ERROR, self.directory / name, 0, None, error.reason)

    def _stray_file_findings(self, names: list[str], segments: list[SegmentFile]) -> Iterator[Finding]:
        swaps = {segment.path.name for segment in segments if segment.is_swap}
        for name in names:
            match = SEGMENT_FILE.fullmatch(name)
            path = self.directory / name
            if match and match[2] in SIDE_FILE_SUFFIXES and f"{match[1]}{LOG_SUFFIX}" not in names:
                what = f"an orphan: there is no {match[1]}{LOG_SUFFIX}"
                yield Finding(Severity.NOTE, path, None, int(match[1]), what)
            elif name in swaps:
                what = "a compaction that was cut short, which the next start finishes"
                yield Finding(Severity.NOTE, path, None, None, what)
            elif not match and name not in SMALL_FILES:
                yield Finding(Severity.NOTE, path, None, None, "an orphan: no part of the log")

    def _segment_findings(self, segment: SegmentFile, transactions: TransactionCheck) -> Iterator[Finding]:
        path, size_bytes = segment.path, self.files.size_bytes(segment.path)
        indexes = IndexCheck(self.files, self.directory, segment.base_offset)
        self.checked.segments += 1
        self.checked.size_bytes += size_bytes
        self._count_missing_before(segment.base_offset)
        damages: list[Damage] = []
        for found in scan_segment_file(self.files, segment):
            if isinstance(found, Damage):
                damages.append(found)
                if found.last_offset is not None:  # Reported as lost: not counted as missing.
                    self.checked.next_offset = max(self.checked.next_offset, found.last_offset + 1)
                indexes.damage(found.end, found.last_offset)
                transactions.damage()
            else:
                yield from self._damage_findings(segment, damages, sound_follows=True)
                if segment.is_last and not damages:
                    yield from self._gap_findings(path, found)
                yield from self._sound_batch_findings(path, found, indexes)
                transactions.batch(found.batch, found.data)
                damages = []
            self.advance(found.end - found.position)
        yield from self._damage_findings(segment, damages, sound_follows=False)
        if not segment.is_swap:  # A swap file gets its indexes with its final name.
            indexes.end()
            faults = [*indexes.faults, *transactions.end_segment(segment.base_offset)]
            yield from self._index_findings(faults, size_bytes, segment)

    def _count_missing_before(self, offset: int) -> None:
        """Count the offsets missing before `offset`, where the next batch or the next segment begins."""
        checked = self.checked
        if checked.first_offset is None:
            checked.first_offset = offset
        else:
            checked.missing_offsets += max(0, offset - checked.next_offset)
        checked.next_offset = max(checked.next_offset, offset)

    def _gap_findings(self, path: Path, found: Located) -> Iterator[Finding]:
        """Yield a finding for offsets missing in the last segment, where compaction never removes any."""
        if (first := self.checked.next_offset) < found.batch.base_offset:
            what = f"offsets {first}-{found.batch.base_offset - 1} are missing, where compaction never comes"
            yield Finding(Severity.ERROR, path, found.position, first, what)

    def _sound_batch_findings(self, path: Path, found: Located, indexes: IndexCheck) -> Iterator[Finding]:
        batch = found.batch
        self._count_missing_before(batch.base_offset)
        self.checked.batches += 1
        self.checked.next_offset = batch.last_offset + 1
        indexes.batch(found.position, batch.base_offset, batch.last_offset, batch.max_timestamp_ms)
        for offset, what in self.look_at(batch, found.data):
            yield Finding(Severity.ERROR, path, found.position, offset, what)

    def _damage_findings(
        self, segment: SegmentFile, damages: list[Damage], sound_follows: bool
    ) -> Iterator[Finding]:
        for damage in damages:
            is_torn = (
                segment.is_last
                and not sound_follows
                and not self.was_shut_down_cleanly
                and damage.first_offset >= self.recovery_point
            )
            extent = f"bytes {damage.position}-{damage.end - 1}: {damage.reason}"
            if is_torn:
                what = f"a torn tail, which the next start keeps aside and cuts; {extent}"
            else:
                what = f"damaged, {_lost_offsets(damage)} lost; {extent}"
            severity = Severity.NOTE if is_torn else Severity.ERROR
            yield Finding(severity, segment.path, damage.position, damage.first_offset, what)

    def _index_findings(
        self, faults: list[IndexFault], size_bytes: int, segment: SegmentFile
    ) -> Iterator[Finding]:
        """Yield index faults; as notes in a last segment that was not closed: its indexes were not synced."""
        is_open = segment.is_last and not self.was_shut_down_cleanly
        for fault in faults:
            severity = Severity.NOTE if is_open or not size_bytes else Severity.ERROR
            yield Finding(severity, fault.path, fault.byte, fault.offset, f"index: {fault.what}")


def _lost_offsets(damage: Damage) -> str:
    if damage.last_offset is None:
        return f"offsets from {damage.first_offset} on"
    if damage.last_offset < damage.first_offset:
        return "no offset"
    return f"offsets {damage.first_offset}-{damage.last_offset}"


def check_log(check: LogCheck) -> tuple[list[Finding], Checked]:
    """Run a check to its end; a file that cannot be opened or listed is a finding as well."""
    findings: list[Finding] = []
    try:
        for finding in check.run():
            findings.append(finding)  # One by one: what came before a failure is kept.
    except StorageError as error:
        findings.append(Finding(Severity.ERROR, error.path, None, None, str(error)))
    return findings, check.checked
