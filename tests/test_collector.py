"""When Python's collector runs: a collector of the test's own, and the real one at last."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.runtime.collector import (
    CHECK_EVERY_MS,
    FEW_BLOCKS,
    OFF,
    WORTH_IT,
    YOUNG,
    Collector,
)
from harness.doubles.manual_timers import ManualTimers
from muster.serve import _begin_to_collect, _leave_full_collections_to_the_daemon


class FakeGc:
    """Python's collector, as far as it is used, and what was done to it."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[str, dict[str, int]], None]] = []
        self.done: list[str] = []
        self.thresholds = (700, 10, OFF)

    def get_threshold(self) -> tuple[int, int, int]:
        return self.thresholds

    def set_threshold(self, young: int, middle: int, full: int) -> None:
        self.thresholds = young, middle, full

    def collect(self, generation: int = 2) -> None:
        self.done.append("collect" if generation == 2 else f"collect {generation}")

    def freeze(self) -> None:
        self.done.append("freeze")

    def unfreeze(self) -> None:
        self.done.append("unfreeze")

    def collects_itself(self, generation: int) -> list[str]:
        """What is done about a collection that Python begins by itself, phase by phase."""
        self.done.clear()
        for phase in ("start", "stop"):
            for callback in list(self.callbacks):
                callback(phase, {"generation": generation})
            self.done.append(phase)
        return self.done


class FakeTurns:
    on_busy: Callable[[], None] | None = None


class World(ManualTimers):
    def __init__(self) -> None:
        super().__init__(10**6)
        self.gc = FakeGc()
        self.turns = FakeTurns()
        self.has_clients = True
        self.blocks = 1_000_000
        self.collector = Collector(
            self.set_timer,
            self.now_ms,
            lambda: self.has_clients,
            self.turns,
            self.gc,
            lambda: self.blocks,
        )

    def freeze(self, times: int) -> None:
        for _ in range(times):
            assert self.gc.collects_itself(0) == ["start", "freeze", "stop"]

    def check(self) -> list[str]:
        """What the next check does, which is a minute later."""
        assert self.timers == {(self.collector, None): self.time_ms + CHECK_EVERY_MS}
        self.gc.done.clear()
        self.advance_to(self.time_ms + CHECK_EVERY_MS)
        return self.gc.done


@pytest.fixture
def world() -> World:
    made = World()
    made.collector.start()
    return made


def test_what_the_start_made_is_frozen(world: World) -> None:
    assert world.gc.done == ["freeze"]


def test_what_was_looked_at_once_is_frozen_behind_the_look(world: World) -> None:
    world.freeze(3)


def test_while_the_loop_is_busy_the_young_are_looked_at_however_many_old_ones_go(world: World) -> None:
    """Python subtracts those from what is new: in a storm of joins the next look would be late, and take long."""
    on_busy = world.turns.on_busy
    assert on_busy is not None
    world.gc.done.clear()
    on_busy()
    assert world.gc.done == ["collect 0"]
    world.collector.stop()
    assert world.turns.on_busy is None


def test_a_look_at_more_than_the_young_is_left_alone(world: World) -> None:
    """It is somebody's who wants to know what is found."""
    assert world.gc.collects_itself(2) == ["start", "stop"]


def test_everything_is_looked_at_when_no_client_is_there(world: World) -> None:
    world.freeze(WORTH_IT)
    assert world.check() == []
    world.has_clients = False
    assert world.check() == ["unfreeze", "collect", "freeze"]
    assert world.check() == [], "nothing was frozen since"
    world.freeze(WORTH_IT - 1)
    assert world.check() == []


def test_what_takes_long_to_look_at_is_not(world: World) -> None:
    """A client that connects meanwhile would wait for it: 200 ms with 20,000 members."""
    world.freeze(WORTH_IT)
    world.has_clients = False
    world.blocks += FEW_BLOCKS + 1
    assert world.check() == []
    world.blocks -= 1
    assert world.check() == ["unfreeze", "collect", "freeze"], "as soon as enough of it is gone"


def test_where_python_collects_by_itself_nothing_is_done() -> None:
    world = World()
    world.gc.thresholds = 700, 10, 10
    world.collector.start()
    assert (world.gc.callbacks, world.timers, world.turns.on_busy) == ([], {}, None)
    world.collector.stop()
    assert world.gc.thresholds == (700, 10, 10)


def test_after_a_stop_no_collection_is_heard_of(world: World) -> None:
    assert world.gc.thresholds == (YOUNG, OFF, OFF)
    world.collector.stop()
    world.collector.stop()
    assert world.gc.callbacks == []
    assert world.gc.thresholds == (700, 10, OFF)


class Node:
    other: Any = None


def cycle() -> weakref.ref[Node]:
    node = Node()
    node.other = node
    return weakref.ref(node)


def test_the_real_one_finds_cycles_and_leaves_what_lives() -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(*thresholds[:2], OFF)
    collector = Collector(lambda *_: None, lambda: 0, lambda: True, FakeTurns())
    try:
        collector.start()
        frozen = gc.get_freeze_count()
        gone = cycle()
        kept = [[gone] for _ in range(2 * YOUNG)]
        assert gone() is None, "so many are looked at by themselves"
        assert gc.get_freeze_count() > frozen + YOUNG / 2
        assert not any(each is kept for each in gc.get_objects()), "no later collection visits it"
    finally:
        collector.stop()
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def test_muster_serve_leaves_full_collections_to_it() -> None:
    """Python's own would hold up the loop at any moment, for as long as all members take to be looked at."""
    thresholds = gc.get_threshold()
    try:
        _leave_full_collections_to_the_daemon()
        assert gc.get_threshold()[:2] == thresholds[:2]
        assert gc.get_threshold()[2] >= OFF
    finally:
        gc.set_threshold(*thresholds)


def test_what_was_imported_is_looked_at_by_no_collection() -> None:
    """With collection off during the imports, the first one would look at all that they made."""
    gc.disable()
    try:
        imported = Node()
        assert any(each is imported for each in gc.get_objects())
        _begin_to_collect()
        assert gc.isenabled()
        assert not any(each is imported for each in gc.get_objects())
    finally:
        gc.enable()
        gc.unfreeze()
