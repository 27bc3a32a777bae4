"""Keyed deadlines, and operations that complete once: by a check, by force, or by their deadline."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.purgatory.delayed import DelayedOperation, KeyedTimers, OwnedTimers, Purgatory
from coordinator.purgatory.timing_wheel import TimingWheel

FAR_MS = 100_000


class Operation(DelayedOperation):
    def __init__(self, deadline_ms: int = FAR_MS, *, can_complete: bool = False) -> None:
        super().__init__(deadline_ms)
        self.can_complete = can_complete
        self.tries = 0
        self.ends: list[str] = []
        self.then: Callable[[], object] = lambda: None

    def try_complete(self) -> bool:
        self.tries += 1
        return self.can_complete and self.force_complete()

    def on_complete(self) -> None:
        self.ends.append("complete")
        self.then()

    def on_expiration(self) -> None:
        self.ends.append("expired")


class Yard:
    """A wheel, what hangs on it, and a clock that is moved by hand."""

    def __init__(self, purge_interval: int = 1000) -> None:
        self.wheel = TimingWheel(0)
        self.purgatory = Purgatory(self.wheel, purge_interval)
        self.fired: list[tuple[int, Hashable]] = []
        self.then: dict[Hashable, Callable[[], object]] = {}
        self.timers = KeyedTimers(self.wheel, self._on_due)
        self.now_ms = 0

    def _on_due(self, key: Hashable, now_ms: int) -> None:
        self.fired.append((now_ms, key))
        self.then.get(key, lambda: None)()

    def advance(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for entry in self.wheel.advance(now_ms):
            entry.fire(now_ms)

    def watch(self, operation: DelayedOperation, *keys: Hashable) -> bool:
        return self.purgatory.try_complete_else_watch(operation, keys, self.now_ms)

    def check(self, key: Hashable) -> int:
        return self.purgatory.check_and_complete(key, self.now_ms)


@pytest.fixture
def yard() -> Yard:
    return Yard()


class Owner:
    """Notes which of its deadlines come."""

    def __init__(self) -> None:
        self.fired: list[str] = []

    def timer_fired(self, key: str) -> None:
        self.fired.append(key)


# Keyed deadlines.


def test_each_owner_has_keys_of_its_own(yard: Yard) -> None:
    timers, first, second = OwnedTimers(yard.wheel), Owner(), Owner()
    for owner in (first, second):
        timers.set(owner, "cancelled by the first", 10)
        timers.set(owner, "moved by the second", 10)
    timers.set(first, "cancelled by the first", None)
    timers.set(second, "moved by the second", 30)
    yard.advance(20)
    assert (first.fired, second.fired) == (["moved by the second"], ["cancelled by the first"])
    yard.advance(40)
    assert (len(first.fired), second.fired[1:]) == (1, ["moved by the second"])


def test_the_timers_of_an_owner_are_dropped_together(yard: Yard) -> None:
    timers, first, second = OwnedTimers(yard.wheel), Owner(), Owner()
    for owner in (first, second):
        timers.set(owner, "a", 10)
        timers.set(owner, "b", 20)
    timers.drop(first)
    timers.drop(first)
    timers.set(first, "again", 30)
    yard.advance(40)
    assert (first.fired, second.fired) == (["again"], ["a", "b"])


def test_a_key_comes_due_once_at_its_deadline(yard: Yard) -> None:
    yard.timers.set("k", 50)
    assert yard.timers.deadline_ms("k") == 50
    yard.advance(49)
    assert yard.fired == []
    yard.advance(50)
    yard.advance(500)
    assert yard.fired == [(50, "k")]
    assert len(yard.timers) == 0
    assert yard.timers.deadline_ms("k") is None


@pytest.mark.parametrize("later_ms", [20, 50, 90])
def test_setting_a_key_again_replaces_its_deadline(yard: Yard, later_ms: int) -> None:
    yard.timers.set("k", 50)
    yard.timers.set("k", later_ms)
    for now_ms in range(0, 200, 10):
        yard.advance(now_ms)
    assert yard.fired == [(later_ms, "k")]


def test_none_cancels_and_may_be_said_of_any_key(yard: Yard) -> None:
    yard.timers.set("k", 50)
    yard.timers.set("k", None)
    yard.timers.set("never set", None)
    yard.advance(100)
    assert yard.fired == []
    assert len(yard.timers) == 0
    assert yard.wheel.next_deadline_ms() is None


def test_a_deadline_that_has_passed_comes_due_at_the_next_turn_not_within_the_call(yard: Yard) -> None:
    yard.advance(100)
    yard.timers.set("k", 30)
    assert yard.fired == []
    assert yard.wheel.next_deadline_ms() == 100
    yard.advance(100)
    assert yard.fired == [(100, "k")]


def test_keys_come_due_in_order_of_their_deadlines(yard: Yard) -> None:
    for key, deadline_ms in [("c", 30), ("a", 10), ("d", 30), ("b", 20)]:
        yard.timers.set(key, deadline_ms)
    yard.advance(1000)
    assert [key for _, key in yard.fired] == ["a", "b", "c", "d"]


def test_a_key_cancelled_by_an_earlier_one_of_the_same_turn_does_not_come_due(yard: Yard) -> None:
    yard.then["a"] = lambda: yard.timers.set("b", None)
    yard.timers.set("a", 10)
    yard.timers.set("b", 10)
    yard.advance(10)
    assert [key for _, key in yard.fired] == ["a"]


def test_a_key_moved_by_an_earlier_one_of_the_same_turn_comes_due_once_and_later(yard: Yard) -> None:
    yard.then["a"] = lambda: yard.timers.set("b", 40)
    yard.timers.set("a", 10)
    yard.timers.set("b", 10)
    yard.advance(10)
    yard.advance(40)
    assert yard.fired == [(10, "a"), (40, "b")]


def test_a_key_cancelled_and_set_again_in_the_same_turn_is_the_new_one(yard: Yard) -> None:
    def renew() -> None:
        yard.timers.set("b", None)
        yard.timers.set("b", 40)

    yard.then["a"] = renew
    yard.timers.set("a", 10)
    yard.timers.set("b", 10)
    yard.advance(10)
    yard.advance(40)
    assert yard.fired == [(10, "a"), (40, "b")]


def test_a_key_may_set_itself_again_when_it_comes_due(yard: Yard) -> None:
    """As a session does that fired early, since heartbeats had moved its deadline."""
    yard.then["k"] = lambda: yard.timers.set("k", 90) if yard.now_ms < 90 else None
    yard.timers.set("k", 45)
    yard.advance(45)
    assert yard.timers.deadline_ms("k") == 90
    yard.advance(90)
    assert yard.fired == [(45, "k"), (90, "k")]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.none() | st.integers(-5, 60) | st.integers(0, 5000),
            st.integers(0, 40),
        ),
        max_size=60,
    )
)
@settings(max_examples=300, deadline=None)
def test_keyed_timers_do_what_a_dict_of_deadlines_does(steps: list[tuple[str, int | None, int]]) -> None:
    yard = Yard()
    model: dict[str, int] = {}
    for key, delay_ms, move_ms in steps:
        model.pop(key, None)
        if delay_ms is not None:
            model[key] = yard.now_ms + delay_ms
        yard.timers.set(key, None if delay_ms is None else yard.now_ms + delay_ms)
        yard.fired.clear()
        yard.advance(yard.now_ms + move_ms)
        due = sorted((deadline_ms, key) for key, deadline_ms in model.items() if deadline_ms <= yard.now_ms)
        assert sorted(yard.fired) == sorted((yard.now_ms, key) for _, key in due)
        for _, key in due:
            del model[key]
        assert {key: yard.timers.deadline_ms(key) for key in "abcd"} == {
            key: model.get(key) for key in "abcd"
        }


# Operations.


def test_what_can_complete_at_once_is_not_watched(yard: Yard) -> None:
    operation = Operation(can_complete=True)
    assert yard.watch(operation, "a", "b")
    assert operation.ends == ["complete"]
    assert (yard.purgatory.watched, yard.purgatory.delayed) == (0, 0)
    assert yard.wheel.next_deadline_ms() is None


def test_a_check_completes_what_can_complete_and_only_under_its_key(yard: Yard) -> None:
    first, second = Operation(), Operation()
    assert yard.check("a") == 0
    assert not yard.watch(first, "a")
    assert not yard.watch(second, "b")
    assert (yard.check("a"), yard.check("b")) == (0, 0)
    first.can_complete = second.can_complete = True
    assert (yard.check("a"), first.ends, second.ends) == (1, ["complete"], [])
    assert yard.check("a") == 0
    assert (yard.check("b"), second.ends) == (1, ["complete"])
    assert (yard.check("b"), yard.purgatory.watched, yard.purgatory.delayed) == (0, 0, 0)


def test_an_operation_expires_at_its_deadline_completing_first(yard: Yard) -> None:
    early, late = Operation(20), Operation(200_000)
    yard.watch(early, "a")
    yard.watch(late, "b")
    yard.advance(19)
    assert early.ends == []
    yard.advance(20)
    assert early.ends == ["complete", "expired"]
    assert late.ends == []
    assert yard.purgatory.delayed == 1


def test_what_completed_never_expires(yard: Yard) -> None:
    operation = Operation(20)
    yard.watch(operation, "a")
    operation.can_complete = True
    yard.check("a")
    assert yard.wheel.next_deadline_ms() is None
    yard.advance(100)
    assert operation.ends == ["complete"]


def test_an_operation_completes_once_however_it_is_asked(yard: Yard) -> None:
    operation = Operation(20, can_complete=False)
    yard.watch(operation, "a", "b")
    assert operation.force_complete()
    assert not operation.force_complete()
    operation.can_complete = True
    assert (yard.check("a"), yard.check("b")) == (0, 0)
    operation.fire(20)
    assert operation.ends == ["complete"]


def test_an_operation_is_tried_again_once_it_is_listed(yard: Yard) -> None:
    """What it waits for may have happened between the first try and the listing, and completed nothing."""

    class Raced(Operation):
        def try_complete(self) -> bool:
            self.can_complete = self.tries == 1
            return super().try_complete()

    operation = Raced()
    assert yard.watch(operation, "a")
    assert (operation.tries, operation.ends) == (2, ["complete"])
    assert yard.wheel.next_deadline_ms() is None
    assert yard.purgatory.delayed == 0


def test_an_operation_whose_deadline_has_passed_expires_at_once(yard: Yard) -> None:
    yard.now_ms = 500
    operation = Operation(500)
    assert yard.watch(operation, "a")
    assert operation.ends == ["complete", "expired"]
    assert yard.purgatory.delayed == 0


def test_a_check_expires_what_is_late_already(yard: Yard) -> None:
    operation = Operation(20)
    yard.watch(operation, "a")
    yard.now_ms = 20
    assert yard.check("a") == 0
    assert operation.ends == ["complete", "expired"]
    yard.advance(20)
    assert operation.ends == ["complete", "expired"]


def test_an_operation_watched_under_nothing_is_a_bug(yard: Yard) -> None:
    with pytest.raises(AssertionError):
        yard.watch(Operation())


def test_completed_operations_leave_a_watch_list_when_it_is_checked(yard: Yard) -> None:
    operations = [Operation() for _ in range(3)]
    for count, operation in enumerate(operations, start=1):
        yard.watch(operation, *["a", "b", "c"][:count])
    assert (yard.purgatory.delayed, yard.purgatory.watched) == (3, 6)
    operations[1].force_complete()
    operations[2].force_complete()
    assert (yard.purgatory.delayed, yard.purgatory.watched) == (1, 6)
    watched = []
    for key in "abc":
        assert yard.check(key) == 0
        watched.append(yard.purgatory.watched)
    assert watched == [4, 2, 1]


def test_all_lists_are_swept_when_too_many_completed_operations_are_on_them() -> None:
    yard = Yard(purge_interval=10)
    waiting = Operation()
    yard.watch(waiting, "rare", "often")
    peak = 0
    for _ in range(1000):
        operation = Operation()
        yard.watch(operation, "rare", "often")
        operation.force_complete()
        peak = max(peak, yard.purgatory.watched)
    assert peak <= 2 * (10 + 2)
    assert yard.purgatory.delayed == 1
    waiting.can_complete = True
    assert yard.check("rare") == 1
    yard.check("often")
    assert yard.purgatory.watched == 0


def test_a_crowd_that_waits_is_not_swept_and_loses_no_operation() -> None:
    yard = Yard(purge_interval=10)
    operations = [Operation(1000 + number) for number in range(100)]
    for operation in operations:
        yard.watch(operation, "a")
    assert (yard.purgatory.delayed, yard.purgatory.watched) == (100, 100)
    yard.advance(1000)
    assert yard.purgatory.delayed == 99
    for operation in operations:
        operation.can_complete = True
    assert yard.check("a") == 99
    assert all(operation.ends[0] == "complete" for operation in operations)


def test_an_answered_client_may_come_back_under_the_same_key_within_the_check(yard: Yard) -> None:
    """A reply can let the connection's next fetch in, which parks on the list that is being walked."""
    first, second, third = Operation(), Operation(), Operation()
    yard.watch(first, "a")
    yard.watch(second, "a")
    first.then = lambda: yard.watch(third, "a")
    first.can_complete = second.can_complete = True
    assert yard.check("a") == 2
    assert third.ends == []
    third.can_complete = True
    assert yard.check("a") == 1
    assert yard.purgatory.watched == 0


def test_a_check_within_a_check_completes_no_operation_twice(yard: Yard) -> None:
    operations = [Operation() for _ in range(3)]
    for operation in operations:
        yard.watch(operation, "a")
        operation.can_complete = True
    nested: list[int] = []
    operations[0].then = lambda: nested.append(yard.check("a"))
    assert (yard.check("a"), nested) == (1, [2])
    assert [operation.ends for operation in operations] == [["complete"]] * 3
    assert yard.purgatory.watched == 0


def test_a_key_that_no_operation_waits_for_takes_no_room(yard: Yard) -> None:
    for number in range(100):
        operation = Operation()
        yard.watch(operation, number)
        operation.can_complete = True
        yard.check(number)
    assert not yard.purgatory._watchers
