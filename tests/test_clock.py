"""Time that leaves out our own stops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.runtime.clock import STALL_MS, Clock

MINUTE_MS = 60_000


class Machine:
    """Stands for the machine's monotonic clock."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class Contended:
    """A lock that another thread holds first, once: what that does is done before this one gets in."""

    def __init__(self) -> None:
        self.done_first: Callable[[], None] | None = None

    def __enter__(self) -> None:
        done_first, self.done_first = self.done_first, None
        if done_first is not None:
            done_first()

    def __exit__(self, *_error: object) -> None:
        pass


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_ordinary_lateness_is_kept(machine: Machine) -> None:
    clock = Clock(machine.monotonic_ns)
    clock.wake_by(clock.now_ms() + 10)
    machine.now_ms += 10 + STALL_MS - 1
    assert clock.now_ms() == machine.now_ms
    assert clock.take_stall_ms() == 0


def test_a_stall_is_taken_out_by_the_first_reading_of_the_clock(machine: Machine) -> None:
    """A request that is read before the timers is not given a deadline from before the stall was known."""
    clock = Clock(machine.monotonic_ns)
    wake_ms = clock.now_ms() + 10
    clock.wake_by(wake_ms)
    machine.now_ms += 10 + MINUTE_MS
    assert clock.now_ms() == wake_ms, "as if the loop had been awake when it meant to"
    machine.now_ms += 7
    assert clock.now_ms() == wake_ms + 7
    assert (clock.take_stall_ms(), clock.take_stall_ms()) == (MINUTE_MS, 0)


def test_without_anything_to_wake_up_for_there_is_no_stall(machine: Machine) -> None:
    clock = Clock(machine.monotonic_ns)
    clock.wake_by(clock.now_ms() + 10)
    clock.wake_by()
    machine.now_ms += MINUTE_MS
    assert clock.now_ms() == machine.now_ms
    assert clock.take_stall_ms() == 0


def test_a_stall_that_two_threads_see_at_once_is_taken_out_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has read a time from before that, and what passes in between is no stall."""
    lock = Contended()
    monkeypatch.setattr("coordinator.runtime.clock.Lock", lambda: lock)
    clock = Clock(machine.monotonic_ns)
    wake_ms = clock.now_ms() + 10
    clock.wake_by(wake_ms)
    machine.now_ms += 10 + MINUTE_MS

    def other_thread() -> None:
        assert clock.now_ms() == wake_ms
        machine.now_ms += 7

    lock.done_first = other_thread
    assert clock.now_ms() == wake_ms + 7
    assert (clock.take_stall_ms(), clock.stalled_ms) == (MINUTE_MS, MINUTE_MS)
