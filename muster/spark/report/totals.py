"""Computes totals by key, and the rows with the largest values, of tables larger than memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

ROWS: Final = "rows"
"""A column of totals that every table has: the number of rows."""

COMPACT_ROWS: Final = 500_000
"""The number of rows of partial totals at which they are merged."""

KEYS_MAX: Final = 1_000_000
"""The most keys that totals are kept of: some 200 MB with ids of ordinary length. The smallest are dropped."""


class Totals:
    """Sums, maxima and minima by key. `how` names the function ("sum", "max", "min") of each column.

    Beyond `keys_max` keys those with the smallest first column of `how` are dropped, and `is_cut` says so: what is
    kept may then be too small by what was dropped of it, and is never too large.
    """

    def __init__(self, keys: Sequence[str], how: Mapping[str, str], keys_max: int = KEYS_MAX) -> None:
        self.is_cut = False
        self._keys = list(keys)
        self._how = dict(how)
        self._keys_max = keys_max
        self._parts: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Add the rows to the totals; they need no column ROWS."""
        if ROWS in self._how and ROWS not in rows.column_names:
            rows = with_column(rows, ROWS, pa.repeat(1, rows.num_rows))
        self._parts.append(self._aggregate(rows))
        if sum(part.num_rows for part in self._parts) > COMPACT_ROWS:
            self._compact()

    def result(self) -> pd.DataFrame:
        """The totals with one row per key, the keys as columns, unordered."""
        self._compact()
        if not self._parts:
            return pd.DataFrame({name: [] for name in [*self._keys, *self._how]})
        found: pd.DataFrame = self._parts[0].to_pandas()
        return found

    def _compact(self) -> None:
        if len(self._parts) > 1:
            self._parts = [self._aggregate(pa.concat_tables(self._parts))]
        if self._parts and self._parts[0].num_rows > self._keys_max:
            self.is_cut = True
            order = pc.select_k_unstable(
                self._parts[0], k=self._keys_max, sort_keys=[(next(iter(self._how)), "descending")]
            )
            self._parts = [self._parts[0].take(order)]

    def _aggregate(self, rows: pa.Table) -> pa.Table:
        done = rows.group_by(self._keys).aggregate(list(self._how.items()))
        names = {f"{column}_{function}": column for column, function in self._how.items()}
        return done.rename_columns([names.get(name, name) for name in done.column_names]).select(
            [*self._keys, *self._how]
        )


class TopRows:
    """The rows with the largest values of `by`, at most `per_key` of each `key` and `in_all`, without nulls."""

    def __init__(self, by: str, in_all: int, key: str | None = None, per_key: int = 0) -> None:
        self.row_count = 0
        self._by, self._in_all, self._key, self._per_key = by, in_all, key, per_key
        self._kept: pa.Table | None = None

    def add(self, rows: pa.Table) -> None:
        self.row_count += rows.num_rows
        rows = rows.filter(pc.is_valid(rows.column(self._by)))
        if self._kept is not None:
            rows = pa.concat_tables([self._kept, rows])
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(self._by, "descending")]))
        if self._key is not None:
            rank = rows.select([self._key]).to_pandas().groupby(self._key).cumcount().to_numpy()
            rows = rows.filter(pa.array(rank < self._per_key))
        self._kept = rows.slice(0, self._in_all)

    def result(self) -> list[dict[str, object]]:
        """The rows as dictionaries, the largest first."""
        return [] if self._kept is None else self._kept.to_pylist()


def per_group(in_all: int, at_least: int, groups: Sequence[str]) -> int:
    """The number of rows that each of `groups` may have, of `in_all` together, but at least `at_least`."""
    return max(at_least, in_all // max(len(groups), 1))


def with_column(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The table with this column added, or replaced if it has one of that name."""
    if name in rows.column_names:
        return rows.set_column(rows.column_names.index(name), name, values)
    return rows.append_column(name, values)


def floored(times_ms: pa.ChunkedArray, step_ms: int) -> pa.ChunkedArray:
    """Each time as the begin of its step; steps are counted from 1970."""
    whole = pc.floor(pc.divide(times_ms.cast(pa.float64()), float(step_ms))).cast(pa.int64())
    return pc.multiply(whole, step_ms)
