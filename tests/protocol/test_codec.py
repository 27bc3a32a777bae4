"""The codec by itself: bytes known by hand, what it refuses, and every message there and back."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec.codec import (
    data,
    decode,
    decode_prefix,
    decoder,
    encode,
    encode_into,
    encoder,
    since,
    spec,
    struct,
)
from protocol.codec.primitives import MAX_TAGGED_FIELDS, Int32, encode_uvarint
from protocol.errors import DecodeError, EncodeError, ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.protocol.message_strategies import FEW, PAIRS, messages
from tests.protocol.sample_messages import Everything, Inner, Tagged

HEARTBEAT = HeartbeatRequest(group_id="grp", generation_id=7, member_id="me")
HEARTBEAT_V0 = b"\x00\x03grp" + b"\x00\x00\x00\x07" + b"\x00\x02me"
HEARTBEAT_V3 = HEARTBEAT_V0 + b"\xff\xff"
HEARTBEAT_V4 = b"\x04grp" + b"\x00\x00\x00\x07" + b"\x03me" + b"\x00" + b"\x00"

MAX_BYTES_PER_INPUT_BYTE = (
    100  # An empty string with its place in a list and an object; not a multiple of a count.
)


class TestBytes:
    """What a message looks like on the wire, by hand."""

    @pytest.mark.parametrize(
        ("version", "encoded"), [(0, HEARTBEAT_V0), (2, HEARTBEAT_V0), (3, HEARTBEAT_V3), (4, HEARTBEAT_V4)]
    )
    def test_a_heartbeat(self, version: int, encoded: bytes) -> None:
        assert encode(HEARTBEAT, version) == encoded
        assert decode(HeartbeatRequest, version, encoded) == HEARTBEAT

    def test_every_primitive(self) -> None:
        message = Everything(
            int8=-1,
            int16=-2,
            int32=-3,
            int64=-4,
            uint16=65535,
            float64=0.5,
            flag=True,
            uuid=bytes(range(16)),
            text="é",
            blob=b"\x01\x02",
            numbers=[1, 2],
            ids=[bytes(16)],
            words=["a", ""],
            inner=Inner(number=9),
        )
        fixed = (
            b"\xff" + b"\xff\xfe" + b"\xff\xff\xff\xfd" + b"\xff" * 7 + b"\xfc"
            b"\xff\xff" + b"\x3f\xe0" + bytes(6) + b"\x01" + bytes(range(16))
        )
        old = (
            fixed
            + b"\x00\x02\xc3\xa9"
            + b"\x00\x00\x00\x02\x01\x02"
            + b"\x00\x00\x00\x02\x00\x01\x00\x02"
            + b"\x00\x00\x00\x01"
            + bytes(16)
            + b"\x00\x00\x00\x02\x00\x01a\x00\x00"
            + b"\x00\x09"
        )
        compact = (
            fixed
            + b"\x03\xc3\xa9"
            + b"\x03\x01\x02"
            + b"\x03\x00\x01\x00\x02"
            + b"\x02"
            + bytes(16)
            + b"\x03\x02a\x01"
            + b"\x00\x09\x00"
            + b"\xff"  # The nullable struct: none.
            + b"\x00"
        )
        for version, encoded in ((0, old), (1, compact)):
            assert encode(message, version) == encoded
            assert decode(Everything, version, encoded) == message

    def test_a_nullable_struct_has_a_mark_before_it(self) -> None:
        message = Tagged(before=1, maybe=Inner(number=2))
        assert encode(message, 1) == b"\x00\x00\x00\x01" + b"\x01\x00\x02\x00" + b"\x00"
        assert decode(Tagged, 1, encode(message, 1)) == message

    def test_tags_are_written_in_their_order_and_only_if_they_differ_from_the_default(self) -> None:
        message = Tagged(before=1, last=5, first="x", middle=Inner(number=3))
        tags = b"\x03" + b"\x00\x02\x02x" + b"\x01\x03\x00\x03\x00" + b"\x07\x04\x00\x00\x00\x05"
        assert encode(message, 1) == b"\x00\x00\x00\x01" + b"\xff" + tags
        assert decode(Tagged, 1, encode(message, 1)) == message
        assert encode(Tagged(before=1), 1) == b"\x00\x00\x00\x01" + b"\xff" + b"\x00"

    def test_unknown_tags_are_skipped_beside_known_ones_and_without(self) -> None:
        unknown = b"\x63\x03abc"
        mixed = b"\x00\x00\x00\x01" + b"\xff" + b"\x02" + b"\x00\x02\x02x" + unknown
        assert decode(Tagged, 1, mixed) == Tagged(before=1, first="x")
        assert decode_prefix(HeartbeatResponse, 4, bytes(6) + b"\x01" + unknown) == (HeartbeatResponse(), 12)

    def test_a_tag_section_of_many_unknown_tags_is_skipped(self) -> None:
        tags = b"\xc8\x01" + b"\x63\x00" * 200
        assert decode_prefix(HeartbeatResponse, 4, bytes(6) + tags) == (HeartbeatResponse(), 6 + len(tags))

    def test_any_byte_but_zero_is_true(self) -> None:
        encoded = bytearray(encode(MetadataRequest(topics=None, allow_auto_topic_creation=True), 4))
        encoded[-1] = 0x7F
        assert decode(MetadataRequest, 4, encoded).allow_auto_topic_creation is True

    def test_strings_change_the_size_of_their_length_at_127_bytes(self) -> None:
        for length, prefix in ((126, b"\x7f"), (127, b"\x80\x01"), (0x7FFF, b"\x80\x80\x02")):
            message = HeartbeatRequest(group_id="x" * length, generation_id=1, member_id="")
            assert encode(message, 4).startswith(prefix + b"x")
            assert decode(HeartbeatRequest, 4, encode(message, 4)) == message

    def test_error_codes_can_be_given_by_name(self) -> None:
        encoded = encode(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 0)
        assert encoded == b"\x00\x1b"
        assert decode(HeartbeatResponse, 0, encoded).error_code == ErrorCode.REBALANCE_IN_PROGRESS


class TestVersions:
    """One class, many versions."""

    def test_an_absent_field_is_read_as_its_default(self) -> None:
        assert decode(HeartbeatRequest, 0, HEARTBEAT_V0).group_instance_id is None
        request = decode(JoinGroupRequest, 0, b"\x00\x01g" + bytes(4) + b"\x00\x00" * 2 + bytes(4))
        assert request.rebalance_timeout_ms == -1

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_an_absent_field_that_is_set_is_refused_by_name(self, version: int) -> None:
        static = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="i")
        with pytest.raises(EncodeError, match=rf"HeartbeatRequest v{version}.*\.group_instance_id"):
            encode(static, version)

    def test_an_absent_field_of_a_nested_struct_is_refused_too(self) -> None:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        with pytest.raises(EncodeError, match=r"OffsetFetchRequest v8: OffsetFetchRequest\.topics"):
            encode(OffsetFetchRequest(topics=topics, groups=[]), 8)

    def test_an_ignorable_field_is_left_out_in_silence(self) -> None:
        assert encode(HeartbeatResponse(throttle_time_ms=9), 0) == b"\x00\x00"

    @pytest.mark.parametrize("version", [-1, 5])
    def test_outside_its_range_a_message_is_refused_and_the_range_is_named(self, version: int) -> None:
        with pytest.raises(EncodeError, match=rf"HeartbeatRequest has versions 0 to 4, not {version}"):
            encode(HEARTBEAT, version)
        with pytest.raises(DecodeError, match=rf"HeartbeatRequest has versions 0 to 4, not {version}"):
            decode(HeartbeatRequest, version, HEARTBEAT_V4)

    def test_null_is_refused_before_the_version_that_allows_it(self) -> None:
        with pytest.raises(EncodeError, match=r"MetadataRequest\.topics: None"):
            encode(MetadataRequest(topics=None), 0)
        with pytest.raises(DecodeError, match="null"):
            decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
        assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff") == MetadataRequest(topics=None)

    def test_what_a_class_is_can_be_asked(self) -> None:
        heartbeat = spec(HeartbeatRequest)
        assert (heartbeat.api_key, heartbeat.kind) == (12, "request")
        assert (heartbeat.min_version, heartbeat.max_version, heartbeat.flexible_since) == (0, 4, 4)
        assert not spec(OffsetDeleteRequest).is_flexible(0)
        with pytest.raises(TypeError, match="int"):
            spec(int)

    def test_each_version_is_compiled_once(self) -> None:
        assert decoder(HeartbeatRequest, 3) is decoder(HeartbeatRequest, 3)
        assert encoder(HeartbeatRequest, 3) is encoder(HeartbeatRequest, 3)

    def test_a_message_without_fields_takes_no_bytes(self) -> None:
        assert encode(ApiVersionsRequest(), 0) == b""
        assert decode_prefix(ApiVersionsRequest, 0, b"") == (ApiVersionsRequest(), 0)


class TestEncodingRefuses:
    """A message that cannot be written is our own fault, and the error says which field it is."""

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"group_id": None}, r"HeartbeatRequest\.group_id: None"),
            ({"group_id": 5}, r"HeartbeatRequest\.group_id: 5 is not a string"),
            ({"group_id": "x" * 0x8000}, r"HeartbeatRequest\.group_id: 32768 bytes"),
            ({"group_id": "\ud800"}, r"HeartbeatRequest\.group_id: .*surrogates"),
            ({"generation_id": 1 << 31}, r"HeartbeatRequest\.generation_id: 2147483648 does not fit"),
            ({"generation_id": None}, r"HeartbeatRequest\.generation_id: None"),
            ({"group_instance_id": b"x"}, r"HeartbeatRequest\.group_instance_id: .* is not a string"),
        ],
    )
    @pytest.mark.parametrize("version", [3, 4])
    def test_a_value_that_does_not_fit(self, version: int, change: dict[str, Any], field: str) -> None:
        values: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m", **change}
        with pytest.raises(EncodeError, match=rf"HeartbeatRequest v{version}: {field}"):
            encode(HeartbeatRequest(**values), version)

    def test_a_value_deep_inside(self) -> None:
        bad = OffsetCommitRequestPartition(partition_index=1 << 40, committed_offset=0)
        request = OffsetCommitRequest(
            group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[bad])]
        )
        where = r"OffsetCommitRequest\.topics: OffsetCommitRequestTopic\.partitions: "
        with pytest.raises(EncodeError, match=where + r"OffsetCommitRequestPartition\.partition_index"):
            encode(request, 8)

    @pytest.mark.parametrize("topic_id", [b"", bytes(15), bytes(17)])
    def test_a_uuid_of_another_size(self, topic_id: bytes) -> None:
        with pytest.raises(EncodeError, match="no uuid"):
            encode(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name="t")]), 12)

    def test_a_struct_of_another_class(self) -> None:
        with pytest.raises(EncodeError, match="is no MetadataRequestTopic"):
            encode(MetadataRequest(topics=["t"]), 9)  # type: ignore[list-item]

    def test_a_class_that_is_no_message(self) -> None:
        with pytest.raises(TypeError, match="MetadataRequestTopic"):
            encode(MetadataRequestTopic(name="t"), 9)


class TestTextThatIsNotUtf8:
    """Text is read as Kafka reads it: what is not UTF-8 becomes U+FFFD (the conformance suite compares)."""

    @pytest.mark.parametrize("version", range(5))
    def test_it_is_replaced(self, version: int) -> None:
        request = HeartbeatRequest(group_id="a?b", generation_id=7, member_id="m")
        encoded = encode(request, version).replace(b"a?b", b"a\xffb")
        for buffer in (encoded, memoryview(encoded)):
            assert decode(HeartbeatRequest, version, buffer) == replace(request, group_id="a\ufffdb")

    @pytest.mark.parametrize("version", range(5))
    def test_it_is_refused_if_what_it_becomes_could_not_be_written(self, version: int) -> None:
        fits, damaged = 0x7FFF // 3, "?" * 20_000
        encoded = encode(HeartbeatRequest(group_id=damaged, generation_id=7, member_id="m"), version)
        with pytest.raises(DecodeError, match="20000 bytes that are not UTF-8"):
            decode(HeartbeatRequest, version, encoded.replace(b"?", b"\xff"))
        encoded = encode(HeartbeatRequest(group_id="?" * fits, generation_id=7, member_id="m"), version)
        read = decode(HeartbeatRequest, version, encoded.replace(b"?", b"\xff"))
        assert read.group_id == "\ufffd" * fits
        assert encode(read, version)


class TestDecodingRefuses:
    """Whatever the bytes, the only thing that comes out is DecodeError."""

    @pytest.mark.parametrize(
        ("version", "encoded", "what"),
        [
            (0, b"\xff\xff" + bytes(6), "group_id is null"),
            (4, b"\x00" + bytes(6), "group_id is null"),
            (4, b"\x80\x00" + bytes(6), "group_id is null"),
            (0, b"\x00\x09grp", "group_id runs past the end"),
            (4, b"\x0agrp", "group_id runs past the end"),
            (4, b"\x04gr", "group_id runs past the end"),
            (0, b"", "ends early"),
            (4, b"", "ends early"),
            (4, b"\x81\x80\x02" + b"x" * 0x8000 + bytes(7), "a string of 32768 bytes"),
            (4, b"\xff\xff\xff\xff\xff\x0f" + bytes(9), "varint"),
            (4, b"\xff\xff\xff\xff\x1f" + bytes(9), "varint"),
            (4, b"\x01" + bytes(4) + b"\x01\x00" + b"\x01\x05\x09", "tagged field"),
            (4, b"\x01" + bytes(4) + b"\x01\x00" + b"\x01\x05", "ends early"),
        ],
    )
    def test_a_bad_heartbeat(self, version: int, encoded: bytes, what: str) -> None:
        with pytest.raises(DecodeError, match=what):
            decode(HeartbeatRequest, version, encoded)

    def test_more_tags_than_anybody_has_where_some_are_known(self) -> None:
        head = b"\x00\x00\x00\x01" + b"\xff"
        most = head + encode_uvarint(MAX_TAGGED_FIELDS) + b"\x7f\x00" * MAX_TAGGED_FIELDS
        assert decode(Tagged, 1, most) == decode(Tagged, 1, head + b"\x00")
        with pytest.raises(DecodeError, match="too many tagged fields"):
            decode(
                Tagged,
                1,
                head + encode_uvarint(MAX_TAGGED_FIELDS + 1) + b"\x7f\x00" * (MAX_TAGGED_FIELDS + 1),
            )

    def test_a_known_tag_of_another_size_than_its_value(self) -> None:
        head = b"\x00\x00\x00\x01" + b"\xff" + b"\x01"
        for tag in (b"\x00\x03\x02xy", b"\x00\x01\x02x", b"\x07\x05\x00\x00\x00\x05\x00"):
            with pytest.raises(DecodeError, match="does not fill its tagged field"):
                decode(Tagged, 1, head + tag)

    @pytest.mark.parametrize(
        ("version", "count"),
        [(0, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x0f"), (1, b"\x00\x00\x00\x05")],
    )
    def test_a_count_of_more_elements_than_there_can_be(self, version: int, count: bytes) -> None:
        with pytest.raises(DecodeError, match="topics counts more than there is"):
            decode(MetadataRequest, version, count + bytes(9))

    @pytest.mark.parametrize(
        ("cls", "version", "encoded"),
        [
            (MetadataRequest, 1, b"\x00\x00\xc3\x50" + bytes(100_000)),
            (
                OffsetCommitRequest,
                8,
                b"\x01" + bytes(4) + b"\x01\x00" + b"\xff\x7f" + b"\x01\x01\x00" * 16382,
            ),
            (OffsetFetchRequest, 8, b"\xff\xff\x07" + b"\x01\xff\xff\x07" + b"\x01" * 200_000),
            (OffsetFetchRequest, 1, b"\x00\x00" + b"\x00\x00\x80\x00" + b"\x00\x00\x00\x01\x00\x00" * 50_000),
            (JoinGroupRequest, 6, b"\x01" + bytes(8) + b"\x01\x00\x01" + b"\xff\xff\x0f" + b"\x01" * 300_000),
        ],
        ids=["topics", "commit-topics", "fetch-groups", "fetch-topics", "protocols"],
    )
    def test_an_array_bomb_allocates_in_proportion_to_its_own_size(
        self, cls: type, version: int, encoded: bytes
    ) -> None:
        compiled = decoder(cls, version)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            try:
                message = compiled(encoded, 0)
            except DecodeError:
                message = None
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        del message
        assert peak < MAX_BYTES_PER_INPUT_BYTE * len(encoded)

    def test_a_long_promise_costs_nothing(self) -> None:
        compiled = decoder(OffsetFetchRequest, 8)
        tracemalloc.start()
        try:
            with pytest.raises(DecodeError):
                compiled(b"\xff\xff\xff\xff\x0f" + bytes(5), 0)
            assert tracemalloc.get_traced_memory()[1] < 10_000
        finally:
            tracemalloc.stop()


class TestBuffers:
    """Bytes, bytearrays and views are all read; record sets are never copied."""

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_any_buffer_at_any_place(self, kind: Any) -> None:
        buffer = kind(b"????" + HEARTBEAT_V4 + b"what follows")
        assert decode_prefix(HeartbeatRequest, 4, buffer, 4) == (HEARTBEAT, 4 + len(HEARTBEAT_V4))

    @pytest.mark.parametrize("version", [3, 9])
    def test_record_sets_are_views_of_the_frame_and_go_out_as_they_are(self, version: int) -> None:
        records = bytearray(b"a batch")
        partition = PartitionProduceData(index=0, records=records)
        request = ProduceRequest(
            acks=1, timeout_ms=5, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
        )
        chunks: list[Any] = []
        encode_into(request, version, chunks)
        assert any(chunk is records for chunk in chunks)

        frame = bytearray(b"".join(chunks))
        read = decode(ProduceRequest, version, frame)
        view = read.topic_data[0].partition_data[0].records
        assert isinstance(view, memoryview)
        assert bytes(view) == b"a batch"
        frame[frame.index(b"batch")] = ord("B")
        assert bytes(view) == b"a Batch"

    def test_strings_and_bytes_are_copies(self) -> None:
        frame = bytearray(HEARTBEAT_V4)
        message = decode(HeartbeatRequest, 4, frame)
        frame[:] = bytes(len(frame))
        assert message == HEARTBEAT

    def test_a_message_is_its_fields(self) -> None:
        assert HeartbeatRequest(group_id="grp", generation_id=7, member_id="me") == HEARTBEAT
        assert repr(HEARTBEAT).startswith("HeartbeatRequest(group_id='grp', generation_id=7")
        with pytest.raises(AttributeError):
            HEARTBEAT.groupid = "grp"  # type: ignore[attr-defined]

    def test_defaults_are_not_shared(self) -> None:
        first, second = decode(ApiVersionsResponse, 0, bytes(6)), decode(ApiVersionsResponse, 0, bytes(6))
        first.supported_features.append(SupportedFeatureKey(name="f", min_version=1, max_version=1))
        assert second.supported_features == []


@pytest.mark.parametrize(("cls", "version"), PAIRS)
@FEW
@given(data=st.data())
def test_every_message_comes_back_and_no_part_of_it_is_taken_for_the_whole(
    cls: type, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    encoded = encode(message, version)
    assert decode_prefix(cls, version, b"xx" + encoded + b"yy", 2) == (message, 2 + len(encoded))
    for end in {*range(min(len(encoded), 64)), *range(0, len(encoded), 37)}:
        with pytest.raises(DecodeError):
            decode(cls, version, encoded[:end])


@pytest.mark.parametrize(("cls", "version"), PAIRS)
@FEW
@given(data=st.data())
def test_garbage_raises_nothing_but_decode_error(cls: type, version: int, data: st.DataObject) -> None:
    """Bytes of no message, and bytes of a message with one of them changed."""
    damaged = bytearray(encode(data.draw(messages(cls, version)), version))
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for garbage in (data.draw(st.binary(max_size=100)), damaged):
        try:
            message: object
            message, end = decode_prefix(cls, version, garbage)
        except DecodeError:
            continue
        assert isinstance(message, cls)
        assert 0 <= end <= len(garbage)


@struct
class TaggedInner:
    number: Int32


@data(versions="0", flexible="0+")
class TaggedStruct:
    inner: TaggedInner | None = since(0, tag=0, default=None)


@pytest.mark.parametrize(
    ("encoded", "inner"),
    [
        (b"\1\0\1\0", None),  # As Kafka 4.3.1 writes ConsumerGroupMemberMetadata.
        (b"\1\0\6\1\0\0\0\5\0", TaggedInner(number=5)),
        (b"\0", None),
    ],
)
def test_a_null_struct_is_marked_by_0_in_a_tagged_field(encoded: bytes, inner: TaggedInner | None) -> None:
    """Anywhere else the mark is -1: Kafka counts the mark of a tagged struct as it counts lengths."""
    assert decode(TaggedStruct, 0, encoded) == TaggedStruct(inner=inner)
    assert decode(TaggedStruct, 0, encode(TaggedStruct(inner=inner), 0)) == TaggedStruct(inner=inner)


@struct
class InnerWithDefault:
    number: Int32 = 0


@data(versions="0", flexible="0+")
class TaggedStructByDefault:
    inner: InnerWithDefault | None = since(0, tag=0, default_factory=InnerWithDefault)


@pytest.mark.parametrize(
    ("encoded", "inner"),
    [
        (b"\1\0\1\0", None),
        (b"\1\0\6\1\0\0\0\5\0", InnerWithDefault(number=5)),
        (b"\0", InnerWithDefault()),
    ],
)
def test_a_null_struct_is_written_where_null_is_not_the_default(
    encoded: bytes, inner: InnerWithDefault | None
) -> None:
    message = TaggedStructByDefault(inner=inner)
    assert encode(message, 0) == encoded
    assert decode(TaggedStructByDefault, 0, encoded) == message
