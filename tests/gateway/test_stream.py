"""Frames out of received bytes, however these are cut: passed on as they come, or kept until they are whole."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.gateway.stream import Stream, Verdict
from protocol.codec.primitives import Buffer
from protocol.errors import DecodeError

MAX_FRAME_BYTES = 1_000
PASSED, KEPT = b"p", b"k"


class Recorder:
    """A stream whose frames say by their first byte what is done with them."""

    def __init__(self) -> None:
        self.passed = b""
        self.whole: list[bytes] = []
        self.order: list[str] = []
        self.is_full = False
        self.stream = Stream(self._judge, self._pass_on, self._whole, self._ended, MAX_FRAME_BYTES)

    def _judge(self, data: Buffer, start: int, stop: int) -> Verdict:
        if self.is_full:
            return Verdict.WAIT
        if start == len(data):
            return Verdict.MORE
        return Verdict.PASS_ON if data[start : start + 1] == PASSED else Verdict.KEEP

    def _pass_on(self, data: Buffer) -> None:
        self.passed += bytes(data)

    def _whole(self, frame: bytes) -> None:
        self.whole.append(frame)
        self.order.append("kept")

    def _ended(self) -> None:
        self.order.append("passed")


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % len(data) for place in places} | {len(data)}) if data else []
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


frames = st.lists(
    st.tuples(st.sampled_from([PASSED, KEPT]), st.binary(max_size=60)).map(lambda parts: b"".join(parts)),
    max_size=12,
)


@given(frames, st.lists(st.integers(min_value=0), max_size=40))
def test_each_frame_arrives_once_and_in_its_order_however_the_bytes_are_cut(
    contents: list[bytes], places: list[int]
) -> None:
    recorder = Recorder()
    for piece in cut(b"".join(map(framed, contents)), places):
        recorder.stream.feed(piece)
    assert recorder.passed == b"".join(framed(each) for each in contents if each.startswith(PASSED))
    assert recorder.whole == [each for each in contents if each.startswith(KEPT)]
    assert recorder.order == ["passed" if each.startswith(PASSED) else "kept" for each in contents]
    assert recorder.stream.kept_bytes == 0


def test_what_is_passed_on_waits_for_nothing() -> None:
    recorder = Recorder()
    whole = framed(PASSED + bytes(500))
    recorder.stream.feed(whole[:100])
    assert recorder.passed == whole[:100]
    assert recorder.stream.kept_bytes == 0


def test_a_whole_frame_is_not_copied() -> None:
    handed: list[Buffer] = []
    stream = Stream(lambda *_: Verdict.PASS_ON, handed.append, lambda frame: None)
    data = framed(PASSED)
    stream.feed(data)
    assert handed[0] is data


def test_what_waits_is_looked_at_once_it_may_go_on_and_not_before() -> None:
    recorder = Recorder()
    recorder.is_full = True
    recorder.stream.feed(framed(KEPT + b"1"))
    recorder.stream.feed(framed(PASSED + b"2"))
    recorder.stream.go_on()
    assert recorder.order == [], "it is still full"
    recorder.is_full = False
    recorder.stream.go_on()
    assert recorder.order == ["kept", "passed"]
    recorder.stream.go_on()
    assert recorder.order == ["kept", "passed"]


@pytest.mark.parametrize("size", [-1, MAX_FRAME_BYTES + 1])
def test_a_frame_of_an_impossible_size_is_an_error(size: int) -> None:
    with pytest.raises(DecodeError, match=f"frame of {size} bytes"):
        Recorder().stream.feed(size.to_bytes(4, "big", signed=True))


def test_what_comes_after_the_end_is_not_looked_at() -> None:
    recorder = Recorder()
    recorder.stream.is_over = True
    recorder.stream.feed(framed(PASSED))
    assert recorder.order == []


def test_a_large_frame_in_many_pieces_is_joined_once() -> None:
    """And not with each piece: a megabyte in pieces of ten bytes would take minutes."""
    kept: list[bytes] = []
    stream = Stream(lambda *_: Verdict.KEEP, lambda data: None, kept.append)
    content = random.Random(1).randbytes(1 << 20)
    data = framed(content)
    for begin in range(0, len(data), 10):
        stream.feed(data[begin : begin + 10])
    assert kept == [content]
