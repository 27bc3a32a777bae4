"""The markers that end a transaction: control batches of one record (KIP-98).

The key says which of the two it is, the value which coordinator wrote it. The batch carries the producer whose
transaction ends; it is transactional, has no sequence, and no client sees its record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from protocol.errors import DecodeError
from protocol.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchProducer
from protocol.records.records import Record, encode_batch

VERSION: Final = 0
KEY: Final = Struct(">hh")  # Version, type.
VALUE: Final = Struct(">hi")  # Version, coordinator epoch.


class ControlType(IntEnum):
    """The control records that end transactions; raft's and other control records have numbers from 2 on."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of the open transaction of one producer, on whichever partition it is written to."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0  # From 2 on the epoch was bumped for this very end (KIP-1228).

    @property
    def control_type(self) -> ControlType:
        return ControlType.COMMIT if self.is_commit else ControlType.ABORT


def encode_marker(marker: Marker, *, base_offset: int, wall_ms: int) -> bytearray:
    """Return the marker's whole batch, ready for a log."""
    key = KEY.pack(VERSION, marker.control_type)
    value = VALUE.pack(VERSION, marker.coordinator_epoch)
    return encode_batch(
        [Record(key, value, timestamp_ms=wall_ms)],
        base_offset=base_offset,
        leader_epoch=0,
        producer=BatchProducer(marker.producer_id, marker.producer_epoch),
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )


def control_number(key: bytes | memoryview | None) -> int:
    """Return the type number of the control record with `key`, also of types that ControlType does not have.

    Raises DecodeError.
    """
    if key is None or len(key) < KEY.size:
        raise DecodeError("a control record's key is two numbers of 16 bits")
    _, number = KEY.unpack_from(key)
    return int(number)


def control_type(key: bytes | memoryview | None) -> ControlType | None:
    """Return whether the control record with `key` is a commit or an abort; None for other control records.

    Raises DecodeError if `key` is not a control record's.
    """
    number = control_number(key)
    return ControlType(number) if number in (ControlType.ABORT, ControlType.COMMIT) else None


def coordinator_epoch(value: bytes | memoryview | None) -> int:
    """Return the epoch of the coordinator that wrote the marker with `value`. Raises DecodeError."""
    if value is None or len(value) < VALUE.size:
        raise DecodeError("a marker's value is a version and an epoch")
    _, epoch = VALUE.unpack_from(value)
    return int(epoch)
