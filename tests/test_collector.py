"""When Python's collector runs: a collector of the test's own, and the real one at last."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.runtime.collector import CHECK_EVERY_MS, DUE, OFF, WORTH_IT, Collector
from harness.doubles.manual_timers import ManualTimers
from muster.serve import _begin_to_collect, _leave_full_collections_to_the_daemon


class FakeGc:
    """Python's collector, as far as it is used: what was done to it, and its counts."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[str, dict[str, int]], None]] = []
        self.done: list[str] = []
        self.since_full = 0
        self.full_threshold = OFF

    def get_threshold(self) -> tuple[int, int, int]:
        return 700, 10, self.full_threshold

    def get_count(self) -> tuple[int, int, int]:
        return 0, 0, self.since_full

    def collect(self) -> None:
        self.since_full = 0
        self.done.append("collect")

    def freeze(self) -> None:
        self.done.append("freeze")

    def unfreeze(self) -> None:
        self.done.append("unfreeze")

    def collects_itself(self, generation: int) -> None:
        """A collection that Python begins by itself."""
        self.since_full += generation == 1
        for phase in ("start", "stop"):
            for callback in list(self.callbacks):
                callback(phase, {"generation": generation})


class World(ManualTimers):
    def __init__(self) -> None:
        super().__init__(10**6)
        self.gc = FakeGc()
        self.posted: list[Callable[[], None]] = []
        self.has_clients = True
        self.collector = Collector(
            self.posted.append, self.set_timer, self.now_ms, lambda: self.has_clients, self.gc
        )

    def run_posted(self) -> list[str]:
        """What was done to the collector by what was posted to the loop."""
        posted = self.posted[:]
        self.posted.clear()
        self.gc.done.clear()
        for action in posted:
            action()
        return self.gc.done

    def grow_old(self, times: int) -> None:
        for _ in range(times):
            for _ in range(DUE):
                self.gc.collects_itself(1)
            assert self.run_posted() == ["collect", "freeze"]

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


def test_what_grew_old_is_looked_at_once_on_the_loop_and_frozen(world: World) -> None:
    for _ in range(DUE - 1):
        world.gc.collects_itself(1)
    assert not world.posted
    world.gc.collects_itself(0)
    assert not world.posted
    world.gc.collects_itself(1)
    world.gc.collects_itself(1)
    assert len(world.posted) == 1, "it waits for the loop, once, and nothing is done on another thread"
    assert world.run_posted() == ["collect", "freeze"]
    world.grow_old(3)


def test_everything_is_looked_at_when_no_client_is_there(world: World) -> None:
    world.grow_old(WORTH_IT)
    assert world.check() == []
    world.has_clients = False
    assert world.check() == ["unfreeze", "collect", "freeze"]
    assert world.check() == [], "nothing has grown old since"
    world.grow_old(WORTH_IT - 1)
    assert world.check() == []


def test_where_python_collects_by_itself_nothing_is_done() -> None:
    world = World()
    world.gc.full_threshold = 10
    world.collector.start()
    assert (world.gc.callbacks, world.timers) == ([], {})


def test_after_a_stop_no_collection_is_heard_of(world: World) -> None:
    world.collector.stop()
    world.collector.stop()
    assert world.gc.callbacks == []


class Node:
    other: Any = None


def cycle() -> weakref.ref[Node]:
    node = Node()
    node.other = node
    return weakref.ref(node)


def test_the_real_one_finds_cycles_and_leaves_what_lives() -> None:
    thresholds, posted = gc.get_threshold(), list[Callable[[], None]]()
    gc.set_threshold(*thresholds[:2], OFF)
    collector = Collector(posted.append, lambda *_: None, lambda: 0, lambda: True)
    try:
        collector.start()
        alive, gone = Node(), cycle()
        for _ in range(2 * DUE):
            gc.collect(1)
        assert posted
        frozen = gc.get_freeze_count()
        assert gone() is None
        kept = [[alive] for _ in range(1_000)]
        gc.collect(1)
        old = cycle()
        gc.collect(0)
        posted[0]()
        assert old() is None
        assert gc.get_freeze_count() >= frozen + len(kept)
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
