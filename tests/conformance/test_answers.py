"""No byte of an answer escapes the comparison: what the codec passes over is a difference."""

from __future__ import annotations

import pytest

from protocol.framing import response_frame
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from tests.conformance.answers import Answer, read_answer
from tests.conformance.comparison import Entry, Tally, differences, normalised, surplus_differences

HEARTBEAT = 12
PLAIN, FLEXIBLE = 3, 4
UNKNOWN_TAG = b"\x01\x07\x02ab"  # One tagged field: number 7, two bytes.


def frame_of(version: int, message: object = None) -> bytes:
    """The frame of an answer without its length prefix, by correlation id 7."""
    return b"".join(response_frame(7, message or HeartbeatResponse(error_code=27), version))[4:]


def read(frame: bytes, version: int) -> Answer:
    correlation_id, answer = read_answer(HEARTBEAT, version, frame)
    assert correlation_id == 7
    return answer


@pytest.mark.parametrize("version", range(5))
def test_an_answer_that_is_all_message_has_no_surplus(version: int) -> None:
    answer = read(frame_of(version), version)
    assert (answer.name, answer.surplus) == (f"Heartbeat v{version}", "")
    assert answer.body == frame_of(version)[4:]


@pytest.mark.parametrize("version", range(5))
def test_trailing_bytes_are_surplus(version: int) -> None:
    assert read(frame_of(version) + b"\x00", version).surplus == "1 bytes behind the message, 00"


def test_an_unknown_tagged_field_is_surplus_in_the_body_and_in_the_header() -> None:
    frame = frame_of(FLEXIBLE)
    assert (frame[-1], frame[4]) == (0, 0), "the counts of tagged fields, at the end and in the header"
    assert "+4 bytes" in read(frame[:-1] + UNKNOWN_TAG, FLEXIBLE).surplus
    assert "+4 bytes" in read(frame[:4] + UNKNOWN_TAG + frame[5:], FLEXIBLE).surplus


def test_another_way_to_write_a_count_is_surplus() -> None:
    """A varint of two bytes where one would do."""
    assert "+1 bytes" in read(frame_of(FLEXIBLE)[:-1] + b"\x80\x00", FLEXIBLE).surplus


def entries(*frames: bytes) -> list[Entry]:
    answers = [read(frame, FLEXIBLE) for frame in frames]
    return [Entry("beat", answer.message, body=answer.body) for answer in answers]


def compared(kafka: bytes, muster: bytes) -> tuple[list[str], Tally]:
    """The paths of the fields that differ, and how the answers were compared."""
    tally = Tally()
    theirs, ours = (normalised(entries(frame), "127.0.0.1:1") for frame in (kafka, muster))
    found = differences(theirs, ours, tally)
    return [path for difference in found for path, _, _ in difference.fields], tally


def test_messages_that_are_the_same_have_to_be_the_same_bytes() -> None:
    frame = frame_of(FLEXIBLE)
    assert compared(frame, frame) == ([], Tally(as_bytes=1))
    for other in (frame + b"\x00", frame[:-1] + UNKNOWN_TAG):
        assert compared(frame, other)[0] == ["(bytes)"]
        assert compared(other, frame)[0] == ["(bytes)"]


def test_what_is_masked_excuses_other_bytes() -> None:
    throttled = frame_of(FLEXIBLE, HeartbeatResponse(error_code=27, throttle_time_ms=5))
    assert compared(frame_of(FLEXIBLE), throttled) == ([], Tally(decoded=1))


def test_surplus_counts_even_where_something_is_masked() -> None:
    theirs = read(frame_of(FLEXIBLE), FLEXIBLE)
    throttled = frame_of(FLEXIBLE, HeartbeatResponse(error_code=27, throttle_time_ms=5))
    ours = read(throttled + b"\x00", FLEXIBLE)
    sides = [{each.surplus} - {""} for each in (theirs, ours)]
    (found,) = surplus_differences(*sides)
    assert found.fields == (("(bytes)", [], ["1 bytes behind the message, 00"]),)
    assert list(surplus_differences(sides[1], sides[1])) == []


def test_a_word_in_place_of_an_answer_has_no_bytes() -> None:
    (parked,) = normalised([Entry("join", "parked")], "127.0.0.1:1")
    (answered,) = normalised([Entry("join", JoinGroupResponse(), body=b"x")], "127.0.0.1:1")
    tally = Tally()
    (found,) = differences([parked], [answered], tally)
    assert found.fields[0][0] == "(all)"
    assert tally == Tally()
