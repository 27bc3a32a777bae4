"""Strangers by plain calls: who is admitted, until when, and who goes when all hold too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.runtime.clock import Clock
from coordinator.server.strangers import HELD_BYTES_MAX, LOG_EVERY, Stranger, Strangers

TIMEOUT_MS, IDLE_MS = 30_000, 600_000


@dataclass
class Settings:
    muster_handshake_timeout_ms: int = TIMEOUT_MS
    muster_unauthenticated_connections_max: int = 4
    connections_max_idle_ms: int = IDLE_MS


class World:
    """Strangers with a clock by hand, and the deadlines that they have set."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.now_ms = 1000
        self.deadlines: dict[Stranger, int] = {}
        clock = Clock(lambda: self.now_ms * 1_000_000, lambda: 0)
        self.strangers = Strangers(settings or Settings(), clock, self._set_timer)
        self.ended: list[tuple[Stranger, str]] = []

    def _set_timer(self, owner: Any, key: Any, deadline_ms: int | None) -> None:
        if deadline_ms is None:
            self.deadlines.pop(key, None)
        else:
            self.deadlines[key] = deadline_ms

    def admit(self, others: int = 0, max_connections: int = 100) -> Stranger | None:
        stranger = self.strangers.admit(others, max_connections)
        if stranger is not None:
            stranger.end = lambda reason: self.ended.append((stranger, reason))
        return stranger

    def admitted(self) -> Stranger:
        stranger = self.admit()
        assert stranger is not None
        return stranger


def test_as_many_as_may_be_are_admitted_and_the_next_when_one_leaves() -> None:
    world = World()
    first, *_ = [world.admitted() for _ in range(4)]
    assert world.admit() is None
    assert (len(world.strangers), world.strangers.turned_away) == (4, 1)
    world.strangers.leave(first)
    assert world.admit() is not None
    assert first not in world.deadlines
    assert first.end is None


@pytest.mark.parametrize(
    ("others", "most", "admitted"), [(0, 4, 2), (3, 4, 1), (4, 4, 0), (0, 1, 1), (0, 0, 0)]
)
def test_of_all_connections_they_take_half_at_most(others: int, most: int, admitted: int) -> None:
    world = World()
    found = [world.admit(others, most) for _ in range(5)]
    assert sum(each is not None for each in found) == admitted


@pytest.mark.parametrize(("idle_ms", "timeout_ms"), [(IDLE_MS, TIMEOUT_MS), (-1, TIMEOUT_MS), (500, 500)])
def test_the_clock_runs_from_accept_whatever_comes(idle_ms: int, timeout_ms: int) -> None:
    """T17."""
    world = World(Settings(connections_max_idle_ms=idle_ms))
    stranger = world.admitted()
    deadline_ms = 1000 + timeout_ms
    assert world.deadlines == {stranger: deadline_ms}
    world.now_ms += 100
    world.strangers.hold(stranger, 10)
    world.strangers.hold(stranger, 20)
    assert world.deadlines == {stranger: deadline_ms}
    world.strangers.timer_fired(stranger)
    assert [each for each, _ in world.ended] == [stranger]


def test_a_delay_does_not_reach_beyond_the_deadline() -> None:
    world = World()
    stranger = world.admitted()
    world.strangers.delay(stranger, 100)
    assert world.deadlines[stranger] == world.now_ms + 100
    world.strangers.delay(stranger, 10 * TIMEOUT_MS)
    assert world.deadlines[stranger] == stranger.deadline_ms


def test_when_all_hold_too_much_the_one_that_holds_the_most_is_ended() -> None:
    world = World()
    small, large = world.admitted(), world.admitted()
    world.strangers.hold(large, HELD_BYTES_MAX - 10)
    world.strangers.hold(small, 10)
    assert world.ended == []
    world.strangers.hold(small, 11)
    assert [each for each, _ in world.ended] == [large]
    world.strangers.leave(large)
    world.strangers.hold(small, HELD_BYTES_MAX)
    assert len(world.ended) == 1


def test_one_that_has_left_is_not_counted_twice() -> None:
    world = World()
    stranger = world.admitted()
    world.strangers.hold(stranger, 100)
    for _ in range(2):
        world.strangers.leave(stranger)
    assert len(world.strangers) == 0
    world.strangers.timer_fired(stranger)
    assert world.ended == []


def test_failures_are_counted_and_the_first_and_each_thousandth_are_logged() -> None:
    """F14; those that are turned away likewise."""
    world = World()
    with capture_logs() as logged:
        for _ in range(2 * LOG_EVERY + 1):
            world.strangers.count_failure(Stranger(0), "SASL", "no reason")
    assert world.strangers.failed == 2 * LOG_EVERY + 1
    assert [each["failed_so_far"] for each in logged] == [1, LOG_EVERY + 1, 2 * LOG_EVERY + 1]
    for _ in range(4):
        world.admitted()
    with capture_logs() as logged:
        for _ in range(LOG_EVERY + 1):
            assert world.admit() is None
    assert [each["turned_away_so_far"] for each in logged] == [1, LOG_EVERY + 1]
