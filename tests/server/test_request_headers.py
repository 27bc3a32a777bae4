"""The header of a request, as a connection reads it: by plain calls, with a fake transport."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.codec.codec import encode
from protocol.framing import encode_request
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.server.test_connection import FakeServer, FakeTransport, connected_to

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
API_AND_ID = b"\x00\x0c\x00\x04" + b"\x00\x00\x00\x4d"  # Heartbeat, version 4, correlation id 77.


def received(frame: bytes, behind: bytes = b"") -> tuple[FakeServer, FakeTransport]:
    """What a connection made of one frame, whose size is put before it, and what came with it."""
    server, transport = FakeServer(), FakeTransport()
    connected_to(server, transport).data_received(pack(">i", len(frame)) + frame + behind)
    return server, transport


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("client_id", ["me", "", "é"])
def test_a_header_is_read_as_clients_write_it(version: int, client_id: str) -> None:
    server, _ = received(encode_request(HEARTBEAT, version, 77, client_id)[4:])
    (pending,) = server.started
    assert (pending.api.name, pending.api_version, pending.correlation_id) == ("Heartbeat", version, 77)
    assert pending.client_id == client_id


def test_no_client_id_is_an_empty_one() -> None:
    server, _ = received(encode_request(HEARTBEAT, 4, 77, None)[4:])
    assert [pending.client_id for pending in server.started] == [""]


def test_what_is_not_utf_8_in_a_client_id_is_replaced() -> None:
    server, _ = received(API_AND_ID + b"\x00\x02\xffx" + b"\x00" + encode(HEARTBEAT, 4))
    assert [pending.client_id for pending in server.started] == ["\ufffdx"]


def test_unknown_tags_of_a_header_are_skipped() -> None:
    server, _ = received(API_AND_ID + b"\xff\xff" + b"\x02\x05\x01x\x80\x01\x00" + encode(HEARTBEAT, 4))
    assert server.started_ids() == [77]


def test_every_cut_through_a_header_is_refused() -> None:
    head = API_AND_ID + b"\x00\x02me" + b"\x01\x05\x01x"
    assert received(head + encode(HEARTBEAT, 4))[0].started_ids() == [77]
    for end in range(len(head)):
        server, transport = received(head[:end])
        assert (server.started, transport.is_closed) == ([], True), end


@pytest.mark.parametrize(("version", "tags"), [(99, b""), (99, b"\1\5"), (5, b""), (32767, b"")])
def test_an_unknown_version_of_api_versions_has_a_whole_header_too(version: int, tags: bytes) -> None:
    """Its header is of the flexible form, as in Kafka."""
    _, transport = received(pack(">hhih", 18, version, 77, -1) + tags)
    assert transport.is_closed
    for answered in (pack(">hhihx", 18, version, 77, -1), pack(">hhih", 18, -1, 77, -1)):
        assert not received(answered)[1].is_closed


def test_a_client_id_cannot_reach_into_the_next_request() -> None:
    """Of an API whose old versions have no body, so that nothing else is missing."""
    whole = encode_request(ListGroupsRequest(), 0, 77, "me")[4:]
    assert received(whole)[0].started_ids() == [77]
    server, transport = received(whole[:-1], behind=whole)
    assert (server.started, transport.is_closed) == ([], True)


@given(st.binary(max_size=40), st.sampled_from([0, 3, 4]))
def test_garbage_is_a_request_or_closes_its_connection(garbage: bytes, version: int) -> None:
    server, transport = received(pack(">hh", 12, version) + garbage)
    assert len(server.started) == (not transport.is_closed)
