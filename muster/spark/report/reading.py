"""Reads tables while jobs may be writing them: as Arrow batches, file by file, in bounded memory.

Times come as integers, ms since 1970. A file that cannot be read, or that goes while it is read, is left out and
listed as a problem: it never ends a report. Files and folders that begin with _ or . are skipped, as by Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coordinator.groups.causes import current_slug
from muster.spark.report.errors import ReportError
from muster.spark.tables import TABLES, arrow_schema

BATCH_ROWS: Final = 131_072
PROBLEMS_MAX: Final = 20
"""The number of unreadable files that are named; further ones are counted."""

MISSING_NAMED_MAX: Final = 5
"""The number of unknown groups that are named in an error."""
GROUP: Final = "group_id"
_DAY_PREFIX: Final = "day="

_CAUSE_COLUMNS: Final = frozenset({"cause", "causes", "joined_by", "ended_by"})
"""Columns that have slugs of causes in any table; rows of an older version's job may have former slugs."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a report is about: groups (empty: all), and a time in ms since 1970, `to_ms` exclusive (None: open)."""

    groups: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None

    def has_day(self, day: date | None) -> bool:
        """Whether the selected time touches this UTC day; true for None, files outside of any day."""
        if day is None:
            return True
        begin_ms = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
        from_ms, to_ms = self.from_ms, self.to_ms
        return (from_ms is None or begin_ms + 86_400_000 > from_ms) and (to_ms is None or begin_ms < to_ms)


class TablesReader:
    """Reads the selection's rows of the tables in a folder. `problems` are sentences about what was left out."""

    def __init__(self, folder: Path, selection: Selection = Selection()) -> None:
        if not folder.is_dir():
            raise ReportError(f"there is no folder {folder}")
        if not any((folder / name).is_dir() for name in TABLES):
            raise ReportError(f"{folder} holds none of the tables: {', '.join(TABLES)}")
        self.folder = folder
        self.selection = selection
        self._problems: dict[Path, str] = {}

    @property
    def problems(self) -> list[str]:
        problems = list(self._problems.values())
        more = len(problems) - PROBLEMS_MAX
        return problems if more <= 0 else [*problems[:PROBLEMS_MAX], f"{more} more files could not be read."]

    def days(self, table: str) -> list[date | None]:
        """The selected days for which the table has files; None stands for files outside of any day."""
        return sorted({day for day, _ in self._files(table)}, key=lambda day: day or date.min)

    def scan(
        self,
        table: str,
        columns: Sequence[str],
        *,
        groups: Sequence[str] | None = None,
        days: Sequence[date | None] | None = None,
    ) -> Iterator[pa.Table]:
        """Yield the selection's rows with these columns, file by file; `groups` and `days` narrow it further.

        A file that turns out to be damaged has given the rows before the damage.
        """
        for day, path in self._files(table):
            if days is not None and day not in days:
                continue
            try:
                for batch in self._batches(path, table, columns):
                    rows = self._selected(batch, table, groups)
                    if rows.num_rows:
                        yield rows.select(list(columns))
            except (OSError, pa.ArrowException) as error:
                self._problem(path, f"could not be read to its end ({_first_line(error)})")

    def _files(self, table: str) -> list[tuple[date | None, Path]]:
        found: list[tuple[date | None, Path]] = []

        if not (self.folder / table).is_dir():
            return found  # The table's job has not run.

        def unreadable(error: OSError) -> None:
            self._problem(Path(error.filename or self.folder), f"could not be listed ({error.strerror})")

        for folder, folders, files in os.walk(self.folder / table, onerror=unreadable):
            folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
            day = _day_of(Path(folder))
            if self.selection.has_day(day):
                names = [name for name in files if name.endswith(".parquet") and name[0] not in "_."]
                found += [(day, Path(folder, name)) for name in sorted(names)]
        return found

    def _batches(self, path: Path, table: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        wanted = list(dict.fromkeys([*columns, TABLES[table].day_of]))
        schema = arrow_schema(table)
        with pq.ParquetFile(path) as file:
            missing = [name for name in wanted if name not in file.schema_arrow.names]
            if missing:
                return self._problem(path, f"has no column {', '.join(missing)}")
            for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
                cast = [_as_declared(batch.column(name), schema.field(name).type) for name in wanted]
                yield pa.table(
                    [
                        _under_current_slugs(column) if name in _CAUSE_COLUMNS else column
                        for name, column in zip(wanted, cast, strict=True)
                    ],
                    names=wanted,
                )

    def _selected(self, rows: pa.Table, table: str, groups: Sequence[str] | None) -> pa.Table:
        selection, at = self.selection, rows.column(TABLES[table].day_of)
        if selection.from_ms is not None:
            rows = rows.filter(pc.greater_equal(at, selection.from_ms))
            at = rows.column(TABLES[table].day_of)
        if selection.to_ms is not None:
            rows = rows.filter(pc.less(at, selection.to_ms))
        for wanted in (selection.groups or None, groups):
            if wanted is not None and GROUP in rows.column_names:
                rows = rows.filter(pc.is_in(rows.column(GROUP), pa.array(wanted, pa.string())))
        return rows

    def _problem(self, path: Path, what: str) -> None:
        shown = path.relative_to(self.folder) if path.is_relative_to(self.folder) else path
        self._problems.setdefault(path, f"{shown} {what}: what it holds is missing here.")


def _as_declared(column: pa.Array, declared: pa.DataType) -> pa.Array:
    """A column in its declared type, and times of any unit as ms since 1970."""
    if not pa.types.is_timestamp(declared):
        return column.cast(declared)
    zone = getattr(column.type, "tz", None)  # Spark's INT96, without a zone, is UTC as well.
    return column.cast(pa.timestamp("ms", tz=zone), safe=False).cast(pa.int64())


def _under_current_slugs(column: pa.Array) -> pa.Array:
    """A column of slugs, or of lists of slugs, with former slugs replaced by today's."""
    if pa.types.is_list(column.type):
        inner = _under_current_slugs(column.flatten())
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        return pa.ListArray.from_arrays(offsets, inner, type=column.type, mask=column.is_null())
    encoded = column.dictionary_encode()
    slugs = [None if slug is None else current_slug(slug) for slug in encoded.dictionary.to_pylist()]
    return pa.array(slugs, pa.string()).take(encoded.indices)


def _day_of(folder: Path) -> date | None:
    name = folder.name
    try:
        return date.fromisoformat(name.removeprefix(_DAY_PREFIX)) if name.startswith(_DAY_PREFIX) else None
    except ValueError:
        return None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(". ")[:200]
