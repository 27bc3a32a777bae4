"""`muster log`: inspect, verify, repair, export and import, on directories of Muster's or of Kafka's.

Status 0 is well, 1 means that something is wrong or was refused, 2 that the command was not understood or
could not be carried out. What is heavy is imported by the command that needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from cyclopts import App, Parameter

from muster.log.places import LogSource, LogToolError, chosen_places, open_source
from muster.sentences import say
from storage.files import StorageError

if TYPE_CHECKING:
    from muster.connection import Endpoint
    from muster.log.entries import Entry
    from muster.log.import_offline import Imported

app = App(name="log", help="Look into logs on the disk, check and repair them, move groups' offsets.")

AsJson: TypeAlias = Annotated[bool, Parameter(name="--json", negative="", help="print JSON")]
Groups: TypeAlias = Annotated[
    list[str] | None, Parameter(name="--group", help="only this group; may be repeated")
]

STATUS_WRONG: Final = 1
STATUS_CANNOT: Final = 2


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOptions:
    """The options that select which entries of a log are shown."""

    topic: Annotated[str | None, Parameter(help="another topic than __consumer_offsets")] = None
    partition: Annotated[int | None, Parameter(help="only this partition")] = None
    group: Groups = None
    batches: Annotated[bool, Parameter(negative="", help="show batches instead of records")] = False
    limit: Annotated[int | None, Parameter(help="stop after so many entries")] = None

    def includes(self, entry: Entry) -> bool:
        """Whether an entry is shown: all are unless groups are named; damage always is."""
        return not self.group or entry["kind"] == "damage" or entry.get("group") in self.group


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options that say which rows of a file are imported, and how."""

    group: Groups = None
    keep_commit_times: Annotated[
        bool, Parameter(negative="", help="commits of when they were, not of now; not with --bootstrap")
    ] = False
    dry_run: Annotated[bool, Parameter(negative="", help="only read the file")] = False


@app.command
def inspect(
    path: Annotated[Path, Parameter(help="a log directory, or one partition's")],
    *,
    shown: EntryOptions = EntryOptions(),
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="print a JSON line each")] = False,
) -> int:
    """Show what is in a log: records of __consumer_offsets decoded, batches of other topics."""

    def run() -> int:
        import json

        from muster.log.entries import as_line

        source = _opened(path)
        is_damaged = _say_of_journal(source)
        for entry in _entries(source, shown):
            is_damaged |= entry["kind"] == "damage"
            print(json.dumps(entry, ensure_ascii=False) if as_json else as_line(entry))
        return STATUS_WRONG if is_damaged else 0

    return _status(run)


@app.command
def verify(
    path: Annotated[Path, Parameter(help="a log directory, or one partition's")],
    *,
    strict: Annotated[bool, Parameter(negative="", help="notes count as errors")] = False,
    as_json: AsJson = False,
) -> int:
    """Check every batch (CRC, offsets), index and file. Status 1 if anything is lost or false."""

    def run() -> int:
        from muster.log import output
        from muster.log.progress import progress
        from muster.log.verify import total_bytes
        from muster.log.verify import verify as verify_source
        from storage.check.log import Severity

        source = _opened(path)
        with progress("checking", total_bytes(source, source.places)) as advance:
            result = verify_source(source, source.places, advance)
        if as_json:
            output.show_json(output.verified_json(result))
        else:
            print("\n".join(output.verified_lines(result)))
        is_wrong = result.count(Severity.ERROR) or (strict and result.count(Severity.NOTE))
        return STATUS_WRONG if is_wrong else 0

    return _status(run)


@app.command
def repair(
    source: Annotated[Path, Parameter(help="a log directory, or one partition's; only read")],
    target: Annotated[Path, Parameter(help="the new directory; must not exist")],
    *,
    as_json: AsJson = False,
) -> int:
    """Copy every batch that checks into a new directory, and say exactly what was lost."""

    def run() -> int:
        from muster.log import output
        from muster.log.progress import progress
        from muster.log.repair import repair as repair_source
        from muster.log.verify import total_bytes

        opened = open_source(source)
        with progress("copying", total_bytes(opened, opened.places)) as advance:
            result = repair_source(opened, target, advance)
        if as_json:
            output.show_json(output.repair_json(result, target))
        else:
            print("\n".join(output.repair_lines(result, target)))
        return STATUS_WRONG if result.lost_anything else 0

    return _status(run)


@app.command
def export(
    directory: Annotated[Path, Parameter(help="a log directory, or one offsets partition's")],
    file: Annotated[Path, Parameter(help="X.parquet, else JSON lines; - is standard output")] = Path("-"),
    *,
    group: Groups = None,
) -> int:
    """Write the committed offsets of all groups to a file. Status 1 if damage had to be left out."""

    def run() -> int:
        from muster.log.offsets import ExportNotes, exported_rows
        from muster.log.progress import progress
        from muster.log.rows import write_rows
        from muster.log.verify import total_bytes

        source = _opened(directory)
        is_damaged = _say_of_journal(source)
        notes = ExportNotes()
        with progress("reading", total_bytes(source, source.offsets_places())) as advance:
            count = write_rows(file, exported_rows(source, notes, frozenset(group or ()), advance))
        for place, damage in notes.damages:
            say(f"{place}: bytes {damage.position}-{damage.end - 1} left out: {damage.reason}")
        skipped = f", {notes.skipped} records of other kinds of groups left out" if notes.skipped else ""
        say(f"{count} offsets exported{skipped}")
        return STATUS_WRONG if notes.damages or is_damaged else 0

    return _status(run)


@app.command(name="import")
def import_command(
    file: Annotated[Path, Parameter(help="X.parquet, else JSON lines, as export writes them")],
    directory: Annotated[Path | None, Parameter(help="a log directory that no server uses")] = None,
    *,
    bootstrap: Annotated[
        str | None,
        Parameter(
            name=("--bootstrap-server", "--bootstrap"), help="or a running cluster: host:port of any broker"
        ),
    ] = None,
    command_config: Annotated[
        Path | None, Parameter(help="properties of a Kafka client, for the cluster: SASL, TLS, timeouts")
    ] = None,
    options: ImportOptions = ImportOptions(),
    as_json: AsJson = False,
) -> int:
    """Commit offsets from a file, into a directory or a running cluster. Groups with members are refused."""

    def run() -> int:
        from muster.log import output

        is_online = bootstrap is not None or command_config is not None
        if (directory is not None) == is_online:
            raise LogToolError("give either a log directory or --bootstrap")
        if is_online and options.keep_commit_times:
            raise LogToolError("--keep-commit-times: a cluster says by itself when offsets were committed")
        result = _imported(file, directory or _endpoint(bootstrap, command_config), options)
        if as_json:
            output.show_json(output.imported_json(result, options.dry_run))
        else:
            print("\n".join(output.imported_lines(result, options.dry_run)))
        return STATUS_WRONG if result.refused else 0

    return _status(run)


@app.command
def to_kafka(
    directory: Annotated[Path, Parameter(help="the log directory of a Muster that was stopped")],
    *,
    as_json: AsJson = False,
) -> int:
    """Hand the directory over to Apache Kafka 4.3, which starts on it; Muster does no more (docs/to-kafka.md)."""

    def run() -> int:
        from muster.log import output
        from muster.log.to_kafka.carrying import counted
        from muster.log.to_kafka.hand_over import hand_over

        done = hand_over(directory)
        carried = counted(done.records)
        if as_json:
            output.show_json(output.handed_over_json(done.identity, carried, done.settings))
        else:
            print("\n".join(output.handed_over_lines(done.identity, carried, done.settings, directory)))
        return 0

    return _status(run)


def _entries(source: LogSource, shown: EntryOptions) -> Iterator[Entry]:
    """Yield the entries to show, in order; a progress bar runs unless standard output is a terminal."""
    from muster.log.entries import entries
    from muster.log.progress import progress
    from muster.log.verify import total_bytes

    places = chosen_places(source, shown.topic, shown.partition)
    total = 0 if sys.stdout.isatty() else total_bytes(source, places)
    with progress("reading", total) as advance:
        found = (
            entry
            for place in places
            for entry in entries(
                source, place, decoded=place.is_offsets and not shown.batches, advance=advance
            )
            if shown.includes(entry)
        )
        yield from islice(found, shown.limit)


def _endpoint(bootstrap: str | None, command_config: Path | None) -> Endpoint:
    from muster.connection import Endpoint

    return Endpoint(bootstrap=bootstrap, command_config=command_config)


def _imported(file: Path, into: Path | Endpoint, options: ImportOptions) -> Imported:
    """Import the wanted rows into the directory, or else the cluster; the whole file is checked before that."""
    from muster.log.import_offline import Imported, import_offline
    from muster.log.progress import progress
    from muster.log.rows import read_rows, rows_by_group

    counts = rows_by_group(file, frozenset(options.group or ()))
    groups, rows = frozenset(counts), sum(counts.values())
    if options.dry_run:
        return Imported(rows, set(groups))
    chosen = (row for row in read_rows(file) if row.group in groups)
    with progress("importing", rows, is_bytes=False) as advance:
        if isinstance(into, Path):
            return import_offline(into, groups, chosen, options.keep_commit_times, advance)
        from muster.log.import_online import import_to

        return import_to(into, groups, chosen, advance)


def _opened(path: Path) -> LogSource:
    """Open the source for a command that only reads; if a server uses it, a note says that bytes may look torn."""
    source = open_source(path)
    if source.is_in_use:
        say(f"a server is using {source.root}: its newest bytes may look torn")
    return source


def _say_of_journal(source: LogSource) -> bool:
    """Say what could not be read of the journal, and return whether that is anything."""
    for fault in source.journal.refusals:
        say(f"{fault.path}: what is from byte {fault.byte} on is left out: {fault.what}")
    return bool(source.journal.refusals)


def _status(command: Callable[[], int]) -> int:
    """Run a command and return its exit status; a failure is printed as a sentence on standard error."""
    try:
        return command()
    except LogToolError as error:
        say(error)
    except StorageError as error:
        say(f"cannot {error}")
    return STATUS_CANNOT
