"""A throttled Fetch shows nothing, and leaves its session as if it had not been asked for news (Q11)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.doubles.fake_pending import FakePending
from protocol.codec.codec import encode
from protocol.messages.fetch import FetchResponse
from tests.topics.requests import fetch_request, partitions_of, produce
from tests.topics.world import World, batch


class FakeMeter:
    """A client that is over its quota, or not; it keeps the sizes of answers."""

    def __init__(self, is_over: bool, max_bytes: int = 1 << 30) -> None:
        self.is_over = is_over
        self.fetch_max_bytes = max_bytes
        self.sizes: list[int] = []

    def is_fetch_throttled(self, size_bytes: Callable[[], int]) -> bool:
        self.sizes.append(size_bytes())
        return self.is_over

    def take_partitions(self, count: int, is_strict: bool) -> bool:
        raise AssertionError("a fetch makes no partitions")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.topic("t")
    return made


def ask(world: World, meter: FakeMeter, version: int = 12, **fields: Any) -> FetchResponse:
    pending = FakePending(version)
    pending.meter = meter
    world.hand_over(fetch_request(("t", 0, 1), **fields), pending)
    world.settle()
    answer: FetchResponse = pending.answer
    return answer


def test_what_was_not_sent_is_news_later(world: World) -> None:
    """There are no records to send, but a high watermark that the client was not shown."""
    produce(world, batch(b"a"))
    session = ask(world, FakeMeter(is_over=False), session_epoch=0).session_id
    assert session > 0
    produce(world, batch(b"b"))
    over = ask(world, FakeMeter(is_over=True), session_id=session, session_epoch=1, max_bytes=0)
    assert (over.session_id, over.error_code, over.responses) == (session, 0, [])
    later = ask(world, FakeMeter(is_over=False), session_id=session, session_epoch=2)
    assert [part.high_watermark for part in partitions_of(later)] == [2]
    produce(world, batch(b"c"))
    pending = FakePending(12)
    pending.meter = FakeMeter(is_over=True)
    at_the_end = fetch_request(("t", 0, 3), session_id=session, session_epoch=3)
    world.hand_over(at_the_end, pending)
    world.settle()
    assert pending.answer.responses == []
    news = ask_at_the_end(world, session, 4)
    assert [part.high_watermark for part in partitions_of(news)] == [3]
    assert partitions_of(ask_at_the_end(world, session, 5)) == []


def ask_at_the_end(world: World, session: int, epoch: int) -> FetchResponse:
    pending = FakePending(12)
    world.hand_over(fetch_request(("t", 0, 3), session_id=session, session_epoch=epoch), pending)
    world.settle()
    answer: FetchResponse = pending.answer
    return answer


def test_a_session_is_opened_with_an_answer_alone(world: World) -> None:
    assert ask(world, FakeMeter(is_over=True), session_epoch=0).session_id == 0
    assert len(world.broker.fetch_sessions) == 0
    assert ask(world, FakeMeter(is_over=False), session_epoch=0).session_id > 0
    assert len(world.broker.fetch_sessions) == 1


@pytest.mark.parametrize("version", [4, 11, 12])
def test_an_answer_counts_with_the_size_of_its_body_and_four(world: World, version: int) -> None:
    """Kafka's figure; of a session only what is sent counts."""
    produce(world, batch(b"a", b"b"))
    meter = FakeMeter(is_over=False)
    answer = ask(world, meter, version)
    assert meter.sizes == [len(encode(answer, version)) + 4]


def test_a_fetch_reads_no_more_than_could_ever_be_sent(world: World) -> None:
    for _ in range(5):
        produce(world, batch(b"x" * 1_000))
    read = ask(world, FakeMeter(is_over=False, max_bytes=2_500))
    assert 2_000 < sum(len(part.records or b"") for part in partitions_of(read)) < 2_500
