"""Turns records of `__consumer_offsets` into figures per group, partition and minute, and into dead letters.

A batch of records becomes one row for each minute of each partition that a group committed: how many commits, and
the newest of them. So little is left of a busy topic that everything behind costs next to nothing. Beside these
there is a row per source partition with the number of its records and the time of the newest, whatever that was,
and one for each record that cannot be used, with its bytes. A row is of the first kind if it has a group; the two
others have their columns in `about`, and the last a reason.

Records of other known types are passed over, for neither lag nor commits need them. What a transaction aborted
never comes here: the source reads what is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.spark.arrow_types import ddl_of
from muster.spark.decoding.keys import (
    BAD,
    GROUP,
    LEGACY_OFFSET,
    OFFSET,
    OTHER,
    Keys,
    group_value_schema,
    read_keys,
)
from muster.spark.decoding.values import Values, read_value, read_values
from muster.spark.decoding.windows import Bools, Ints
from muster.spark.decoding.workers import task
from protocol.errors import DecodeError

MINUTE_US: Final = 60_000_000
AHEAD_US: Final = 24 * 60 * MINUTE_US
"""A record that is this far in the future is unusable: its minute would stay open, or close all others."""

ABOUT: Final = pa.struct(
    [
        pa.field("records", pa.int64()),  # Number of records of the source partition, usable or not.
        pa.field("seen_at", pa.timestamp("us", "UTC")),  # The newest time, or the dead letter's.
        pa.field("source_topic", pa.string()),
        pa.field("source_partition", pa.int32()),
        pa.field("source_offset", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
    ]
)
FIGURES: Final = pa.schema(
    [
        pa.field("minute", pa.timestamp("us", "UTC")),
        pa.field("group_id", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("commits", pa.int64()),  # Without tombstones.
        pa.field("committed_offset", pa.int64()),  # Null if the newest is a tombstone.
        pa.field("newest_offset", pa.int64()),  # The newest record's own offset in the source partition.
    ]
)
# One struct, since Spark pays for each column of each row.
SCHEMA: Final = FIGURES.append(pa.field("about", ABOUT))
DDL: Final = ddl_of(SCHEMA)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded batch: `rows` are the row numbers of records that commit or delete an offset, in order.

    `key_of` says which of `keys` each of them has; `reasons` says what is wrong with any other row of the batch.
    """

    rows: Ints
    key_of: Ints
    keys: Keys
    offsets: Ints
    leader_epochs: Ints
    commit_timestamps_ms: Ints
    is_tombstone: np.ndarray[Any, np.dtype[np.bool_]]
    reasons: dict[int, str]


def decode_offsets(key: pa.Array, value: pa.Array) -> Decoded:
    """Decode records by their columns of keys and values, binary or large_binary. Never raises for their bytes."""
    encoded = pc.dictionary_encode(key)
    keys = read_keys(encoded.dictionary)
    has_key = np.asarray(key.is_valid())
    key_of = np.asarray(encoded.indices.fill_null(0)).astype(np.int64)
    reasons = dict.fromkeys(np.flatnonzero(~has_key).tolist(), "a record without a key")
    kinds = np.full(len(key), OTHER, np.int8)
    kinds[has_key] = keys.kinds[key_of[has_key]]
    for row in np.flatnonzero(kinds == BAD).tolist():
        reasons[row] = keys.reasons[int(key_of[row])]
    reasons.update(_bad_groups(key, value, np.flatnonzero(kinds == GROUP)))
    rows = np.flatnonzero((kinds == OFFSET) | (kinds == LEGACY_OFFSET))
    has_value = np.asarray(value.is_valid())[rows]
    values = _values_of(value, rows, has_value, kinds[rows] == LEGACY_OFFSET)
    for position, reason in values.reasons.items():
        reasons[int(rows[position])] = reason
    is_good = np.ones(len(rows), bool)
    is_good[list(values.reasons)] = False
    return Decoded(
        rows[is_good],
        key_of[rows[is_good]],
        keys,
        values.offsets[is_good],
        values.leader_epochs[is_good],
        values.commit_timestamps_ms[is_good],
        ~has_value[is_good],
        reasons,
    )


def _bad_groups(key: pa.Array, value: pa.Array, rows: Ints) -> dict[int, str]:
    """The reasons by row why values of groups' records do not decode. They are few: those of rebalances."""
    reasons = {}
    for row in rows.tolist():
        content = value[row].as_py()
        try:
            if content is not None:
                read_value(content, group_value_schema(key[row].as_py()))
        except DecodeError as error:
            reasons[row] = f"the value does not decode: {error}"
    return reasons


def _values_of(value: pa.Array, rows: Ints, has_value: Any, is_legacy: Any) -> Values:
    """The decoded values of these rows, in the order of `rows`; zeros for tombstones."""
    some = np.flatnonzero(has_value)
    read = read_values(value, rows[some], is_legacy[some])
    if len(some) == len(rows):
        return read
    nothing = np.zeros(len(rows), np.int64)
    spread = Values(nothing, nothing.copy(), nothing.copy(), {})
    spread.offsets[some] = read.offsets
    spread.leader_epochs[some] = read.leader_epochs
    spread.commit_timestamps_ms[some] = read.commit_timestamps_ms
    spread.reasons.update((int(some[position]), reason) for position, reason in read.reasons.items())
    return spread


def minutes(source_topic: str, now_us: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """A function for `mapInArrow` that turns batches of `reading.SCHEMA` into batches of SCHEMA."""

    def summarize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from minutes_of(batch, source_topic, now_us + AHEAD_US)

    return task(summarize)


def minutes_of(batch: pa.RecordBatch, source_topic: str, latest_us: int) -> Iterator[pa.RecordBatch]:
    """The figures, clocks and dead letters of a batch of records; one later than `latest_us` is a dead letter."""
    if batch.num_rows == 0:
        return
    decoded = decode_offsets(batch.column("key"), batch.column("value"))
    times_us = np.asarray(batch.column("timestamp").cast(pa.int64()))
    too_late, timeless = times_us > latest_us, times_us < 0
    decoded.reasons.update(dict.fromkeys(np.flatnonzero(too_late).tolist(), "its time is in the future"))
    decoded.reasons.update(dict.fromkeys(np.flatnonzero(timeless).tolist(), "it has no time"))
    usable = ~(too_late | timeless)
    yield _figures(batch, decoded, times_us, usable[decoded.rows], source_topic)
    yield _clocks(batch, times_us, usable, source_topic)
    if decoded.reasons:
        yield _dead_letters(batch, decoded.reasons, source_topic)


def _figures(
    batch: pa.RecordBatch, decoded: Decoded, times_us: Ints, usable: Any, source_topic: str
) -> pa.RecordBatch:
    """A batch with one row per key and minute: the number of commits, and the newest."""
    rows, key_of = decoded.rows[usable], decoded.key_of[usable]
    places = np.asarray(batch.column("offset"))[rows]
    order = _in_order(places)
    rows, key_of, places = rows[order], key_of[order], places[order]
    is_tombstone = decoded.is_tombstone[usable][order]
    minute_of = times_us[rows] // MINUTE_US
    cell, cells_key, cells_minute = _cells(key_of, minute_of, len(decoded.keys.kinds))
    count = len(cells_key)
    newest = np.zeros(count, np.int64)
    newest[cell] = np.arange(len(cell))  # The last assignment wins, and that is the newest record.
    commits = np.bincount(cell, ~is_tombstone, count).astype(np.int64)
    offsets = decoded.offsets[usable][order][newest]
    return _batch(
        count,
        minute=pa.array(cells_minute * MINUTE_US).cast(pa.timestamp("us", "UTC")),
        group_id=decoded.keys.groups.take(pa.array(cells_key)),
        topic=decoded.keys.topics.take(pa.array(cells_key)),
        partition=decoded.keys.partitions[cells_key].astype(np.int32),
        commits=commits,
        committed_offset=pa.array(offsets, mask=is_tombstone[newest]),
        newest_offset=places[newest],
    )


def _in_order(places: Ints) -> Any:
    """An index that sorts by log offset; usually nothing has to move, since a task reads one partition."""
    if len(places) < 2 or bool(np.all(places[1:] > places[:-1])):
        return slice(None)
    return np.argsort(places, kind="stable")


def _cells(key_of: Ints, minute_of: Ints, keys: int) -> tuple[Ints, Ints, Ints]:
    """Number the pairs of key and minute; return each row's number, and each number's key and minute."""
    if len(key_of) == 0:
        return key_of, key_of, minute_of
    seen, minute_at = np.unique(minute_of, return_inverse=True) if _vary(minute_of) else (minute_of[:1], 0)
    pairs = key_of + np.asarray(minute_at, np.int64) * keys
    if keys * len(seen) <= 4 * len(key_of) + 1024:  # So few that a table of all is cheaper than sorting.
        known = np.zeros(keys * len(seen), bool)
        known[pairs] = True
        there = np.flatnonzero(known)
        number_of = np.zeros(len(known), np.int64)
        number_of[there] = np.arange(len(there))
        number = number_of[pairs]
    else:
        there, number = np.unique(pairs, return_inverse=True)
    return number, there % keys, seen[there // keys]


def _vary(minute_of: Ints) -> bool:
    return bool(np.any(minute_of != minute_of[0]))


def _clocks(batch: pa.RecordBatch, times_us: Ints, usable: Bools, source_topic: str) -> pa.RecordBatch:
    """A row per source partition: the number of its records, and the newest time of the usable ones."""
    partitions = np.asarray(batch.column("partition"))
    known = np.unique(partitions) if _vary(partitions) else partitions[:1]
    of_each = [partitions == partition for partition in known]
    newest = [int(times_us[mine & usable].max()) if np.any(mine & usable) else None for mine in of_each]
    return _about(
        len(known),
        records=pa.array([int(np.count_nonzero(mine)) for mine in of_each], pa.int64()),
        seen_at=pa.array(newest, pa.int64()).cast(pa.timestamp("us", "UTC")),
        source_topic=pa.array([source_topic] * len(known)),
        source_partition=known.astype(np.int32),
    )


def _dead_letters(batch: pa.RecordBatch, reasons: dict[int, str], source_topic: str) -> pa.RecordBatch:
    rows = sorted(reasons)
    chosen = batch.take(pa.array(rows, pa.int64()))
    return _about(
        len(rows),
        seen_at=chosen.column("timestamp").cast(pa.int64()).cast(pa.timestamp("us", "UTC")),
        source_topic=pa.array([source_topic] * len(rows)),
        source_partition=chosen.column("partition"),
        source_offset=chosen.column("offset"),
        key=chosen.column("key").cast(pa.binary()),
        value=chosen.column("value").cast(pa.binary()),
        reason=pa.array([reasons[row] for row in rows]),
    )


def _about(count: int, **fields: Any) -> pa.RecordBatch:
    """A batch of SCHEMA with values in `about` alone; a field of `about` that is not given is null."""
    return _batch(count, about=pa.StructArray.from_arrays(_arrays(count, ABOUT, fields), fields=list(ABOUT)))


def _batch(count: int, **columns: Any) -> pa.RecordBatch:
    """A batch of SCHEMA; columns that are not given are null."""
    return pa.RecordBatch.from_arrays(_arrays(count, SCHEMA, columns), schema=SCHEMA)


def _arrays(count: int, fields: Iterable[pa.Field], values: dict[str, Any]) -> list[pa.Array]:
    return [
        pa.array(values[field.name], field.type) if field.name in values else pa.nulls(count, field.type)
        for field in fields
    ]
