"""Checks a whole directory: every partition's files, the content of their records, and the files around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import decode_record
from coordinator.topics.catalogue import CatalogueEntry
from muster.log.entries import group_of
from muster.log.places import LogSource, PartitionDirectory
from muster.log.progress import Advance
from protocol.errors import DecodeError
from protocol.records.records import Batch, CorruptBatch, iter_records
from storage.check.journal import end_of_segments, go_on
from storage.check.log import Checked, Finding, LogCheck, LookAt, Severity, check_log, no_record_faults
from storage.directory.log_directory import DELETED_SUFFIX
from storage.log.checkpoints import META_PROPERTIES, RECOVERY_POINTS, Garbled, read_meta_properties
from storage.log.damage_scan import Damage
from storage.log.segment_files import segments_bytes


@dataclass(slots=True)
class Verified:
    """What was checked, by partition, and all findings."""

    checked: dict[str, Checked] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def total_bytes(source: LogSource, places: Iterable[PartitionDirectory]) -> int:
    """The size of all segments in bytes, which is the total of the progress bar."""
    return sum(segments_bytes(source.files, place.directory) for place in places)


def verify(source: LogSource, places: Iterable[PartitionDirectory], advance: Advance) -> Verified:
    """Check the partition directories `places`, and the log directory's checkpoints; return what was found.

    Changes nothing.
    """
    result = Verified(findings=list(_directory_findings(source)))
    count = source.offsets_partition_count()
    for place in places:
        look_at = OffsetsRecords(place, count).look_at if place.is_offsets else no_record_faults
        check = LogCheck(
            source.files,
            place.directory,
            source.recovery_point(place),
            source.was_shut_down_cleanly,
            look_at,
            advance,
            source.sealed_sizes(place),
        )
        findings, result.checked[str(place)] = check_log(check)
        result.findings += findings
        result.findings += _missing_offsets(source, place, result.checked[str(place)])
        result.findings += _behind(source, place, look_at, result.checked[str(place)])
    return result


@dataclass(frozen=True, slots=True)
class OffsetsRecords:
    """Finds records of the offsets topic that do not decode, or whose group belongs to another partition."""

    place: PartitionDirectory
    partition_count: int | None

    def look_at(self, batch: Batch, data: memoryview) -> Iterator[tuple[int, str]]:
        if batch.is_control:
            return
        offset = batch.base_offset
        try:
            for record in iter_records(data, batch):
                offset = record.offset
                typed = decode_record(record.key, record.value)
                if typed is not None and (error := self._misplacement(group_of(typed.key))):
                    yield offset, error
        except (CorruptBatch, DecodeError) as error:
            yield offset, f"a record that cannot be decoded: {error}"

    def _misplacement(self, group: str) -> str | None:
        """Why a record of `group` is in the wrong partition; None if it is in the right one."""
        if self.partition_count is None or self.place.name is None:
            return None
        home = partition_for(group, self.partition_count)
        if home == self.place.name.partition:
            return None
        return f"group {group} belongs to partition {home} of {self.partition_count}"


def _directory_findings(source: LogSource) -> Iterator[Finding]:
    for path, what in source.unreadable_files:
        yield Finding(Severity.ERROR, path, 0, None, what)
    yield from _journal_findings(source)
    root = source.root
    if root is None or source.is_partition:
        return
    try:
        read_meta_properties(source.files, root / META_PROPERTIES)
    except Garbled as error:
        yield Finding(Severity.ERROR, root / META_PROPERTIES, 0, None, str(error))
    for name in source.files.entries(root) or ():
        if name.endswith(DELETED_SUFFIX):
            yield Finding(Severity.NOTE, root / name, None, None, "an orphan: a partition on its way out")
    present = {place.name for place in source.places}
    for partition, point in source.recovery_points.items():
        if partition not in present and point and partition.topic != "__cluster_metadata":
            what = f"{partition.directory_name} is not there, but was synced up to {point}"
            yield Finding(Severity.ERROR, root / RECOVERY_POINTS, None, point, what)


def _journal_findings(source: LogSource) -> Iterator[Finding]:
    """What is wrong with the journal's files, and what it has of partitions that no topic has."""
    for fault in source.journal.faults:
        what, severity = f"{fault.what}; a server does not start with it", Severity.ERROR
        if fault.is_torn:
            severity = Severity.NOTE
            what = f"a torn end, of which nobody has heard and which the next start cuts; {fault.what}"
        yield Finding(severity, fault.path, fault.byte, None, what)
    known = {f"{entry.name}-{index}" for entry in source.topics for index in range(entry.partitions)}
    if not known:
        return  # Kafka's directory, or the catalogue cannot be read, of which there is a finding.
    for name in sorted(source.journal.batches.keys() - known):
        batches = source.journal.batches[name]
        path, first = batches[0]
        what = f"{len(batches)} batches of {name}, which no topic has; a server does not start with them"
        yield Finding(Severity.ERROR, path, first.position, first.batch.base_offset, what)


def _behind(
    source: LogSource, place: PartitionDirectory, look_at: LookAt, checked: Checked
) -> Iterator[Finding]:
    """Check what is in the journal alone; it counts with what was checked."""
    if not source.journal.batches.get(str(place)):
        return
    end = end_of_segments(source.files, place.directory)
    first = end
    for path, found in go_on(source.journal, str(place), end):
        if isinstance(found, Damage):
            what = f"{found.reason}; the next start takes {place} out of service"
            yield Finding(Severity.ERROR, path, found.position, found.first_offset, what)
            continue
        for offset, what in look_at(found.batch, found.data):
            yield Finding(Severity.ERROR, path, found.position, offset, what)
        checked.batches += 1
        end = found.batch.last_offset + 1
    if end > first:
        checked.next_offset = max(checked.next_offset, end)
        what = f"offsets {first}-{end - 1} are in the journal alone; the next start writes them to the log"
        yield Finding(Severity.NOTE, place.directory, None, first, what)


def _missing_offsets(source: LogSource, place: PartitionDirectory, checked: Checked) -> Iterator[Finding]:
    """A finding if offsets are missing from a topic that is never compacted."""
    entry = _entry(source, place)
    if checked.missing_offsets and entry and "compact" not in entry.overrides.get("cleanup.policy", "delete"):
        what = f"{checked.missing_offsets} offsets are missing between batches, and it is never compacted"
        yield Finding(Severity.ERROR, place.directory, None, checked.first_offset, what)


def _entry(source: LogSource, place: PartitionDirectory) -> CatalogueEntry | None:
    named = (entry for entry in source.topics if place.name and entry.name == place.name.topic)
    return next(named, None)
