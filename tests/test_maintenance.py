"""What is done now and then: snapshots of producers come with the checkpoint, once they are worth it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.maintenance import Intervals, Maintenance
from coordinator.settings import Settings
from storage import log_producers
from storage.partition_log import PartitionLog
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


def log_of(world: World) -> PartitionLog:
    partition = world.registry.partition("t", 0)
    assert partition is not None
    return partition.log


def test_logs_are_synced_as_their_flush_ms_asks_when_that_is_looked_at(world: World) -> None:
    timers = Timers(world)
    intervals = replace(INTERVALS, sync_ms=INTERVALS.checkpoint_ms)
    Maintenance(timers, world.registry, world.logs, world, intervals).start()
    log = log_of(world)
    log.config = replace(log.config, flush_ms=1000)
    produce(world, batch(b"x"))
    world.wall += 999
    timers.fire()
    assert (log.durable_offset, log.recovery_point) == (1, 0)
    world.wall += 1
    timers.fire()
    assert log.recovery_point == 1


def test_by_default_nothing_looks_for_logs_to_sync(world: World) -> None:
    timers = Timers(world)
    intervals = Intervals.of(Settings())
    Maintenance(timers, world.registry, world.logs, world, intervals).start()
    assert len(timers.armed) == 3
    log = log_of(world)
    log.config = replace(log.config, flush_ms=0)
    produce(world, batch(b"x"))
    for owner, task in list(timers.armed):
        owner.timer_fired(task)
    world.settle()
    assert (log.durable_offset, log.recovery_point) == (1, 0)


def test_producers_are_written_down_with_the_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_producers, "SNAPSHOT_BYTES", 1000)
    timers = Timers(world)
    maintenance = Maintenance(timers, world.registry, world.logs, world, INTERVALS)
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
