"""What a turn does at once and what it leaves to later ones: the clocks and the loop are the test's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from structlog.testing import capture_logs

from coordinator.runtime.turn_share import (
    BUSY_SLICES,
    CHEAP,
    CLOSINGS,
    DIRECT_S,
    LEAST_S,
    LONG_S,
    SLICE_S,
    TurnShare,
    unlimited,
)

PIECE_S = 0.001


class Loop:
    """A loop with CPU time of its own; turns are begun by hand, or by nobody."""

    def __init__(self, *, is_seen: bool = True) -> None:
        self.cpu_s = 100.0
        self.stolen_s = 0.0  # Time in which another process had the core.
        self.ready: list[Callable[[], None]] = []
        self.is_seen = is_seen
        self.share = TurnShare(
            self.ready.append, lambda: self.cpu_s, lambda: int((self.cpu_s + self.stolen_s) * 1e9)
        )
        self.done: list[int] = []
        self.next_turn()

    def next_turn(self) -> list[int]:
        """Do one turn of what waits; return what was done in it."""
        if self.is_seen:
            self.share.begin(self.cpu_s)
        self.done = []
        ready = self.ready[:]
        del self.ready[: len(ready)]
        for action in ready:
            action()
        return self.done

    def work(self, number: int) -> None:
        self.cpu_s += PIECE_S
        self.done.append(number)

    def later(self, number: int) -> None:
        self.share.later(lambda: self.work(number))


@pytest.fixture(params=[True, False], ids=["turns are seen", "turns are not seen"])
def loop(request: pytest.FixtureRequest) -> Loop:
    return Loop(is_seen=request.param)


def pieces_until_over(loop: Loop) -> int:
    count = 0
    while not loop.share.is_over():
        loop.work(count)
        count += 1
    return count


def test_a_turn_is_over_when_its_share_of_cpu_is_used_up(loop: Loop) -> None:
    for _ in range(3):
        assert pieces_until_over(loop) == round(DIRECT_S / PIECE_S)
        assert loop.share.is_over(), "and stays it"
        loop.next_turn()


def test_time_that_another_process_had_does_not_count(loop: Loop) -> None:
    assert not loop.share.is_over()
    loop.stolen_s += 1.0
    assert pieces_until_over(loop) == round(DIRECT_S / PIECE_S)


def test_what_was_put_off_is_done_in_order_a_slice_in_each_turn(loop: Loop) -> None:
    pieces = round(SLICE_S / PIECE_S)
    for number in range(2 * pieces + 1):
        loop.later(number)
    turns = [loop.next_turn() for _ in range(4)]
    turns = [turn for turn in turns if turn]
    assert [number for turn in turns for number in turn] == list(range(2 * pieces + 1))
    assert [len(turn) for turn in turns] == [pieces, pieces, 1]


def test_in_the_turn_of_a_long_piece_of_work_the_slice_is_short(loop: Loop) -> None:
    def pieces_after(length_s: float) -> int:
        loop.next_turn()
        for number in range(20):
            loop.later(number)
        loop.done = []
        assert not loop.share.is_over()
        loop.cpu_s += length_s
        assert loop.share.is_over()
        loop.ready.pop(0)()
        count = len(loop.done)
        while loop.ready:
            loop.next_turn()
        return count

    assert pieces_after(DIRECT_S + LONG_S - PIECE_S) == round(SLICE_S / PIECE_S)
    assert pieces_after(DIRECT_S + LONG_S + PIECE_S) == round(LEAST_S / PIECE_S)
    assert pieces_after(DIRECT_S + PIECE_S) == round(SLICE_S / PIECE_S), "the next turn is like any other"


def test_what_puts_off_its_own_rest_is_still_one_slice_in_a_turn(loop: Loop) -> None:
    def again(number: int) -> None:
        loop.work(number)
        loop.share.later(lambda: again(number))

    for number in range(3):
        loop.share.later(partial(again, number))
    for _ in range(5):
        assert len(loop.next_turn()) <= round(SLICE_S / PIECE_S)
    assert len(loop.ready) <= 2, "one slice, and the end of the turn where nobody sees it"


def test_a_piece_that_fails_takes_no_other_with_it(loop: Loop) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    loop.share.later(fail)
    loop.later(1)
    with capture_logs() as logs:
        assert loop.next_turn() == [1]
    assert [each["event"] for each in logs] == ["work that was put off failed"]


def test_cheap_requests_are_counted_for_each_turn(loop: Loop) -> None:
    for _ in range(2):
        count = 0
        while loop.share.cheap_left > 0 or loop.share.has_cheap():
            loop.share.cheap_left -= 1
            count += 1
        assert count == CHEAP
        loop.next_turn()


class FakePoll:
    """What a turn did to its poll."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def end(self) -> None:
        self.done.append("end")

    def close(self) -> None: ...

    def go_on(self) -> None:
        self.done.append("go on")


@pytest.mark.parametrize("what", ["work", "cheap", "closings"])
def test_a_turn_that_has_used_up_a_share_ends_its_poll_and_the_next_one_goes_on(what: str) -> None:
    loop = Loop()
    loop.share.poll = poll = FakePoll()
    for _ in range(2):
        assert not loop.share.is_over()
        assert loop.share.has_cheap()
        assert loop.share.may_close()
        assert poll.done == []
        assert not loop.share.has_unread
        for _ in range(2):
            match what:
                case "work":
                    pieces_until_over(loop)
                case "cheap":
                    loop.share.cheap_left = 0
                    assert not loop.share.has_cheap()
                case "closings":
                    assert sum(loop.share.may_close() for _ in range(CLOSINGS + 1)) < CLOSINGS + 1
        assert poll.done == ["end"], "once"
        assert loop.share.has_unread
        loop.next_turn()
        assert poll.done == ["end", "go on"]
        poll.done.clear()
    loop.next_turn()
    assert poll.done == [], "a poll that was not ended goes on by itself"


def test_so_many_connections_are_closed_at_once_and_so_many_of_those_that_wait(loop: Loop) -> None:
    for _ in range(2):
        assert sum(loop.share.may_close() for _ in range(2 * CLOSINGS)) == CLOSINGS
        loop.next_turn()
    closed: list[int] = []
    for number in range(2 * CLOSINGS + 1):
        loop.share.close_later(partial(closed.append, number))
    assert closed == []
    for most in (CLOSINGS, 2 * CLOSINGS, 2 * CLOSINGS + 1):
        loop.next_turn()
        assert closed == list(range(most))
    loop.share.close_later(partial(closed.append, -1))
    loop.next_turn()
    assert closed[-1] == -1, "they begin anew"


def test_a_stop_does_all_and_puts_off_nothing_more(loop: Loop) -> None:
    for number in range(20):
        loop.later(number)
    loop.share.close_later(lambda: loop.work(20))
    loop.share.stop()
    assert loop.done == list(range(21))
    loop.cpu_s += 10
    assert all(loop.share.may_close() for _ in range(2 * CLOSINGS))
    assert not loop.share.is_over()
    assert loop.share.has_cheap()
    loop.next_turn()
    loop.cpu_s += 10
    assert not loop.share.is_over()
    loop.later(21)
    assert loop.next_turn() == [21]


def test_a_share_without_end() -> None:
    ready: list[Callable[[], None]] = []
    share = unlimited(ready.append)
    assert not share.is_over()
    assert share.has_cheap()
    assert share.may_close()
    assert not ready, "it asks nothing of the loop"


def test_it_is_said_now_and_then_that_more_is_put_off_than_is_done(loop: Loop) -> None:
    said: list[int] = []
    loop.share.on_busy = lambda: said.append(len(loop.done))
    pieces = round(SLICE_S / PIECE_S)
    for number in range((2 * BUSY_SLICES + 1) * pieces):
        loop.later(number)
    for turn in range(1, 2 * BUSY_SLICES + 2):
        loop.next_turn()
        assert len(said) == turn // BUSY_SLICES


def test_a_queue_that_is_emptied_in_between_is_not_busy(loop: Loop) -> None:
    said: list[int] = []
    loop.share.on_busy = lambda: said.append(len(loop.done))
    pieces = round(SLICE_S / PIECE_S)
    for _ in range(3):
        for number in range(BUSY_SLICES * pieces):
            loop.later(number)
        while loop.share.has_put_off:
            loop.next_turn()
    assert said == []
