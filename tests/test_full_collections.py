"""When cycles are looked for among all that lives: time is an argument; the real collector comes last."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from coordinator.runtime import full_collections
from coordinator.runtime.full_collections import (
    CHECK_EVERY_MS,
    DUE,
    OVERDUE,
    QUIET_MS,
    SHARE,
    FullCollections,
)
from harness.daemon_thread import Daemon
from harness.doubles.faulty_files import FaultyFiles
from harness.doubles.manual_timers import ManualTimers
from harness.processes import wait_until

THRESHOLDS = gc.get_threshold()
TOOK_MS = 2_500


class World(ManualTimers):
    def __init__(self) -> None:
        super().__init__(10**6)
        self.connected_ms = 0
        self.since_last = 0
        self.collections = 0
        self.made = FullCollections(
            self.set_timer,
            self.now_ms,
            lambda: self.connected_ms,
            self._collect,
            lambda: (0, 0, self.since_last),
        )
        self.made.start()

    def _collect(self) -> None:
        self.collections += 1
        self.since_last = 0

    def tick(self, after_ms: int) -> int:
        """Collections by the next check, which is due then."""
        before = self.collections
        assert self.timers == {(self.made, None): self.time_ms + after_ms}
        self.advance_to(self.time_ms + after_ms)
        assert self.timers.keys() == {(self.made, None)}
        return self.collections - before


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_collected_before_it_is_worth_it(world: World) -> None:
    world.since_last = DUE - 1
    start_ms = world.time_ms
    assert [world.tick(CHECK_EVERY_MS) for _ in range(5)] == [0] * 5
    assert world.time_ms - start_ms >= 5 * 60_000  # What does nothing sleeps.
    world.since_last = DUE
    assert [world.tick(CHECK_EVERY_MS), world.tick(CHECK_EVERY_MS)] == [1, 0]


def test_clients_that_connect_are_waited_for(world: World) -> None:
    world.since_last = OVERDUE - 1
    world.connected_ms = world.time_ms + CHECK_EVERY_MS - QUIET_MS + 1
    assert world.tick(CHECK_EVERY_MS) == 0
    for _ in range(100):
        world.connected_ms = world.time_ms + 1
        assert world.tick(QUIET_MS) == 0
    assert world.tick(QUIET_MS) == 1


def test_clients_that_connect_for_ever_are_not_waited_for(world: World) -> None:
    world.since_last = OVERDUE
    world.connected_ms = world.time_ms + CHECK_EVERY_MS
    assert world.tick(CHECK_EVERY_MS) == 1


def test_little_of_the_time_goes_to_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = iter((5.0, 5.0 + TOOK_MS / 1000))
    monkeypatch.setattr("coordinator.runtime.full_collections.time.monotonic", lambda: next(clock_s))
    world.since_last = OVERDUE
    assert world.tick(CHECK_EVERY_MS) == 1
    monkeypatch.undo()
    end_ms = world.time_ms + TOOK_MS * SHARE
    assert world.tick(CHECK_EVERY_MS) == 0
    world.since_last = OVERDUE
    assert world.tick(CHECK_EVERY_MS) == 0
    assert world.tick(end_ms - world.time_ms) == 1


def test_real_cycles_are_found() -> None:
    class Cycle:
        me: object

    cycle = Cycle()
    cycle.me = cycle
    del cycle
    made = FullCollections(lambda *_: None, lambda: 10**9, lambda: 0, count=lambda: (0, 0, DUE))
    assert any(isinstance(each, Cycle) for each in gc.get_objects())
    made.timer_fired(None)
    assert not any(isinstance(each, Cycle) for each in gc.get_objects())


def test_a_daemon_does_it_once_no_client_connects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_collections, "DUE", 0)
    with Daemon(tmp_path, FaultyFiles(tmp_path)):
        seen: list[int] = []

        def watch(phase: str, info: dict[str, int]) -> None:
            if info["generation"] == 2 and threading.current_thread() is not threading.main_thread():
                seen.append(info["generation"])

        gc.callbacks.append(watch)
        gc.set_threshold(700, 10, 2**31 - 1)
        try:
            wait_until(lambda: seen, "a full collection", 20)
        finally:
            gc.callbacks.remove(watch)
            gc.set_threshold(*THRESHOLDS)
