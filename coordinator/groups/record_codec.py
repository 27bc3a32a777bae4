"""The bytes of the records of `__consumer_offsets`: key type and body, value version and body.

All kinds of groups have theirs in one log, so one place knows all schemas. What a record means is decided in
`Shard.replay`. Nothing here knows the log.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from coordinator.effects import CommitRun, CoordinatorRecord
from coordinator.groups.consumer.record_schemas import CONSUMER_GROUP_SCHEMAS
from coordinator.groups.record_schemas import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.codec.codec import decode, encode, spec
from protocol.errors import DecodeError
from protocol.records.run import Columns, RecordRun

_PREFIX: Final = Struct(">h")
_PARTITION: Final = Struct(">i")
_OFFSET_AND_EPOCH: Final = Struct(">qi")  # Offset and leader epoch.
_KEY_VERSION: Final = 0  # Key bodies have one version each; the int16 before them is the record type.
_NO_TIMESTAMP: Final = -1
GROUP_METADATA_VALUE_VERSION: Final = 3  # As Kafka 4.3 writes it; 4 is only read.
OFFSET_COMMIT_VALUE_VERSION: Final = 4
OFFSET_COMMIT_EXPIRING_VALUE_VERSION: Final = 1  # The only version with `expire_timestamp`.
CONSUMER_GROUP_VALUE_VERSION: Final = 0

_SCHEMAS: Final[dict[int, tuple[type, type]]] = {
    LEGACY_OFFSET_COMMIT: (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    GROUP_METADATA: (GroupMetadataKey, GroupMetadataValue),
    **CONSUMER_GROUP_SCHEMAS,
}
_TYPE_OF_KEY: Final[dict[type, int]] = {key: number for number, (key, _) in _SCHEMAS.items()}


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """The bytes of a record's key and value. Raises EncodeError for what the schema cannot hold."""
    key = _PREFIX.pack(_TYPE_OF_KEY[type(record.key)]) + encode(record.key, _KEY_VERSION)
    if record.value is None:
        return key, None
    version = _value_version(record.value)
    return key, _PREFIX.pack(version) + encode(record.value, version)


def encode_commit_run(run: CommitRun, wall_ms: int) -> RecordRun:
    """The bytes of a run, written at `wall_ms`. Raises EncodeError for what the schema cannot hold.

    The bytes that all records of the run share are taken from one encoded record: a key ends with the partition,
    and a value begins with version, offset and epoch.
    """
    value = OffsetCommitValue(
        offset=0, metadata="", commit_timestamp=run.commit_wall_ms, topic_id=run.topic_id
    )
    key, shared = encode_record(
        CoordinatorRecord(OffsetCommitKey(group=run.group_id, topic=run.topic, partition=0), value)
    )
    assert shared is not None
    keys = Columns(key[: -_PARTITION.size], "i", (run.partitions,))
    columns = (run.offsets, run.leader_epochs)
    values = Columns(shared[: _PREFIX.size], "qi", columns, shared[_PREFIX.size + _OFFSET_AND_EPOCH.size :])
    return RecordRun(keys, values, run.count, wall_ms)


def decode_record(
    key: bytes | memoryview | None, value: bytes | memoryview | None
) -> CoordinatorRecord | None:
    """Return one decoded record of the offsets log; None for a record type that Muster does not keep.

    Raises DecodeError for bytes that do not parse, and for a value version newer than the schema: of
    such a record nothing may be guessed, so the shard that meets it fails.
    """
    if key is None:
        raise DecodeError("a record of the offsets log has no key")
    schemas = _SCHEMAS.get(_read_prefix(key, "key type"))
    if schemas is None:
        return None
    key_schema, value_schema = schemas
    decoded_key: Any = decode(key_schema, _KEY_VERSION, key, _PREFIX.size)
    return CoordinatorRecord(decoded_key, None if value is None else decode_value(value_schema, value))


def replayed_record(
    key: bytes | memoryview | None, value: bytes | memoryview | None
) -> CoordinatorRecord | None:
    """`decode_record` for a replay, where a tombstone whose key does not parse is None: nothing is stored there.

    An owner writes such a one to have removed what another wrote by hand (`coordinator.shard.healing`).
    """
    try:
        return decode_record(key, value)
    except DecodeError:
        if key is None or value is not None:
            raise
        return None


def decode_value(schema: type, value: bytes | memoryview) -> Any:
    """Return a record's value, decoded as `schema`. Raises DecodeError, as `decode_record` does."""
    version = _read_prefix(value, "value version")
    known = spec(schema)
    if not known.min_version <= version <= known.max_version:
        raise DecodeError(f"{schema.__name__} of version {version}, known are up to {known.max_version}")
    return decode(schema, version, value, _PREFIX.size)


def _read_prefix(buffer: bytes | memoryview, name: str) -> int:
    if len(buffer) < _PREFIX.size:
        raise DecodeError(f"{len(buffer)} bytes cannot hold a {name}")
    number: int = _PREFIX.unpack_from(buffer)[0]
    return number


def _value_version(value: Any) -> int:
    if isinstance(value, OffsetCommitValue):
        expires = value.expire_timestamp != _NO_TIMESTAMP
        return OFFSET_COMMIT_EXPIRING_VALUE_VERSION if expires else OFFSET_COMMIT_VALUE_VERSION
    return (
        GROUP_METADATA_VALUE_VERSION
        if isinstance(value, GroupMetadataValue)
        else CONSUMER_GROUP_VALUE_VERSION
    )
