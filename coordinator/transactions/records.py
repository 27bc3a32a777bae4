"""The bytes of the records of `__transaction_state`: key type and body, value version and body.

Values are written in version 1, that of transactions v2; version 0 is only read.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from coordinator.effects import CoordinatorRecord
from coordinator.transactions.record_schemas import TRANSACTION_LOG, TransactionLogKey, TransactionLogValue
from protocol.codec.codec import decode, encode, spec
from protocol.errors import DecodeError

_PREFIX: Final = Struct(">h")
_KEY_VERSION: Final = 0
VALUE_VERSION: Final = 1


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """The bytes of a record's key and value. Raises EncodeError for what the schema cannot hold."""
    key = _PREFIX.pack(TRANSACTION_LOG) + encode(record.key, _KEY_VERSION)
    if record.value is None:
        return key, None
    return key, _PREFIX.pack(VALUE_VERSION) + encode(record.value, VALUE_VERSION)


def decode_record(
    key: bytes | memoryview | None, value: bytes | memoryview | None
) -> CoordinatorRecord | None:
    """Return one decoded record; None for an unknown record type, which is skipped.

    Raises DecodeError for bytes that do not parse, and for a value version newer than the schema: of such a
    record nothing may be guessed, so the shard that meets it fails.
    """
    if key is None:
        raise DecodeError("a record of the transaction log has no key")
    if _read_prefix(key, "key type") != TRANSACTION_LOG:
        return None
    decoded_key = decode(TransactionLogKey, _KEY_VERSION, key, _PREFIX.size)
    return CoordinatorRecord(decoded_key, None if value is None else _decode_value(value))


def _decode_value(value: bytes | memoryview) -> TransactionLogValue:
    version = _read_prefix(value, "value version")
    newest = spec(TransactionLogValue).max_version
    if not 0 <= version <= newest:
        raise DecodeError(f"TransactionLogValue of version {version}, known are up to {newest}")
    return decode(TransactionLogValue, version, value, _PREFIX.size)


def _read_prefix(buffer: bytes | memoryview, name: str) -> int:
    if len(buffer) < _PREFIX.size:
        raise DecodeError(f"{len(buffer)} bytes cannot hold a {name}")
    number: int = _PREFIX.unpack_from(buffer)[0]
    return number
