"""The decoder of many records at once is held equal to the codec, record by record, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from coordinator.groups.record_codec import decode_record, encode_record
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from muster.spark.decoding import reading
from muster.spark.decoding.offsets import SCHEMA, decode_offsets, minutes_of
from protocol.codec.codec import encode
from protocol.errors import DecodeError
from tests.log.test_consumer_groups import of_a_group

FIRST_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000
VERSIONS = range(5)


class Found(NamedTuple):
    """What a record says of an offset; of a tombstone only whose it is."""

    group_id: str
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    commit_timestamp_ms: int | None


def key_bytes(group_id: str, topic: str, partition: int) -> bytes:
    return b"\0\1" + encode(OffsetCommitKey(group=group_id, topic=topic, partition=partition), 0)


def value_bytes(version: int, **fields: Any) -> bytes:
    fields = {"leader_epoch": -1, "metadata": "", "commit_timestamp": 1, **fields}
    return version.to_bytes(2, "big") + encode(OffsetCommitValue(**fields), version)


def by_codec(key: bytes | None, value: bytes | None) -> Found | str | None:
    """What the coordinator itself reads in a record; "bad" if that fails, None if it is not about an offset."""
    try:
        record = decode_record(key, value)
    except DecodeError:
        return "bad"
    if record is None:
        number = int.from_bytes((key or b"")[:2], "big", signed=True)
        return None if number in range(3, 24) and number not in (9, 18) else "bad"
    if not isinstance(record.key, (OffsetCommitKey, LegacyOffsetCommitKey)):
        return None
    whose = record.key.group, record.key.topic, record.key.partition
    if record.value is None:
        return Found(*whose, None, None, None)
    epoch = getattr(record.value, "leader_epoch", -1)
    return Found(*whose, record.value.offset, epoch, record.value.commit_timestamp)


def at_once(
    records: list[tuple[bytes | None, bytes | None]], binary: pa.DataType
) -> list[Found | str | None]:
    """The same by the decoder, of all records together."""
    decoded = decode_offsets(
        pa.array([k for k, _ in records], binary), pa.array([v for _, v in records], binary)
    )
    found: list[Found | str | None] = [None] * len(records)
    for row in decoded.reasons:
        found[row] = "bad"
    groups, topics = decoded.keys.groups.to_pylist(), decoded.keys.topics.to_pylist()
    for position, (row, key) in enumerate(zip(decoded.rows.tolist(), decoded.key_of.tolist(), strict=True)):
        said: tuple[Any, Any, Any] = (None, None, None)
        if not decoded.is_tombstone[position]:
            said = (
                int(decoded.offsets[position]),
                int(decoded.leader_epochs[position]),
                int(decoded.commit_timestamps_ms[position]),
            )
        found[row] = Found(groups[key], topics[key], int(decoded.keys.partitions[key]), *said)
    return found


texts = st.text(max_size=12)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)


@st.composite
def values(draw: st.DrawFn) -> bytes:
    version = draw(st.sampled_from(VERSIONS))
    metadata = draw(texts | st.just("m" * 126) | st.just("m" * 127) | st.just("é" * 200))
    fields: dict[str, Any] = {"offset": draw(longs), "metadata": metadata, "commit_timestamp": draw(longs)}
    if version >= 3:
        fields["leader_epoch"] = draw(ints)
    if version == 1:
        fields["expire_timestamp"] = draw(longs)
    if version == 4 and draw(st.booleans()):
        fields["topic_id"] = draw(st.binary(min_size=16, max_size=16))
    return value_bytes(version, **fields)


@st.composite
def mutated(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """The bytes as they are, or cut, lengthened, or with one of them changed."""
    found = draw(whole)
    how = draw(st.integers(0, 5))
    if how == 1:
        return found[: draw(st.integers(0, len(found)))]
    if how == 2:
        return found + draw(st.binary(min_size=1, max_size=20))
    if how == 3 and found:
        at = draw(st.integers(0, len(found) - 1))
        return found[:at] + draw(st.binary(min_size=1, max_size=1)) + found[at + 1 :]
    return found


keys = st.builds(key_bytes, texts, texts, ints)
legacy_keys = st.builds(
    lambda g, t, p: b"\0\0" + encode(LegacyOffsetCommitKey(group=g, topic=t, partition=p), 0),
    texts,
    texts,
    ints,
)
legacy_values = st.builds(
    lambda o, m, c: b"\0\0" + encode(LegacyOffsetCommitValue(offset=o, metadata=m, commit_timestamp=c), 0),
    longs, texts, longs,
)  # fmt: skip
group_keys = st.builds(lambda g: b"\0\2" + encode(GroupMetadataKey(group=g), 0), texts)
consumer_keys = st.builds(
    lambda g, m: b"\0\x08" + encode(ConsumerGroupCurrentMemberAssignmentKey(group_id=g, member_id=m), 0),
    texts,
    texts,
)
consumer_values = st.builds(
    lambda e, s: (
        b"\0\0"
        + encode(
            ConsumerGroupCurrentMemberAssignmentValue(member_epoch=e, previous_member_epoch=e, state=s), 0
        )
    ),
    ints,
    st.integers(-128, 127),
)
other_keys = st.builds(
    lambda n, rest: n.to_bytes(2, "big", signed=True) + rest, st.integers(-3, 40), st.binary()
)
records = st.tuples(
    st.none()
    | mutated(keys)
    | mutated(legacy_keys)
    | mutated(group_keys)
    | mutated(consumer_keys)
    | other_keys
    | st.binary(max_size=8),
    st.none()
    | mutated(values())
    | mutated(legacy_values)
    | mutated(consumer_values)
    | st.binary(max_size=40),
)


@settings(deadline=None)  # The first of all compiles the codec.
@given(st.lists(records, max_size=12), st.sampled_from([pa.binary(), pa.large_binary()]))
@example([(key_bytes("g", "t", 7), value_bytes(4, offset=5, metadata="é" * 63))], pa.binary())
@example([(b"\0\1\x7f\xff", b""), (b"\0\1\0\1g\x7f\xff" + bytes(8), b"\0\4")], pa.binary())
@example([(b"\0\1\0\2\xff\xfe\0\1t\0\0\0\1", value_bytes(3, offset=1, leader_epoch=2))], pa.binary())
def test_many_at_once_are_decoded_as_the_codec_decodes_each(
    records: list[tuple[bytes | None, bytes | None]], binary: pa.DataType
) -> None:
    assert at_once(records, binary) == [by_codec(*each) for each in records]


@settings(deadline=None)
@given(st.lists(st.tuples(keys, values()), min_size=1, max_size=8), st.integers(0, 200), st.integers(0, 20))
def test_a_slice_of_a_column_is_decoded_without_its_neighbours(
    records: list[tuple[bytes | None, bytes | None]], first: int, count: int
) -> None:
    """Arrow hands out columns that begin and end anywhere in their buffers."""
    first %= len(records)
    key = pa.array([k for k, _ in records], pa.binary()).slice(first, count)
    value = pa.array([v for _, v in records], pa.binary()).slice(first, count)
    decoded = decode_offsets(key, value)
    expected = [by_codec(*each) for each in records[first : first + count]]
    assert [int(offset) for offset in decoded.offsets] == [e.offset for e in expected if isinstance(e, Found)]
    assert decoded.reasons == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_cut_anywhere_is_a_dead_letter_or_what_the_codec_reads(version: int) -> None:
    """The bytes behind each cell belong to the next: reading them would go unnoticed but for this."""
    epoch = 9 if version >= 3 else -1
    whole = value_bytes(version, offset=77, metadata="abc", leader_epoch=epoch, commit_timestamp=5)
    cut: list[tuple[bytes | None, bytes | None]]
    cut = [(key_bytes("g", "t", size), whole[:size]) for size in range(len(whole) + 1)]
    found = at_once(cut, pa.binary())
    assert found == [by_codec(*each) for each in cut]
    assert found[-1] == Found("g", "t", len(whole), 77, epoch, 5)
    assert set(found[:-1]) == {"bad"}


def batch(*records: tuple[bytes | None, bytes | None, int]) -> pa.RecordBatch:
    """Records at seconds of their own after FIRST_US, at offsets from 100 on."""
    columns = [
        pa.array([key for key, _, _ in records], pa.binary()),
        pa.array([value for _, value, _ in records], pa.binary()),
        pa.array([3] * len(records), pa.int32()),
        pa.array(range(100, 100 + len(records)), pa.int64()),
        pa.array([FIRST_US + seconds * 1_000_000 for _, _, seconds in records], pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, names=reading.SCHEMA.names)


def summarized(found: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for each in minutes_of(found, "__consumer_offsets", FIRST_US + 3600 * 1_000_000):
        assert each.schema == SCHEMA
        for row in each.to_pylist():
            about = row.pop("about") or {}
            yield {name: value for name, value in (row | about).items() if value is not None}


def test_a_batch_becomes_a_row_per_partition_and_minute_with_the_newest_commit() -> None:
    a, b = key_bytes("g", "t", 0), key_bytes("g", "t", 1)
    first_minute = FIRST_US // MINUTE_US * MINUTE_US
    assert (FIRST_US - first_minute) // 1_000_000 == 20
    found = batch(
        (a, value_bytes(4, offset=1), 0), (b, value_bytes(4, offset=9), 1), (a, value_bytes(4, offset=2), 2),
        (b, None, 3), (a, value_bytes(4, offset=3), 60), (b"\0\2\0\1g", None, 90),
    )  # fmt: skip
    rows = list(summarized(found))
    figures = [
        (row["minute"].timestamp() * 1e6 - first_minute, row["partition"], row["commits"],
         row.get("committed_offset"), row["newest_offset"])
        for row in rows if "group_id" in row
    ]  # fmt: skip
    assert sorted(figures) == [(0, 0, 2, 2, 102), (0, 1, 1, None, 103), (MINUTE_US, 0, 1, 3, 104)]
    (clock,) = [row for row in rows if "group_id" not in row]
    assert (clock["source_partition"], clock["records"]) == (3, 6)
    assert clock["seen_at"].timestamp() * 1e6 == FIRST_US + 90 * 1_000_000


def test_what_cannot_be_used_is_a_dead_letter_with_its_bytes_and_the_reason() -> None:
    good = value_bytes(4, offset=1)
    found = batch(
        (b"\0\x63rest", b"x", 0), (key_bytes("g", "t", 0), b"\0\7", 0), (None, b"x", 0),
        (key_bytes("g", "t", 0), good, 7200), (b"\0\1\x7f\xff", good, 0), (b"\0\x0aother", b"x", 0),
    )  # fmt: skip
    letters = [row for row in summarized(found) if "reason" in row]
    assert [(row["source_offset"], row.get("key"), row["value"]) for row in letters] == [
        (100, b"\0\x63rest", b"x"), (101, key_bytes("g", "t", 0), b"\0\7"), (102, None, b"x"),
        (103, key_bytes("g", "t", 0), good), (104, b"\0\1\x7f\xff", good),
    ]  # fmt: skip
    reasons = [row["reason"] for row in letters]
    assert reasons[0] == "unknown record type 99"
    assert reasons[1] == "the value does not decode: OffsetCommitValue of version 7, known are up to 4"
    assert reasons[2:4] == ["a record without a key", "its time is in the future"]
    assert reasons[4].startswith("the key does not decode: OffsetCommitKey v0")


def test_records_that_come_out_of_order_are_put_in_order() -> None:
    """Whatever a plan of Spark's does to them: the newest in the log wins."""
    a = key_bytes("g", "t", 0)
    found = batch((a, value_bytes(4, offset=1), 0), (a, value_bytes(4, offset=2), 1))
    (figures,) = [row for row in summarized(found.take(pa.array([1, 0]))) if "group_id" in row]
    assert (figures["committed_offset"], figures["newest_offset"]) == (2, 101)


def test_records_of_a_real_consumer_group_are_neither_figures_nor_dead_letters() -> None:
    found = [encode_record(each) for each in of_a_group()]
    assert len({key[:2] for key, _ in found}) == 6, "one of each type"
    tombstones = [(key, None) for key, _ in found]
    assert at_once([*found, *tombstones], pa.binary()) == [None] * 2 * len(found)


@pytest.mark.parametrize("broken", [b"\0\1", b"\0\0\xff", b""], ids=["a later version", "cut", "empty"])
def test_a_record_of_a_consumer_group_that_does_not_decode_is_a_dead_letter(broken: bytes) -> None:
    """The daemon does not serve a log with such a record."""
    for key in {encode_record(each)[0] for each in of_a_group()}:
        assert at_once([(key, broken)], pa.binary()) == ["bad"] == [by_codec(key, broken)]
