"""Storms: windows that are over, with what a group spent rebalancing in each of them."""

from __future__ import annotations

import random

import pytest

from muster.spark.events.storms import Storm, StormRule, StormWindows

MINUTE = 60_000
FIVE = 5 * MINUTE
T = 1_700_000_100_000
RULE = StormRule(FIVE, 0.2)
NEVER = T + 1_000 * FIVE


def closed(
    windows: StormWindows, until_ms: int, running: tuple[int, int] | None = None
) -> list[tuple[int, int, int]]:
    """The storms by then as (number of the window since T, rebalances, ms)."""
    return [
        ((each.window_start - T) // FIVE, each.rebalances, each.rebalancing_ms)
        for each in windows.close("g", until_ms, running, RULE)
    ]


def test_a_window_is_a_storm_if_more_than_the_share_of_it_was_spent() -> None:
    windows = StormWindows()
    windows.add(T, T + MINUTE, RULE)
    windows.add(T + FIVE, T + FIVE + MINUTE + 1, RULE)
    assert windows.close("g", T + 2 * FIVE, None, RULE) == [
        Storm(T + FIVE, T + 2 * FIVE, "g", 1, MINUTE + 1, (MINUTE + 1) / FIVE)
    ]


def test_a_rebalance_counts_in_each_window_with_what_lies_there() -> None:
    windows = StormWindows()
    windows.add(T + 3 * MINUTE, T + 2 * FIVE + 2 * MINUTE, RULE)
    windows.add(T + 4 * MINUTE, T + 4 * MINUTE, RULE)
    assert closed(windows, T + 3 * FIVE) == [(0, 2, 2 * MINUTE), (1, 1, FIVE), (2, 1, 2 * MINUTE)]


def test_one_that_is_still_on_counts_up_to_the_windows_end_and_once() -> None:
    windows = StormWindows()
    running = (T + MINUTE, NEVER)
    assert closed(windows, T + FIVE - 1, running) == []
    assert windows.due_ms(running, RULE) == T + FIVE
    assert closed(windows, T + FIVE, running) == [(0, 1, 4 * MINUTE)]
    assert windows.due_ms(running, RULE) == T + 2 * FIVE
    windows.add(T + MINUTE, T + FIVE + 2 * MINUTE, RULE)
    assert closed(windows, T + 2 * FIVE) == [(1, 1, 2 * MINUTE)]
    assert windows.due_ms(None, RULE) is None


def test_one_without_further_events_stops_counting() -> None:
    windows = StormWindows()
    running = (T, T + 12 * MINUTE)
    assert closed(windows, T + 10 * FIVE, running) == [(0, 1, FIVE), (1, 1, FIVE), (2, 1, 2 * MINUTE)]
    assert windows.due_ms(running, RULE) is None


def test_the_end_of_a_window_is_not_within_it() -> None:
    windows = StormWindows()
    windows.add(T + MINUTE, T + FIVE, RULE)
    assert list(windows.open) == [T]


@pytest.mark.parametrize("seed", range(40))
def test_storms_are_what_counting_every_second_gives(seed: int) -> None:
    """However often and whenever windows are closed, and whether a rebalance is on then or not."""
    chance = random.Random(seed)
    spans, at = [], T
    while at < T + 12 * FIVE:
        start = at + chance.randrange(0, 200) * 1_000
        at = start + chance.choice((0, 5, 60, 400, 1_500)) * 1_000
        spans.append((start, at))
    windows, found = StormWindows(), []
    for start, end in spans:
        if chance.random() < 0.5:
            found += closed(windows, chance.randrange(start, end + 1), (start, NEVER))
        windows = StormWindows.load(windows.dump())
        windows.add(start, end, RULE)
    found += closed(windows, NEVER)
    expected = []
    for number in range((NEVER - T) // FIVE):
        seconds = range(T + number * FIVE, T + (number + 1) * FIVE, 1_000)
        within = [sum(start <= second < end for second in seconds) for start, end in spans
                  if start < seconds.stop and (end > seconds.start or start >= seconds.start)]  # fmt: skip
        if sum(within) * 1_000 > RULE.share * FIVE:
            expected.append((number, len(within), sum(within) * 1_000))
    assert found == expected
