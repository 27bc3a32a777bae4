"""The wheel: nothing early, nothing late by a tick, in order, once; and no wake-up without a reason."""

from __future__ import annotations

import random
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.purgatory.timing_wheel import TimerEntry, TimingWheel


class Entry(TimerEntry):
    __slots__ = ("__weakref__", "name")

    def __init__(self, deadline_ms: int, name: int = 0) -> None:
        super().__init__(deadline_ms)
        self.name = name

    def fire(self, now_ms: int) -> None:
        raise AssertionError("the wheel runs nothing by itself")

    def __repr__(self) -> str:
        return f"Entry({self.deadline_ms}, {self.name})"


def added(wheel: TimingWheel, *deadlines_ms: int) -> list[Entry]:
    entries = [Entry(deadline_ms, number) for number, deadline_ms in enumerate(deadlines_ms)]
    for entry in entries:
        assert wheel.add(entry)
    return entries


def entries_of(due: list[TimerEntry]) -> list[Entry]:
    entries = [each for each in due if isinstance(each, Entry)]
    assert len(entries) == len(due)
    return entries


def run_dry(wheel: TimingWheel) -> list[tuple[int, list[TimerEntry]]]:
    """Sleep until whatever the wheel asks for, until it asks for nothing: each wake-up and what was due."""
    wakes = []
    while (wake_ms := wheel.next_deadline_ms()) is not None:
        wakes.append((wake_ms, wheel.advance(wake_ms)))
    return wakes


def test_an_empty_wheel_never_wakes() -> None:
    wheel = TimingWheel(1000)
    assert wheel.next_deadline_ms() is None
    assert wheel.advance(10**9) == []


def test_what_is_due_already_is_not_taken() -> None:
    wheel = TimingWheel(1000)
    for deadline_ms in (-5, 0, 999, 1000):
        entry = Entry(deadline_ms)
        assert not wheel.add(entry)
        assert not entry.is_pending
    assert wheel.next_deadline_ms() is None


def test_what_is_put_late_comes_out_of_the_next_advance_in_order() -> None:
    wheel = TimingWheel(1000)
    for number, deadline_ms in enumerate((1000, 5, -5, 5)):
        wheel.put(Entry(deadline_ms, number))
    assert wheel.next_deadline_ms() == 1000
    assert [(each.deadline_ms, each.name) for each in entries_of(wheel.advance(1000))] == [
        (-5, 2),
        (5, 1),
        (5, 3),
        (1000, 0),
    ]
    assert wheel.advance(2000) == []


def test_what_is_put_late_twice_at_the_same_time_comes_out_twice() -> None:
    wheel = TimingWheel(1000)
    for entry in (Entry(990), Entry(1000)):
        wheel.put(entry)
        assert wheel.next_deadline_ms() == 1000
        assert wheel.advance(1000) == [entry]


def test_an_entry_comes_out_at_its_deadline_and_not_before() -> None:
    wheel = TimingWheel(0)
    (entry,) = added(wheel, 7)
    assert wheel.next_deadline_ms() == 7
    assert wheel.advance(6) == []
    assert entry.is_pending
    assert wheel.advance(7) == [entry]
    assert not entry.is_pending
    assert wheel.advance(8) == []


def test_entries_come_out_in_order_of_deadline_then_of_adding() -> None:
    wheel = TimingWheel(0, size=3)
    entries = added(wheel, 500, 3, 40, 3, 1, 500, 27)
    assert [each.name for each in entries_of(wheel.advance(1000))] == [4, 1, 3, 6, 2, 0, 5]
    assert len(entries) == 7


def test_equal_deadlines_keep_their_order_whatever_the_level() -> None:
    """The first waits in a coarse bucket that is moved only when the second is already in a fine one."""
    wheel = TimingWheel(0, size=20)
    first = Entry(100, 1)
    wheel.add(first)
    wheel.advance(95)
    second = Entry(100, 2)
    wheel.add(second)
    assert wheel.advance(100) == [first, second]


def test_levels_are_made_on_demand() -> None:
    """With three buckets of a tick: 3, 9, 27 and so on are the reaches of the levels."""
    wheel = TimingWheel(0, size=3)
    for deadline_ms, levels in [(2, 1), (3, 2), (8, 2), (9, 3), (26, 3), (27, 4), (80, 4), (81, 5)]:
        wheel.add(Entry(deadline_ms))
        assert len(wheel._levels) == levels, f"deadline {deadline_ms}"


def test_two_levels_reach_16_minutes() -> None:
    wheel = TimingWheel(0)
    added(wheel, 1000**2 - 1)
    assert len(wheel._levels) == 2
    assert (1000**2 - 1) // 60_000 == 16


def test_the_heap_holds_a_bucket_once() -> None:
    wheel = TimingWheel(0, size=20)
    added(wheel, *[45_000 + jitter for jitter in range(1000)])
    assert len(wheel._starts) == 1, "all in one bucket of 8 s"
    assert wheel.next_deadline_ms() == 40_000


def test_a_far_deadline_costs_one_wake_up_for_each_level_at_most() -> None:
    wheel = TimingWheel(0)
    (entry,) = added(wheel, 1_234_567)
    wakes = run_dry(wheel)
    assert len(wakes) <= 5
    assert wakes[-1] == (1_234_567, [entry])
    assert all(due == [] for _, due in wakes[:-1])


def test_a_jump_over_hours_hands_out_everything_at_once() -> None:
    wheel = TimingWheel(0)
    deadlines_ms = [3**power for power in range(1, 14)]
    entries = added(wheel, *deadlines_ms)
    assert wheel.advance(10**7) == entries
    assert wheel.next_deadline_ms() is None


def test_every_deadline_of_a_crowd_comes_out_once() -> None:
    """Once each, some twice, in a wheel of three buckets: stepped and slept through alike."""
    deadlines_ms = [*range(1, 6), *range(10, 100), *range(10, 100), *range(100, 500)]
    wheel = TimingWheel(0, size=3)
    added(wheel, *deadlines_ms)
    assert [each.deadline_ms for _, due in run_dry(wheel) for each in due] == sorted(deadlines_ms)
    wheel = TimingWheel(0, size=3)
    added(wheel, *deadlines_ms)
    stepped = [(now_ms, each.deadline_ms) for now_ms in range(501) for each in wheel.advance(now_ms)]
    assert all(now_ms == deadline_ms for now_ms, deadline_ms in stepped)
    assert len(stepped) == len(deadlines_ms)


def test_what_is_cancelled_never_comes_out_and_wakes_no_loop() -> None:
    wheel = TimingWheel(0, size=20)
    near, middle, far = added(wheel, 5, 5, 100_000)
    assert near.cancel()
    assert not near.cancel()
    assert not near.is_pending
    assert wheel.next_deadline_ms() == 5
    assert middle.cancel()
    assert wheel.next_deadline_ms() == 96_000
    assert far.cancel()
    assert wheel.next_deadline_ms() is None
    assert wheel.advance(200_000) == []


def test_cancelling_keeps_the_neighbours() -> None:
    wheel = TimingWheel(0)
    entries = added(wheel, *[5] * 7)
    for index in (0, 3, 6):
        entries[index].cancel()
    assert [each.name for each in entries_of(wheel.advance(5))] == [1, 2, 4, 5]


@pytest.mark.parametrize("seed", range(5))
def test_cancelling_takes_out_that_entry_and_no_other(seed: int) -> None:
    """In any order, in a bucket where others have taken the places of those that left before."""
    draw = random.Random(seed)
    wheel = TimingWheel(0)
    entries = added(wheel, *[5] * 50)
    cancelled = draw.sample(entries, 40)
    for number, entry in enumerate(cancelled):
        assert entry.cancel()
        assert [each.is_pending for each in entries].count(True) == 49 - number
    assert wheel.advance(5) == [each for each in entries if each not in cancelled]


def test_a_cancelled_entry_is_not_kept_in_memory() -> None:
    """It may be a request that has long been answered."""
    wheel = TimingWheel(0)
    entries = added(wheel, *[5_000] * 3)
    gone = weakref.ref(entries[1])
    entries.pop(1).cancel()
    assert gone() is None
    assert wheel.advance(5_000) == entries


def slots(wheel: TimingWheel) -> int:
    """Places in all buckets, and buckets: what the wheel keeps in memory."""
    assert sorted(wheel._buckets) == sorted(wheel._starts)
    return sum(map(len, wheel._buckets.values())) + len(wheel._buckets)


@pytest.mark.parametrize("turn_every", [1, 7, 100_000])
def test_setting_deadlines_again_and_again_takes_no_more_room(turn_every: int) -> None:
    """As sessions and long polls do: whether the wheel is turned meanwhile or not, and wherever deadlines fall."""
    draw = random.Random(turn_every)
    wheel = TimingWheel(0)
    entries = added(wheel, *[45_000] * 10)
    peak = 0
    for step in range(20_000):
        entry = draw.choice(entries)
        entry.cancel()
        entry.deadline_ms = step + draw.choice((500, 45_000, 45_000 + step % 600_000))
        wheel.put(entry)
        if step % turn_every == 0:
            for each in wheel.advance(step):
                wheel.put(each)
        peak = max(peak, slots(wheel))
    assert peak <= len(entries) + len(wheel._levels) * (wheel._size + 1)
    assert sum(map(len, wheel._buckets.values())) == len(entries)


def test_an_entry_that_is_out_can_be_added_again() -> None:
    wheel = TimingWheel(0)
    (entry,) = added(wheel, 5)
    entry.cancel()
    entry.deadline_ms = 9
    assert wheel.add(entry)
    assert wheel.advance(8) == []
    assert wheel.advance(9) == [entry]
    entry.deadline_ms = 30
    assert wheel.add(entry)
    assert wheel.advance(30) == [entry]


def test_a_bucket_emptied_by_cancelling_is_used_again() -> None:
    """Its start is in the heap once, whether it was still there or had been dropped."""
    for is_asked in (False, True):
        wheel = TimingWheel(0)
        (entry,) = added(wheel, 5)
        entry.cancel()
        if is_asked:
            assert wheel.next_deadline_ms() is None
        (again,) = added(wheel, 5)
        assert wheel.next_deadline_ms() == 5
        assert wheel.advance(5) == [again]


def test_a_wheel_that_stood_still_still_takes_and_gives_on_time() -> None:
    """Added long after the last advance, as a loop does that slept: the near deadline is not lost."""
    wheel = TimingWheel(0, size=20)
    (entry,) = added(wheel, 30_050)  # Now is 30,000; the wheel was last turned at 0.
    wake_ms = wheel.next_deadline_ms()
    assert wake_ms is not None
    assert wake_ms <= 30_050
    assert wheel.advance(30_001) == []
    assert wheel.next_deadline_ms() == 30_040
    assert wheel.advance(30_050) == [entry]


def test_time_that_goes_back_changes_nothing() -> None:
    wheel = TimingWheel(0)
    (entry,) = added(wheel, 50)
    wheel.advance(40)
    assert wheel.advance(10) == []
    assert not wheel.add(Entry(40))
    late = Entry(40)
    wheel.put(late)
    assert wheel.advance(10) == [late]
    assert wheel.advance(50) == [entry]


def test_a_coarse_tick_is_late_by_less_than_itself_and_never_early() -> None:
    wheel = TimingWheel(1003, tick_ms=10)
    (entry,) = added(wheel, 1021)
    assert wheel.advance(1029) == []
    assert wheel.next_deadline_ms() == 1030
    assert wheel.advance(1030) == [entry]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-20, 100) | st.integers(0, 100_000)),
        st.tuples(st.just("cancel"), st.integers(0, 10**6)),
        st.tuples(st.just("move"), st.integers(0, 10**6)),
        st.tuples(st.just("advance"), st.integers(0, 50) | st.integers(0, 20_000)),
        st.tuples(st.just("sleep"), st.just(0)),
    ),
    max_size=80,
)


class Model:
    """A sorted list that does what a wheel should, and a wheel: both get the same calls."""

    def __init__(self, start_ms: int, tick_ms: int, size: int) -> None:
        self.wheel = TimingWheel(start_ms, tick_ms, size)
        self.tick_ms, self.now_ms = tick_ms, start_ms
        self.held: list[Entry] = []
        self.count = 0

    def add(self, delay_ms: int) -> None:
        entry = Entry(self.now_ms + delay_ms, self.count)
        self.count += 1
        assert self.wheel.add(entry) == (self.due_ms(entry) > self.now_ms - self.now_ms % self.tick_ms)
        if entry.is_pending:
            self.held.append(entry)

    def due_ms(self, entry: Entry) -> int:
        """The first tick at or after the deadline: never early, and late by less than a tick."""
        return entry.deadline_ms + -entry.deadline_ms % self.tick_ms

    def cancel(self, number: int) -> None:
        if self.held:
            assert self.held.pop(number % len(self.held)).cancel()

    def move(self, number: int) -> None:
        """Set one of them again, often to the bucket that it is in."""
        if self.held:
            entry = self.held.pop(number % len(self.held))
            assert entry.cancel()
            entry.deadline_ms += number % 50 - 20
            entry.name = self.count
            self.count += 1
            if self.wheel.add(entry):
                self.held.append(entry)

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        due = [entry for entry in self.held if self.due_ms(entry) <= self.now_ms]
        self.held = [entry for entry in self.held if entry not in due]
        due.sort(key=lambda entry: (entry.deadline_ms, entry.name))
        assert self.wheel.advance(self.now_ms) == due

    def sleep(self, _: int) -> None:
        """Until the wheel's next deadline, which must be neither missing nor too late."""
        wake_ms = self.wheel.next_deadline_ms()
        if not self.held:
            assert wake_ms is None
            return
        assert wake_ms is not None
        assert self.now_ms < wake_ms <= min(map(self.due_ms, self.held))
        self.advance(wake_ms - self.now_ms)


@given(steps, st.integers(0, 10**7), st.sampled_from([1, 3, 10]), st.sampled_from([2, 3, 20, 1000]))
@settings(max_examples=400, deadline=None)
def test_the_wheel_does_what_a_sorted_list_does(
    steps: list[tuple[str, int]], start_ms: int, tick_ms: int, size: int
) -> None:
    model = Model(start_ms, tick_ms, size)
    for action, argument in steps:
        getattr(model, action)(argument)
    wakes = 0
    while model.held:
        model.sleep(0)
        wakes += 1
        assert wakes <= len(model.wheel._levels) * model.count, "each entry moves down once for each level"
    assert model.wheel.next_deadline_ms() is None


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_a_bucket_with_any_number_of_entries_is_emptied(count: int) -> None:
    wheel = TimingWheel(0)
    entries = added(wheel, *[5] * count)
    assert wheel.advance(5) == entries
