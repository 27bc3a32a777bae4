"""What is done now and then: snapshots of producers come with the checkpoint, once they are worth it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.maintenance import Intervals, Maintenance
from storage import log_producers
from tests.topics.requests import produce
from tests.topics.world import World, batch

INTERVALS = Intervals(retention_ms=10**9, checkpoint_ms=60_000, producers_ms=10**9)


class Timers:
    """The part of the runtime that maintenance needs: its timers fire when a test says so."""

    def __init__(self, world: World) -> None:
        self.armed: dict[tuple[Any, Any], int] = {}
        self._world = world

    def now_ms(self) -> int:
        return self._world.time_ms

    def wall_ms(self) -> int:
        return self._world.wall

    def set_timer(self, key: tuple[Any, Any], deadline_ms: int) -> None:
        self.armed[key] = deadline_ms

    def fire(self) -> None:
        """All that is due a checkpoint's interval from now."""
        due_ms = self._world.time_ms + INTERVALS.checkpoint_ms
        for (owner, task), deadline_ms in list(self.armed.items()):
            if deadline_ms <= due_ms:
                owner.timer_fired(task)
        self._world.settle()


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.topic("t")
    return world


def test_producers_are_written_down_with_the_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_producers, "SNAPSHOT_BYTES", 1000)
    timers = Timers(world)
    maintenance = Maintenance(timers, world.registry, world.logs, world, INTERVALS)  # type: ignore[arg-type]
    maintenance.start()
    partition = world.registry.partition("t", 0)
    assert partition is not None
    directory = partition.log.directory
    produce(world, batch(b"x" * 500))
    timers.fire()
    assert list(directory.glob("*.snapshot")) == []
    produce(world, batch(b"x" * 500))
    timers.fire()
    timers.fire()
    assert [path.stem for path in directory.glob("*.snapshot")] == [f"{2:020d}"]
    partition.is_deleted = True
    produce(world, batch(b"x" * 2000))
    timers.fire()
    assert len(list(directory.glob("*.snapshot"))) == 1
