"""Markers and their bytes, and what is no marker (KIP-98)."""

from __future__ import annotations

import pytest

from protocol.errors import DecodeError
from protocol.records.batch import parse_header
from protocol.records.control import ControlType, Marker, control_type, coordinator_epoch, encode_marker
from protocol.records.records import iter_records

MARKER = Marker(producer_id=4_000, producer_epoch=3, coordinator_epoch=7, is_commit=True)


def test_a_marker_is_a_transactional_control_batch_without_a_sequence() -> None:
    batch = parse_header(encode_marker(MARKER, base_offset=12, wall_ms=1_000))
    assert (batch.base_offset, batch.last_offset, batch.is_control, batch.is_transactional) == (
        12,
        12,
        True,
        True,
    )
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4_000, 3, -1)


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_was_written_is_read_again(is_commit: bool) -> None:
    marker = Marker(1, 0, 5, is_commit)
    data = encode_marker(marker, base_offset=0, wall_ms=1_000)
    (record,) = iter_records(data, parse_header(data))
    assert control_type(record.key) is marker.control_type
    assert (record.key, record.value) == (bytes([0, 0, 0, is_commit]), b"\0\0\0\0\0\5")
    assert coordinator_epoch(record.value) == 5


def test_markers_of_other_kinds_end_no_transaction() -> None:
    assert control_type(b"\0\0\0\2") is None
    assert control_type(b"\0\0\0\0") is ControlType.ABORT


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_key_of_the_wrong_size_is_refused(key: bytes | None) -> None:
    with pytest.raises(DecodeError):
        control_type(key)
    with pytest.raises(DecodeError):
        coordinator_epoch(key)
