"""What of a request is read before it may pass on: its header, and whether a Produce has an answer."""

from __future__ import annotations

import pytest

from coordinator.gateway.allowed import ALLOWED, PRODUCE
from coordinator.gateway.heads import acks_of, head_at
from protocol.errors import DecodeError
from protocol.framing import encode_request
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.produce import ProduceRequest

VERSIONS = range(3, ALLOWED[PRODUCE][1] + 1)


def produce(version: int, acks: int, transactional_id: str | None = None) -> bytes:
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=77, topic_data=[])
    return encode_request(request, version, 5, "a client")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "", "a" * 300])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_acks_are_read_in_every_version(version: int, transactional_id: str | None, acks: int) -> None:
    frame = produce(version, acks, transactional_id)
    assert acks_of(frame, head_at(frame, 4)) == acks


@pytest.mark.parametrize("version", VERSIONS)
def test_acks_that_have_not_come_yet_are_not_guessed(version: int) -> None:
    whole = produce(version, 1, "an id")
    read = []
    for length in range(4, len(whole)):
        try:
            read.append(acks_of(whole[:length], head_at(whole[:length], 4)))
        except DecodeError:
            assert not read, "what was read once is read with more bytes, too"
    assert set(read) == {1}


def test_a_head_says_whose_request_it_is_and_where_its_message_begins() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = encode_request(request, 3, 99, "me")
    head = head_at(frame, 4)
    assert (head.api_key, head.version, head.correlation_id, head.client_id) == (12, 3, 99, b"me")
    assert frame[head.end - 2 : head.end] == b"me"
    assert head_at(encode_request(request, 3, 99, None), 4).client_id == b""


@pytest.mark.parametrize("frame", [b"", b"\x00\x00", b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x05abc"])
def test_a_head_that_ends_early_is_an_error(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        head_at(frame, 0)
