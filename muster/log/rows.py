"""Committed offsets in a file: one row per group and partition, as JSON lines or Parquet.

`group`, `topic`, `partition` and `offset` say everything; the other columns may be missing or null. Those of
the group itself (protocol type, generation, members) show people what was there, and are not imported. A
file gets its name when it is whole. Parquet needs pyarrow, which is asked for only then.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from muster.log.places import LogToolError

STANDARD_OUTPUT: Final = Path("-")
PARQUET_SUFFIX: Final = ".parquet"
ROWS_AT_A_TIME: Final = 50_000
MAX_INT64: Final = 2**63 - 1
MAX_INT32: Final = 2**31 - 1
REQUIRED: Final = ("group", "topic", "partition", "offset")


class OffsetRow(NamedTuple):
    """The committed offset of a group in one partition, with what the log knew of it. None: not known."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    commit_timestamp_ms: int | None = None
    expire_timestamp_ms: int | None = None
    topic_id: str | None = None
    protocol_type: str | None = None
    generation: int | None = None
    members: int | None = None


_NAMES: Final = OffsetRow._fields
_TEXTS: Final = frozenset({"group", "topic", "metadata", "topic_id", "protocol_type"})
_INT32: Final = frozenset({"partition", "leader_epoch", "generation", "members"})


def is_parquet(path: Path) -> bool:
    return path.suffix == PARQUET_SUFFIX


def row_of(values: dict[str, Any], where: str) -> OffsetRow:
    """A row from plain values; other columns are left out. Raises LogToolError, which names the place `where`."""
    known = {name: values[name] for name in _NAMES if values.get(name) is not None}
    for name in REQUIRED:
        if name not in known:
            raise LogToolError(f"{where}: {name} is missing")
    for name, value in known.items():
        if name in _TEXTS:
            if not isinstance(value, str):
                raise LogToolError(f"{where}: {name} must be a text, not {value!r}")
        elif type(value) is not int or not _least(name) <= value <= _most(name):
            raise LogToolError(f"{where}: {name} must be a whole number from {_least(name)}, not {value!r}")
    return OffsetRow(**known)


def _least(name: str) -> int:
    return 0 if name in ("partition", "offset") else -1


def _most(name: str) -> int:
    return MAX_INT32 if name in _INT32 else MAX_INT64


# Reading.


def read_rows(path: Path) -> Iterator[OffsetRow]:
    """The rows of a file, one by one. Raises LogToolError for one that is not valid."""
    try:
        yield from _read_parquet(path) if is_parquet(path) else _read_lines(path)
    except OSError as error:
        raise LogToolError(f"cannot read {path}: {error.strerror or error}") from error


def rows_by_group(path: Path, wanted: frozenset[str]) -> dict[str, int]:
    """The number of rows of each group, or of those `wanted`. Raises LogToolError, also if one has none."""
    counts = Counter(row.group for row in read_rows(path) if not wanted or row.group in wanted)
    if missing := sorted(wanted - counts.keys()):
        raise LogToolError(f"not in {path}: {', '.join(missing)}")
    return counts


def _read_lines(path: Path) -> Iterator[OffsetRow]:
    with path.open(encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _line(line, f"{path}, line {number}")
        except UnicodeDecodeError as error:
            raise LogToolError(f"{path} is no UTF-8: {error}") from None


def _line(line: str, where: str) -> OffsetRow:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise LogToolError(f"{where}: no JSON: {error}") from None
    if not isinstance(values, dict):
        raise LogToolError(f"{where}: an object is wanted, not {line.strip()[:40]}")
    return row_of(values, where)


def _read_parquet(path: Path) -> Iterator[OffsetRow]:
    pyarrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=ROWS_AT_A_TIME):
                for values in batch.to_pylist():
                    yield row_of(values, f"{path}, row {number}")
                    number += 1
    except pyarrow.ArrowException as error:
        raise LogToolError(f"{path} is no Parquet file that can be read: {error}") from None


# Writing.


def write_rows(path: Path, rows: Iterable[OffsetRow]) -> int:
    """Write a Parquet file if `path` ends so, else JSON lines ("-": standard output); return the row count."""
    if path == STANDARD_OUTPUT:
        return _write_lines(sys.stdout, rows)
    draft = path.with_name(path.name + ".unfinished")
    try:
        if is_parquet(path):
            count = _write_parquet(draft, rows)
        else:
            with draft.open("w", encoding="utf-8") as out:
                count = _write_lines(out, rows)
        draft.replace(path)
    except OSError as error:
        raise LogToolError(f"cannot write {path}: {error.strerror or error}") from error
    return count


def _write_lines(out: Any, rows: Iterable[OffsetRow]) -> int:
    count = 0
    for row in rows:
        out.write(json.dumps(row._asdict(), ensure_ascii=False) + "\n")
        count += 1
    return count


def _write_parquet(path: Path, rows: Iterable[OffsetRow]) -> int:
    pyarrow, parquet = _pyarrow()
    types = {
        name: pyarrow.string() if name in _TEXTS else pyarrow.int32() if name in _INT32 else pyarrow.int64()
        for name in _NAMES
    }
    schema = pyarrow.schema(
        [pyarrow.field(name, kind, nullable=name not in REQUIRED) for name, kind in types.items()]
    )
    count, left = 0, iter(rows)
    with parquet.ParquetWriter(path, schema) as writer:
        while some := list(islice(left, ROWS_AT_A_TIME)):
            columns = dict(zip(_NAMES, map(list, zip(*some, strict=True)), strict=True))
            writer.write_table(pyarrow.Table.from_pydict(columns, schema=schema))
            count += len(some)
    return count


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as missing:
        raise LogToolError(
            f"Parquet needs pyarrow ({missing}): pip install 'muster[spark]', or pyarrow alone; "
            "JSON lines need nothing"
        ) from None
