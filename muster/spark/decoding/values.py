"""Decodes values of committed offsets: the offset, the leader epoch and the time of the commit.

A value is an int16 version and then, by version, fields of fixed size around one string, the metadata. Version 4
has compact lengths and tagged fields behind; ordinary is one with none, or with the topic id alone, and metadata
of less than 127 bytes. Ordinary values are read all at once; every other goes to the codec by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from coordinator.groups.record_schemas import LegacyOffsetCommitValue, OffsetCommitValue
from muster.spark.decoding.windows import INT8, INT16, INT32, INT64, Bools, Cells, Ints, cells
from protocol.codec.codec import decode, spec
from protocol.errors import DecodeError

VERSION_BYTES: Final = 2
NO_LEADER_EPOCH: Final = -1
_FLEXIBLE: Final = 4
_LONG_COMPACT: Final = 0x80  # From this byte on a compact length has more bytes.
_TOPIC_ID_TAG: Final = (1, 0, 16)  # A single tagged field: number 0, 16 bytes.
_TOPIC_ID_BYTES: Final = 19


@dataclass(frozen=True, slots=True)
class _Layout:
    """The positions of fields in values of one version, counted from the value's first byte."""

    metadata_at: int  # Position of the metadata's length.
    length_bytes: int
    tail_bytes: int  # Bytes after the metadata; the commit time comes first.
    has_epoch: bool


_LAYOUTS: Final = {
    0: _Layout(10, 2, 8, False),
    1: _Layout(10, 2, 16, False),
    2: _Layout(10, 2, 8, False),
    3: _Layout(14, 2, 8, True),
    _FLEXIBLE: _Layout(14, 1, 9, True),  # The last byte is the number of tagged fields.
}


@dataclass(frozen=True, slots=True)
class Values:
    """The fields of each row's value; a row in `reasons` did not decode, and its numbers mean nothing."""

    offsets: Ints
    leader_epochs: Ints
    commit_timestamps_ms: Ints
    reasons: dict[int, str]


def read_values(column: pa.Array, rows: Ints, is_legacy: Bools) -> Values:
    """Decode the values at `rows` of a binary array, none of them null; the result is indexed as `rows` is."""
    found = cells(column).of(rows)
    count = len(rows)
    values = Values(np.zeros(count, np.int64), np.full(count, NO_LEADER_EPOCH), np.zeros(count, np.int64), {})
    is_done = np.zeros(count, bool)
    has_version = np.flatnonzero((found.sizes >= VERSION_BYTES) & ~is_legacy)
    versions = found.gather(found.starts[has_version], INT16)
    for version, layout in _LAYOUTS.items():
        of_version = has_version[versions == version]
        if len(of_version):
            is_done[_read_plain(found, of_version, layout, values)] = True
    for row in np.flatnonzero(~is_done).tolist():
        try:
            schema = LegacyOffsetCommitValue if is_legacy[row] else OffsetCommitValue
            value = read_value(column[int(rows[row])].as_py(), schema)
        except DecodeError as error:
            values.reasons[row] = f"the value does not decode: {error}"
            continue
        values.offsets[row] = value.offset
        values.leader_epochs[row] = getattr(value, "leader_epoch", NO_LEADER_EPOCH)
        values.commit_timestamps_ms[row] = value.commit_timestamp
    return values


def _read_plain(found: Cells, rows: Ints, layout: _Layout, values: Values) -> Ints:
    """Decode into `values` those of `rows` that are ordinary in this layout; return their indexes."""
    behind = layout.metadata_at + layout.length_bytes
    rows = rows[found.sizes[rows] >= behind + layout.tail_bytes]
    starts, sizes = found.starts[rows], found.sizes[rows]
    if layout.length_bytes == 1:
        metadata_bytes = found.gather(starts + layout.metadata_at, INT8) - 1
        fits: Bools = (metadata_bytes >= 0) & (metadata_bytes < _LONG_COMPACT - 1)
        fits &= behind + metadata_bytes + layout.tail_bytes <= sizes
        rows, starts, sizes, metadata_bytes = rows[fits], starts[fits], sizes[fits], metadata_bytes[fits]
        tags_at = starts + behind + metadata_bytes + 8
        fits = _has_plain_tags(found, tags_at, starts + sizes)
    else:
        metadata_bytes = found.gather(starts + layout.metadata_at, INT16)
        fits = (metadata_bytes >= 0) & (behind + metadata_bytes + layout.tail_bytes == sizes)
    rows, starts, metadata_bytes = rows[fits], starts[fits], metadata_bytes[fits]
    values.offsets[rows] = found.gather(starts + 2, INT64)
    if layout.has_epoch:
        values.leader_epochs[rows] = found.gather(starts + 10, INT32)
    values.commit_timestamps_ms[rows] = found.gather(starts + behind + metadata_bytes, INT64)
    return rows


def _has_plain_tags(found: Cells, tags_at: Ints, ends: Ints) -> Bools:
    """Whether the tagged fields from `tags_at` on are none, or only the topic id."""
    left = ends - tags_at
    is_plain: Bools = (left == 1) & (found.gather(tags_at, INT8) == 0)
    with_id = np.flatnonzero(left == _TOPIC_ID_BYTES)
    is_topic_id = np.ones(len(with_id), bool)
    for position, byte in enumerate(_TOPIC_ID_TAG):
        is_topic_id &= found.gather(tags_at[with_id] + position, INT8) == byte
    is_plain[with_id] = is_topic_id
    return is_plain


def read_value(value: bytes, schema: type[Any]) -> Any:
    """Decode one value by the codec. Raises DecodeError, also for a version newer than the schema knows."""
    if len(value) < VERSION_BYTES:
        raise DecodeError(f"{len(value)} bytes have no version")
    version = int.from_bytes(value[:VERSION_BYTES], "big", signed=True)
    known = spec(schema)
    if not known.min_version <= version <= known.max_version:
        raise DecodeError(f"{schema.__name__} of version {version}, known are up to {known.max_version}")
    return decode(schema, version, value, VERSION_BYTES)
