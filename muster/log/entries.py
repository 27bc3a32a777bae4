"""The content of a log as plain values: records of the offsets topic decoded, batches of other topics.

Records of groups that Muster does not serve (share and streams groups) are decoded here alone. A record of unknown
type or version is shown as bytes. Damage does not end the reading: it is an entry of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from typing import Any, Final, TypeAlias

from coordinator.effects import CoordinatorRecord
from coordinator.groups.consumer.record_schemas import ConsumerGroupMemberMetadataValue
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import RECORD_TYPES, GroupMetadataValue
from muster.log.other_records import decode_other
from muster.log.places import LogSource, PartitionDirectory
from muster.log.progress import Advance
from muster.log.walk import walk
from protocol.codec.primitives import ZERO_UUID
from protocol.consumer import PROTOCOL_TYPE, decode_assignment, decode_subscription
from protocol.errors import DecodeError
from protocol.records.records import Batch, CorruptBatch, Record, iter_records
from storage.log.batch_walk import Located
from storage.log.damage_scan import Damage
from storage.log.partition_files import encode_uuid

Entry: TypeAlias = dict[str, Any]

KINDS: Final = ("record", "batch", "damage")
UNKNOWN_TYPE: Final = "unknown type {}"


def entries(
    source: LogSource, place: PartitionDirectory, *, decoded: bool, advance: Advance
) -> Iterator[Entry]:
    """All entries of one partition in order: records with `decoded`, else batches. Raises StorageError.

    What is in the journal alone has the name of the journal's file.
    """
    for path, found in walk(source, place):
        where = {"partition": str(place), "file": path.name}
        if isinstance(found, Damage):
            yield _damage(found, where)
        elif decoded and not found.batch.is_control:
            yield from _records(found, where)
        else:
            yield _batch(found, where)
        advance(found.end - found.position)


def _damage(damage: Damage, where: Entry) -> Entry:
    return {
        "kind": "damage",
        **where,
        "byte": damage.position,
        "end_byte": damage.end,
        "offset": damage.first_offset,
        "last_offset": damage.last_offset,
        "reason": damage.reason,
    }


def _batch(found: Located, where: Entry) -> Entry:
    batch = found.batch
    return {
        "kind": "batch",
        **where,
        "byte": found.position,
        "size_bytes": batch.size_bytes,
        "offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "codec": _codec(batch),
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
    }


def _codec(batch: Batch) -> str:
    try:
        return batch.codec.name.lower()
    except CorruptBatch as error:
        return str(error)


def _records(found: Located, where: Entry) -> Iterator[Entry]:
    try:
        for record in iter_records(found.data, found.batch):
            yield {"kind": "record", **where, "byte": found.position, **_record(record)}
    except CorruptBatch as error:
        batch = found.batch
        damage = Damage(found.position, found.end, batch.base_offset, batch.last_offset, str(error))
        yield _damage(damage, where)


def _record(record: Record) -> Entry:
    head = {"offset": record.offset, "timestamp_ms": record.timestamp_ms}
    try:
        typed = decode_record(record.key, record.value)
        if typed is None:
            assert record.key is not None
            return head | _other_record(record.key, record.value)
    except DecodeError as error:
        raw = {"key": _hex(record.key), "value": _hex(record.value)}
        return head | {"type": "cannot be decoded", "group": None, **raw, "error": str(error)}
    return head | _known_record(record.key, typed)


def record_type(key: bytes | None) -> int:
    return int.from_bytes((key or b"")[:2], "big", signed=True)


def group_of(key: Any) -> str:
    """The id of the group that a decoded key of the offsets topic names; Kafka has two names for the field."""
    return str(key.group_id if hasattr(key, "group_id") else key.group)


def _known_record(key: bytes | None, typed: CoordinatorRecord) -> Entry:
    value = None if typed.value is None else plain(typed.value)
    if isinstance(typed.value, GroupMetadataValue) and typed.value.protocol_type == PROTOCOL_TYPE:
        assert value is not None
        for member, shown in zip(typed.value.members, value["members"], strict=True):
            shown["subscription"] = _decoded_or_hex(decode_subscription, member.subscription)
            shown["assignment"] = _decoded_or_hex(decode_assignment, member.assignment)
    if isinstance(typed.value, ConsumerGroupMemberMetadataValue) and typed.value.classic_member_metadata:
        assert value is not None
        offered = typed.value.classic_member_metadata.supported_protocols
        shown_of = value["classic_member_metadata"]["supported_protocols"]
        for protocol, shown in zip(offered, shown_of, strict=True):
            shown["metadata"] = _decoded_or_hex(decode_subscription, protocol.metadata)
    named = {"group" if name == "group_id" else name: part for name, part in plain(typed.key).items()}
    return {
        "type": RECORD_TYPES[record_type(key)],
        "group": group_of(typed.key),
        "key": named,
        "value": value,
    }


def _decoded_or_hex(decode: Any, data: bytes) -> Any:
    """A member's subscription or assignment, decoded; hexadecimal digits if that fails, None if it is empty."""
    try:
        return plain(decode(data)) if data else None
    except DecodeError:
        return _hex(data)


def _other_record(key: bytes, value: bytes | None) -> Entry:
    """The fields of a record of a kind of group that Muster does not serve."""
    number = record_type(key)
    texts = key_texts(key)
    shown = None if value is None else decode_other(number, value)
    named = dict(zip(("group", "member_id"), texts, strict=False))
    return {
        "type": RECORD_TYPES.get(number, UNKNOWN_TYPE.format(number)),
        "group": texts[0] if texts else None,
        "key": named if texts else _hex(key),
        "value": _hex(value) if shown is None else plain(shown),
    }


def key_texts(key: bytes) -> list[str]:
    """The strings in a key, behind its type; empty if the key has any other field, as a partition."""
    texts, position = [], 2
    while position + 2 <= len(key):
        end = position + 2 + int.from_bytes(key[position : position + 2], "big")
        if end > len(key):
            return []
        texts.append(key[position + 2 : end].decode(errors="replace"))
        position = end
    return texts if position == len(key) else []


def plain(value: Any) -> Any:
    """A message or value as JSON can hold it: dicts, topic ids as Kafka writes them, other bytes as hex digits."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain_values(asdict(value))
    return _plain_values(value)


def _plain_values(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain_field(name, part) for name, part in value.items()}
        case list() | tuple():
            return [_plain_values(part) for part in value]
        case bytes() | bytearray() | memoryview():
            return _hex(value)
    return value


def _plain_field(name: str, value: Any) -> Any:
    if name == "topic_id":
        return None if bytes(value) == ZERO_UUID else encode_uuid(bytes(value))
    return _plain_values(value)


def _hex(data: bytes | bytearray | memoryview | None) -> str | None:
    return None if data is None else bytes(data).hex()


def as_line(entry: Entry) -> str:
    """An entry of `muster log inspect` as a line for people: partition and offset, then content or damage."""
    place = f"{entry['partition']} {entry['offset']}"
    match entry["kind"]:
        case "record":
            key = " ".join(f"{name}={value}" for name, value in _pairs(entry["key"]))
            value = entry["value"]
            said = "tombstone" if value is None else " ".join(f"{n}={v}" for n, v in _pairs(value))
            return f"{place} {entry['type']} {key} | {said}"
        case "batch":
            flags = "".join(f" {flag[3:]}" for flag in ("is_transactional", "is_control") if entry[flag])
            return (
                f"{place}-{entry['last_offset']} {entry['records']} records, {entry['size_bytes']} bytes at "
                f"{entry['file']}:{entry['byte']}, {entry['codec']}, newest {entry['max_timestamp_ms']}{flags}"
            )
    return f"{place} DAMAGED {entry['file']} bytes {entry['byte']}-{entry['end_byte'] - 1}: {entry['reason']}"


def _pairs(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else [("bytes", value)]
