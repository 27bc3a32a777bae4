"""Packed arrays are what objects would be: the same elements, the same bytes, the same errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec.codec import decode, encode, spec
from protocol.codec.packed import PACKED_FROM, PackedArray, packing_of
from protocol.errors import DecodeError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSIONS = range(spec(OffsetCommitRequest).min_version, spec(OffsetCommitRequest).max_version + 1)
EPOCHS_SINCE = 6
BY_ID_SINCE = 10


def request(version: int, partitions: list[tuple[int, int, int, str | None]]) -> OffsetCommitRequest:
    made = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=epoch if version >= EPOCHS_SINCE else -1,
            committed_metadata=note,
        )
        for index, offset, epoch, note in partitions
    ]
    topic = OffsetCommitRequestTopic(name="t" if version < BY_ID_SINCE else "", partitions=made)
    return OffsetCommitRequest(group_id="g", topics=[topic])


def read(message: Any, version: int) -> Any:
    """The partitions of the first topic, as they are read from the message's bytes."""
    return decode(type(message), version, encode(message, version)).topics[0].partitions


partitions = st.tuples(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.one_of(st.just(""), st.just(""), st.none(), st.text(max_size=2)),
)


@pytest.mark.parametrize("version", VERSIONS)
@given(drawn=st.lists(partitions, min_size=PACKED_FROM, max_size=PACKED_FROM + 4))
def test_what_is_read_is_what_was_written(
    version: int, drawn: list[tuple[int, int, int, str | None]]
) -> None:
    message = request(version, drawn)
    found = read(message, version)
    assert list(found) == message.topics[0].partitions
    assert found == message.topics[0].partitions
    again = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name=message.topics[0].name, partitions=found)]
    )
    assert encode(again, version) == encode(message, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("note", ["", None, "x"])
def test_only_arrays_without_notes_are_packed(version: int, note: str | None) -> None:
    rows = [(index, index * 2, index * 3, note) for index in range(100)]
    found = read(request(version, rows), version)
    assert isinstance(found, PackedArray) == (note != "x")
    if isinstance(found, PackedArray):
        assert list(found.columns["partition_index"]) == list(range(100))
        assert list(found.columns["committed_offset"]) == list(range(0, 200, 2))
        assert found[7] == found[7:9][0]
        assert found[-1].committed_metadata == note
    one_note = [*rows[:50], (50, 1, 1, "here"), *rows[51:]]
    assert isinstance(read(request(version, one_note), version), list)


def test_short_arrays_are_lists() -> None:
    rows: list[tuple[int, int, int, str | None]] = [(index, 0, 0, "") for index in range(PACKED_FROM - 1)]
    assert isinstance(read(request(8, rows), 8), list)


def test_an_element_with_a_tagged_field_is_read_one_by_one() -> None:
    encoded = bytearray(encode(request(8, [(index, 7, -1, "") for index in range(PACKED_FROM)]), 8))
    last = encoded.rindex(b"\1\0", 0, len(encoded) - 2) + 1  # Its note is "", and it has no tags.
    encoded[last : last + 1] = b"\1\x05\2ab"  # One tag, number 5, two bytes.
    found = decode(OffsetCommitRequest, 8, bytes(encoded)).topics[0].partitions
    assert isinstance(found, list)
    assert [each.committed_offset for each in found] == [7] * PACKED_FROM


@pytest.mark.parametrize("version", VERSIONS)
def test_an_array_that_is_cut_short_is_an_error(version: int) -> None:
    encoded = encode(request(version, [(index, 7, -1, "") for index in range(PACKED_FROM)]), version)
    for cut in range(len(encoded)):
        with pytest.raises(DecodeError):
            decode(OffsetCommitRequest, version, encoded[:cut])


@pytest.mark.parametrize("version", VERSIONS)
def test_packed_answers_are_the_bytes_of_objects(version: int) -> None:
    flexible = spec(OffsetCommitResponse).is_flexible(version)
    packed = packing_of(OffsetCommitResponsePartition, version, flexible).pack(
        partition_index=range(300), error_code=[0] * 300
    )
    objects = [OffsetCommitResponsePartition(partition_index=index) for index in range(300)]
    assert packed == objects
    for other in (version, 8 if version < 8 else 7):  # In another version than it was packed for, too.
        arrays: tuple[Any, ...] = (packed, objects)  # Messages take either where they declare a sequence.
        answers = [
            encode(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(partitions=each)]), other)
            for each in arrays
        ]
        assert answers[0] == answers[1]
