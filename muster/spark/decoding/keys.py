"""Decodes keys of `__consumer_offsets`: the kind of record, and for an offset its group, topic and partition.

An ordinary key of an offset is an int16 type 1, two strings behind their int16 lengths, and an int32 partition.
Those are decoded all at once; every other key is given to the codec, which reports what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator.groups.consumer.record_schemas import CONSUMER_GROUP_SCHEMAS
from coordinator.groups.record_schemas import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    RECORD_TYPES,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
)
from muster.spark.decoding.windows import INT16, INT32, Bools, Cells, Ints, cells
from protocol.codec.codec import decode
from protocol.errors import DecodeError

TYPE_BYTES: Final = 2
_LEAST_BYTES: Final = 10  # The smallest key of an offset: type, two empty strings, partition.
_GROUP_SCHEMAS: Final[dict[int, tuple[type[Any], type[Any]]]] = {
    GROUP_METADATA: (GroupMetadataKey, GroupMetadataValue),
    **CONSUMER_GROUP_SCHEMAS,
}
_SCHEMAS: Final[dict[int, type[Any]]] = {
    LEGACY_OFFSET_COMMIT: LegacyOffsetCommitKey,
    OFFSET_COMMIT: OffsetCommitKey,
    **{number: key for number, (key, _) in _GROUP_SCHEMAS.items()},
}
OTHER: Final = 0  # A record that no job uses: its type is known, and it is not an offset's.
OFFSET: Final = 1
LEGACY_OFFSET: Final = 2
BAD: Final = 3
GROUP: Final = 4  # A record of a classic or a consumer group. Not used either, but its value is checked.


@dataclass(frozen=True, slots=True)
class Keys:
    """The kind of each key; for an offset its group, topic and partition as well, for a BAD key the reason."""

    kinds: np.ndarray[Any, np.dtype[np.int8]]
    groups: pa.Array
    topics: pa.Array
    partitions: Ints
    reasons: dict[int, str]


def read_keys(column: pa.Array) -> Keys:
    """Decode the keys in a binary array, which must have no nulls."""
    found = cells(column)
    plain, topic_at, group_sizes, topic_sizes = _ordinary_keys(found)
    kinds = np.full(len(column), OTHER, np.int8)
    kinds[plain] = OFFSET
    partitions = np.zeros(len(column), np.int64)
    chosen = found.of(plain)
    groups = _as_text(chosen.texts(chosen.starts + 4, group_sizes))
    topics = _as_text(chosen.texts(topic_at, topic_sizes))
    partitions[plain] = chosen.gather(chosen.ends - 4, INT32)
    keys = Keys(kinds, groups, topics, partitions, {})
    others = np.ones(len(column), bool)
    others[plain] = False
    return _with_other_keys(keys, plain, np.flatnonzero(others), column)


def _ordinary_keys(found: Cells) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows of the ordinary keys of offsets, the positions of their topics, and the sizes of groups and topics."""
    rows = np.flatnonzero(found.sizes >= _LEAST_BYTES)
    some = found.of(rows)
    is_offset = some.gather(some.starts, INT16) == OFFSET_COMMIT
    rows, some = rows[is_offset], some.of(np.flatnonzero(is_offset))
    group_sizes = some.gather(some.starts + 2, INT16)
    fits: Bools = (group_sizes >= 0) & (some.sizes >= _LEAST_BYTES + group_sizes)
    rows, some, group_sizes = rows[fits], some.of(np.flatnonzero(fits)), group_sizes[fits]
    topic_at = some.starts + 4 + group_sizes
    topic_sizes = some.gather(topic_at, INT16)
    exact: Bools = some.sizes == _LEAST_BYTES + group_sizes + topic_sizes
    exact &= topic_sizes >= 0
    return rows[exact], topic_at[exact] + 2, group_sizes[exact], topic_sizes[exact]


def _as_text(found: pa.Array) -> pa.Array:
    """The binary values as strings; bytes that are not UTF-8 become replacement characters, as in Kafka."""
    try:
        return pc.cast(found, pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.decode("utf-8", "replace") for each in found.to_pylist()], pa.string())


def _with_other_keys(keys: Keys, plain: Ints, others: Ints, column: pa.Array) -> Keys:
    """`keys` with the rows `others` added, which are decoded by the codec, in the order of `column`."""
    groups: list[str | None] = []
    topics: list[str | None] = []
    for row in others.tolist():
        kind, key, reason = read_key(column[row].as_py())
        keys.kinds[row] = kind
        groups.append(key.group if key else None)
        topics.append(key.topic if key else None)
        keys.partitions[row] = key.partition if key else 0
        if reason is not None:
            keys.reasons[row] = reason
    if not groups:
        return keys
    places = np.empty(len(column), np.int64)
    places[np.concatenate([plain, others])] = np.arange(len(column))
    return Keys(
        keys.kinds,
        pa.concat_arrays([keys.groups, pa.array(groups, pa.string())]).take(places),
        pa.concat_arrays([keys.topics, pa.array(topics, pa.string())]).take(places),
        keys.partitions,
        keys.reasons,
    )


def read_key(key: bytes) -> tuple[int, Any, str | None]:
    """Decode one key by the codec: its kind, the key itself if it is an offset's, and the reason if it is BAD."""
    if len(key) < TYPE_BYTES:
        return BAD, None, f"a key of {len(key)} bytes has no record type"
    number = _record_type(key)
    if number not in RECORD_TYPES:
        return BAD, None, f"unknown record type {number}"
    schema = _SCHEMAS.get(number)
    if schema is None:
        return OTHER, None, None
    try:
        decoded = decode(schema, 0, key, TYPE_BYTES)
    except DecodeError as error:
        return BAD, None, f"the key does not decode: {error}"
    kind = {OFFSET_COMMIT: OFFSET, LEGACY_OFFSET_COMMIT: LEGACY_OFFSET}.get(number, GROUP)
    return kind, decoded if kind != GROUP else None, None


def group_value_schema(key: bytes) -> type[Any]:
    """The schema of the value of a record of kind GROUP."""
    return _GROUP_SCHEMAS[_record_type(key)][1]


def _record_type(key: bytes) -> int:
    return int.from_bytes(key[:TYPE_BYTES], "big", signed=True)
