"""Repairs a whole directory: copies every valid batch into a new one, and reports what was lost.

The source is only read. Everything is built in `<target>.unfinished`, beside the target, and gets the
target's name last, when all of it is on the disk: after a crash there is either no target or a whole one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from muster.log.places import LogSource, LogToolError, PartitionDirectory
from muster.log.progress import Advance
from protocol.topic_partition import TopicPartition
from storage.check.journal import JournalFault, end_of_segments, go_on
from storage.check.repair import LogRepair, Loss, Repaired, copy_file
from storage.directory.log_directory import LOCK
from storage.files import Files, StorageError
from storage.journal.files import DIRECTORY as JOURNAL
from storage.log.batch_walk import Located
from storage.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, write_offsets
from storage.log.sealed_segments import SEALED_SEGMENTS

UNFINISHED: Final = ".unfinished"
# Recovery points are written by the repair.
NOT_COPIED: Final = frozenset({LOCK, CLEAN_SHUTDOWN, SEALED_SEGMENTS, RECOVERY_POINTS})


@dataclass(slots=True)
class Repair:
    """What became of each partition, and which files of the directory were left behind."""

    partitions: dict[str, Repaired] = field(default_factory=dict)
    left_behind: list[Path] = field(default_factory=list)
    journal_faults: list[JournalFault] = field(default_factory=list)
    """What was behind them in the journal was not read: what is lost with it is not known."""

    @property
    def lost_anything(self) -> bool:
        return bool(self.journal_faults) or any(repaired.losses for repaired in self.partitions.values())


def repair(source: LogSource, target: Path, advance: Advance) -> Repair:
    """Copy every valid batch into `target`, which must not exist. Raises LogToolError."""
    target = target.absolute()
    draft = target.with_name(target.name + UNFINISHED)
    if source.is_in_use:
        raise LogToolError(f"a server is using {source.root}: stop it first")
    for path, what in ((target, "is there already"), (draft, "is left from a repair that did not finish")):
        if path.exists():
            raise LogToolError(f"{path} {what}: name another target, or remove it")
    if target.is_relative_to(source.path):
        raise LogToolError(f"{target} lies within {source.path}, which is only read")
    try:
        return _repair(source, target, draft, advance)
    except StorageError as error:
        raise LogToolError(f"cannot {error}; {draft} is left unfinished") from error


def _repair(source: LogSource, target: Path, draft: Path, advance: Advance) -> Repair:
    files = source.files
    result = Repair(journal_faults=source.journal.refusals)
    if source.is_partition:
        result.partitions[str(source.places[0])] = _copy(source, source.places[0], draft, advance)
    else:
        files.make_directory(draft)
        for place in source.places:
            result.partitions[str(place)] = _copy(source, place, draft / place.directory.name, advance)
        _copy_around(source, draft, result)
        _write_recovery_points(files, source.places, draft, result)
        files.sync_directory(draft)
    files.rename(draft, target)
    files.sync_directory(target.parent)
    return result


def _copy(source: LogSource, place: PartitionDirectory, target: Path, advance: Advance) -> Repaired:
    point = source.recovery_point(place)
    wall_ms = int(time.time() * 1000)
    sizes = source.sealed_sizes(place)
    repaired = Repaired()  # Of a partition that is in the journal alone there is nothing to copy here.
    if source.files.is_directory(place.directory):
        repaired = LogRepair(source.files, place.directory, target, point, wall_ms, advance, sizes).run()
    if source.is_partition or source.journal.refusals:
        _add_loss_of_journal(source, place, repaired)
    return repaired


def _copy_around(source: LogSource, draft: Path, result: Repair) -> None:
    """Copy the small files and the journal unchanged; other directories are left behind, and listed.

    A journal that no start would take is left behind as well: what of it can be read is lost with it.
    """
    for name in source.files.entries(source.path) or ():
        path = source.path / name
        if name in NOT_COPIED or name in result.partitions:
            continue
        if name == JOURNAL and not source.journal.refusals:
            _copy_journal(source.files, path, draft / name)
        elif source.files.is_directory(path):
            result.left_behind.append(path)
        else:
            copy_file(source.files, path, draft / name)


def _copy_journal(files: Files, source: Path, target: Path) -> None:
    """Copy the journal, which the first start on the copy writes to the logs."""
    files.make_directory(target)
    for name in files.entries(source) or ():
        copy_file(files, source / name, target / name)
    files.sync_directory(target)


def _add_loss_of_journal(source: LogSource, place: PartitionDirectory, repaired: Repaired) -> None:
    """Add a loss for each batch that is in the journal alone, and that no copy of the journal brings back."""
    end = end_of_segments(source.files, place.directory)
    for path, found in go_on(source.journal, str(place), end):
        if isinstance(found, Located):
            first, last = found.batch.base_offset, found.batch.last_offset
            why = "in the journal alone, which was not copied"
            repaired.losses.append(Loss(path, found.position, found.end, first, last, why))


def _write_recovery_points(
    files: Files, places: list[PartitionDirectory], draft: Path, result: Repair
) -> None:
    """Record the copy as synced to its end: damage found later then counts as damage, and not as a torn tail."""
    points: dict[TopicPartition, int] = {}
    for place in places:
        end = result.partitions[str(place)].next_offset
        if place.name is not None and end:
            points[place.name] = end
    write_offsets(files, draft / RECOVERY_POINTS, points)
