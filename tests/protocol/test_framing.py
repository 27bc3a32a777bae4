"""Frames and headers as they are written, and headers that no honest peer writes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kafka.protocol.api_header import RequestHeader as TheirRequestHeader
from kafka.protocol.consumer.group import HeartbeatRequest as TheirHeartbeatRequest

from protocol.codec.codec import encode
from protocol.codec.primitives import MAX_TAGGED_FIELDS, encode_uvarint
from protocol.errors import DecodeError, ErrorCode
from protocol.framing import (
    decode_response,
    encode_request,
    response_frame,
    skip_tagged_fields,
)
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class TestRequests:
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

    @pytest.mark.parametrize(
        ("client_id", "encoded"), [("", b"\0\0"), ("é", b"\0\x02\xc3\xa9"), (None, b"\xff\xff")]
    )
    def test_a_client_id_may_be_empty_or_null(self, client_id: str | None, encoded: bytes) -> None:
        head = b"\x00\x0c\x00\x03" + b"\x00\x00\x00\x01" + encoded
        assert encode_request(HEARTBEAT, 3, 1, client_id) == framed(head + encode(HEARTBEAT, 3))

    def test_unknown_tags_of_a_header_are_skipped(self) -> None:
        tags = b"\x02\x05\x01x\x80\x01\x00"
        assert skip_tagged_fields(b"head" + tags + b"body", 4) == 4 + len(tags)

    def test_so_many_tags_that_skipping_takes_long_are_refused(self) -> None:
        """Each costs more than its two bytes: those of one frame before a login would take a tenth of a second."""
        tags = b"\x05\x00" * MAX_TAGGED_FIELDS
        most = encode_uvarint(MAX_TAGGED_FIELDS) + tags
        assert skip_tagged_fields(most, 0) == len(most)
        with pytest.raises(DecodeError, match="1001 tagged fields; 1000 are the most"):
            skip_tagged_fields(encode_uvarint(MAX_TAGGED_FIELDS + 1) + tags + b"\x05\x00", 0)

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
