"""Frames and headers: cut at any place, joined at any place, refused where no honest peer would be."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_header import RequestHeader as TheirRequestHeader
from kafka.protocol.consumer.group import HeartbeatRequest as TheirHeartbeatRequest

from protocol.codec.codec import decode, encode
from protocol.errors import DecodeError, ErrorCode, FrameError
from protocol.framing import (
    FrameSplitter,
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    peek_api,
    response_frame,
    skip_tagged_fields,
)
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

MAX_BYTES = 1000
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class TestRequests:
    @pytest.mark.parametrize("client_id", ["me", "", "é", None])
    @pytest.mark.parametrize("version", [0, 3, 4])
    def test_a_request_comes_back_with_its_header(self, version: int, client_id: str | None) -> None:
        frame = encode_request(HEARTBEAT, version, 77, client_id)[4:]
        assert peek_api(frame) == (12, version)
        header, start = decode_request_header(frame, flexible=version >= 4)
        assert header == RequestHeader(12, version, 77, client_id)
        assert decode(HeartbeatRequest, version, frame, start) == HEARTBEAT

    def test_the_client_id_keeps_its_long_length_in_the_flexible_header(self) -> None:
        head = b"\x00\x0c\x00\x04" + b"\x00\x00\x00\x01" + b"\x00\x02me"
        assert encode_request(HEARTBEAT, 4, 1, "me") == framed(head + b"\x00" + encode(HEARTBEAT, 4))
        assert encode_request(HEARTBEAT, 3, 1, "me")[4:16] == head.replace(b"\x0c\x00\x04", b"\x0c\x00\x03")

    @pytest.mark.parametrize("version", range(5))
    def test_kafka_python_writes_the_same_frame(self, version: int) -> None:
        theirs = TheirHeartbeatRequest(version=version, group_id="g", generation_id=1, member_id="m")
        theirs.with_header(correlation_id=9, client_id="me")
        assert theirs.encode(header=True, framed=True) == encode_request(HEARTBEAT, version, 9, "me")
        assert theirs.header_class is TheirRequestHeader

    def test_unknown_tags_of_a_header_are_skipped(self) -> None:
        frame = (
            b"\x00\x0c\x00\x04" + b"\x00\x00\x00\x01" + b"\xff\xff" + b"\x02\x05\x01x\x80\x01\x00" + b"body"
        )
        header, start = decode_request_header(frame, flexible=True)
        assert header.client_id is None
        assert frame[start:] == b"body"

    @pytest.mark.parametrize("flexible", [False, True])
    def test_every_cut_through_a_header_is_refused(self, flexible: bool) -> None:
        head = (
            b"\x00\x0c\x00\x04"
            + b"\x00\x00\x00\x01"
            + b"\x00\x02me"
            + (b"\x01\x05\x01x" if flexible else b"")
        )
        assert decode_request_header(head, flexible)[1] == len(head)
        for end in range(len(head)):
            with pytest.raises(DecodeError):
                decode_request_header(head[:end], flexible)

    def test_what_is_not_utf_8_in_a_client_id_is_replaced(self) -> None:
        frame = b"\x00\x0c\x00\x04\x00\x00\x00\x01\x00\x02\xffx"
        header, _ = decode_request_header(frame, flexible=False)
        assert header.client_id == "\ufffdx"

    def test_a_frame_too_short_for_a_header_has_no_api(self) -> None:
        for size in range(10):
            with pytest.raises(DecodeError, match=f"{size} bytes"):
                peek_api(bytes(size))

    @given(st.binary(max_size=40), st.booleans())
    def test_garbage_raises_nothing_but_decode_error(self, frame: bytes, flexible: bool) -> None:
        try:
            _, start = decode_request_header(frame, flexible)
        except DecodeError:
            return
        assert 10 <= start <= len(frame)

    def test_tagged_fields_that_end_early_are_refused(self) -> None:
        for tags in (b"", b"\x01", b"\x01\x00", b"\x01\x00\x05ab", b"\x80"):
            with pytest.raises(DecodeError):
                skip_tagged_fields(tags, 0)


class TestResponses:
    @pytest.mark.parametrize(("version", "tags"), [(0, b""), (3, b""), (4, b"\x00")])
    def test_the_header_is_flexible_where_the_response_is(self, version: int, tags: bytes) -> None:
        response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        frame = b"".join(response_frame(77, response, version))
        assert frame == framed(struct.pack(">i", 77) + tags + encode(response, version))
        assert decode_response(HeartbeatResponse, version, frame[4:]) == (77, response)

    @pytest.mark.parametrize("version", [0, 3, 4])
    def test_the_header_before_api_versions_never_is(self, version: int) -> None:
        frame = b"".join(response_frame(77, ApiVersionsResponse(), version))
        assert frame == framed(struct.pack(">i", 77) + encode(ApiVersionsResponse(), version))
        assert decode_response(ApiVersionsResponse, version, frame[4:]) == (77, ApiVersionsResponse())

    def test_record_sets_are_not_copied_and_are_counted(self) -> None:
        records = memoryview(bytes(5000))
        partition = PartitionData(partition_index=0, high_watermark=1, records=records)
        response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
        chunks: list[Any] = response_frame(1, response, 12)
        assert any(chunk is records for chunk in chunks)
        frame = b"".join(chunks)
        assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
        assert decode_response(FetchResponse, 12, frame[4:]) == (1, response)

    def test_a_response_that_ends_in_its_header_is_refused(self) -> None:
        for size in range(5):
            with pytest.raises(DecodeError):
                decode_response(HeartbeatResponse, 4, bytes(size))


class TestFrameSplitter:
    @given(st.lists(st.binary(max_size=30), max_size=6), st.data())
    def test_frames_come_out_as_they_went_in_wherever_the_stream_is_cut(
        self, bodies: list[bytes], data: st.DataObject
    ) -> None:
        stream = b"".join(map(framed, bodies))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
        kind = data.draw(st.sampled_from([bytes, bytearray, memoryview]))
        splitter = FrameSplitter(MAX_BYTES)
        frames = []
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            frames += splitter.feed(kind(stream[start:end]))
        assert frames == bodies
        assert all(type(frame) is bytes for frame in frames)
        assert splitter.partial_bytes == 0

    def test_a_stream_fed_byte_by_byte(self) -> None:
        splitter = FrameSplitter(MAX_BYTES)
        stream = framed(b"one") + framed(b"") + framed(b"three")
        frames = [frame for byte in stream for frame in splitter.feed(bytes([byte]))]
        assert frames == [b"one", b"", b"three"]

    def test_no_more_is_kept_than_has_arrived_of_one_frame(self) -> None:
        splitter = FrameSplitter(MAX_BYTES)
        assert splitter.feed(framed(b"whole") + struct.pack(">i", MAX_BYTES) + b"half") == [b"whole"]
        assert splitter.partial_bytes == 8
        assert splitter.feed(bytes(MAX_BYTES - 4) + b"\x00\x00") == [b"half" + bytes(MAX_BYTES - 4)]
        assert splitter.partial_bytes == 2

    def test_a_frame_may_be_as_large_as_the_limit_and_no_larger(self) -> None:
        assert FrameSplitter(MAX_BYTES).feed(framed(bytes(MAX_BYTES))) == [bytes(MAX_BYTES)]
        with pytest.raises(FrameError, match=f"{MAX_BYTES + 1} bytes; {MAX_BYTES} is the most"):
            FrameSplitter(MAX_BYTES).feed(framed(bytes(MAX_BYTES + 1)))

    @pytest.mark.parametrize("length", [-1, -(1 << 31), MAX_BYTES + 1, 0x47455420])  # The last one is "GET ".
    @pytest.mark.parametrize("pieces", [1, 2, 4])
    def test_a_length_that_cannot_be_is_refused_as_soon_as_it_is_known(
        self, length: int, pieces: int
    ) -> None:
        splitter = FrameSplitter(MAX_BYTES)
        prefix = struct.pack(">i", length)
        step = 4 // pieces
        for start in range(0, 4 - step, step):
            assert splitter.feed(prefix[start : start + step]) == []
        with pytest.raises(FrameError, match=str(length)):
            splitter.feed(prefix[4 - step :])

    def test_the_frames_before_a_bad_length_are_not_lost(self) -> None:
        with pytest.raises(FrameError) as refused:
            FrameSplitter(MAX_BYTES).feed(framed(b"good") + framed(b"too") + b"\xff\xff\xff\xff")
        assert refused.value.frames == [b"good", b"too"]
