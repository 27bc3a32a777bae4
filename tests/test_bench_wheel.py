"""The heap that the timing wheel is compared with: the same promises, or the figure would say nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bench.pairs.wheel
from bench.pairs.plan import quick
from bench.pairs.wheel import HEAP, KINDS, LOOP, WHEEL, Cost, HeapTimers, OnDue, Timers, WheelTimers, costs

steps = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.none() | st.integers(0, 60),
        st.integers(0, 40),
        st.sampled_from("abcd"),
        st.none() | st.integers(-5, 60),
    ),
    max_size=60,
)


class Run:
    """Timers of one kind, turned by hand; what comes due may set or cancel another key in the same turn."""

    def __init__(self, make: Callable[[OnDue], HeapTimers | WheelTimers]) -> None:
        self.timers = make(self._on_due)
        self.due: list[tuple[int, Hashable]] = []
        self.next: tuple[Hashable, int | None] | None = None

    def _on_due(self, key: Hashable, now_ms: int) -> None:
        self.due.append((now_ms, key))
        if self.next is not None:
            other, delay_ms = self.next
            self.next = None
            self.timers.set(other, None if delay_ms is None else now_ms + delay_ms)


@given(steps)
@settings(max_examples=200, deadline=None)
def test_the_heap_reports_what_the_wheel_reports_in_the_same_order(
    steps: list[tuple[str, int | None, int, str, int | None]],
) -> None:
    runs = (Run(WheelTimers), Run(HeapTimers))
    now_ms = 0
    for key, delay_ms, move_ms, other, other_ms in steps:
        for run in runs:
            run.next = other, other_ms
            run.timers.set(key, None if delay_ms is None else now_ms + delay_ms)
            run.timers.advance(now_ms + move_ms)
        assert runs[0].due == runs[1].due
        now_ms += move_ms


def test_the_heap_keeps_no_more_stale_items_than_live_ones() -> None:
    timers = HeapTimers(lambda key, now_ms: None)
    for number in range(100):
        timers.set(("held", number), 45_000)
    for number in range(10_000):
        timers.set("again", 45_000 + number)
        assert len(timers._heap) <= 2 * 101 + HeapTimers.SPARE


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_reports_each_key_that_was_not_cancelled_once(kind: str) -> None:
    due: list[Hashable] = []
    timers: Timers = KINDS[kind](lambda key, _: due.append(key))
    for key, deadline_ms in [("c", 300), ("a", 10), ("gone", 20), ("b", 500_000), ("b", 20)]:
        timers.set(key, deadline_ms)
    timers.set("gone", None)
    timers.expire_all()
    assert due == ["a", "b", "c"]


def test_the_wheel_is_judged_by_the_heap_and_by_all_steps_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def costs(count: int) -> dict[str, Cost]:
        asked.append(count)
        return {WHEEL: Cost(2.0, 0.5, 3.5), HEAP: Cost(1.0, 0.25, 3.75), LOOP: Cost(9.0, 9.0, 9.0)}

    monkeypatch.setattr(bench.pairs.wheel, "costs", costs)
    (section,) = bench.pairs.wheel.wheel(replace(quick(tmp_path), timers=(10, 1_000)))
    (target,) = section.targets
    assert (target.ratio, target.bound, target.is_met) == (1.2, 1.0, False)
    assert "1,000 timers" in target.what
    assert asked == [10, 1_000]
    assert "| wheel | 1,000 | 2.00 | 0.50 | 3.50 | 6.00 |" in section.lines


@pytest.mark.measured
def test_the_wheel_costs_no_more_than_the_heap() -> None:
    """CPU time of both, in turns; with fewer timers than on the page, which is to the heap's advantage."""
    found = costs(50_000, (WHEEL, HEAP))
    assert found[WHEEL].total <= found[HEAP].total, found
