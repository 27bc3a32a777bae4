"""What is done now and then: each kind of work by its own setting; snapshots of producers with the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.history.events import TOPIC as HISTORY_TOPIC
from coordinator.settings.model import Settings
from coordinator.upkeep.maintenance import Intervals, Maintenance
from harness.doubles.manual_timers import ManualTimers
from harness.doubles.runtime_world import WALL_MS
from storage.log import log_producers
from storage.log.checkpoints import RECOVERY_POINTS
from storage.log.partition_log import PartitionLog
from tests.topics.requests import produce
from tests.topics.world import World, batch, topic_of

INTERVALS = Intervals(retention_ms=10**9, checkpoint_ms=60_000, producers_ms=10**9)
RARELY_MS = 10**9
PARTITIONS = 1_000
WORK_BY_SETTING = {
    "log_retention_check_interval_ms": "retention",
    "log_flush_offset_checkpoint_interval_ms": "checkpoint",
    "producer_id_expiration_check_interval_ms": "producers",
}


class Timers(ManualTimers):
    """The timers of maintenance alone, beside a world whose partitions have theirs."""

    def __init__(self, world: World) -> None:
        super().__init__(world.time_ms)
        self._world = world

    def wall_ms(self) -> int:
        return self._world.wall

    def fire(self) -> None:
        """All that is due a checkpoint's interval from now."""
        self.fire_due(within_ms=INTERVALS.checkpoint_ms)
        self._world.settle()


def maintenance_of(timers: Timers, world: World, intervals: Intervals) -> Maintenance:
    caretaker: Any = world
    return Maintenance(timers, world.registry, world.logs, caretaker, intervals)


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
    maintenance_of(timers, world, intervals).start()
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
    maintenance_of(timers, world, Intervals.of(Settings())).start()
    assert len(timers.timers) == 3
    log = log_of(world)
    log.config = replace(log.config, flush_ms=0)
    produce(world, batch(b"x"))
    for owner, task in list(timers.timers):
        owner.timer_fired(task)
    world.settle()
    assert (log.durable_offset, log.recovery_point) == (1, 0)


def test_producers_are_written_down_with_the_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_producers, "SNAPSHOT_BYTES", 1000)
    timers = Timers(world)
    maintenance_of(timers, world, INTERVALS).start()
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
    produce(world, batch(b"x" * 2000))
    partition.close()  # Its files are going.
    timers.fire()
    assert len(list(directory.glob("*.snapshot"))) == 1


def test_work_that_fails_comes_round_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(world)
    maintenance_of(timers, world, replace(INTERVALS, producers_ms=INTERVALS.checkpoint_ms)).start()
    produce(world, batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0))
    partition = world.registry.partition("t", 0)
    assert partition is not None
    assert partition.producers is not None

    def fail(partitions: object) -> None:
        raise RuntimeError("a bug of ours")

    with monkeypatch.context() as once:
        once.setattr(world.registry, "expire_producers", fail)
        with pytest.raises(RuntimeError, match="a bug of ours"):
            timers.fire()
    world.wall += world.settings.producer_id_expiration_ms
    timers.fire()
    assert not len(partition.producers)


@pytest.mark.parametrize("setting", WORK_BY_SETTING)
def test_each_setting_drives_its_own_work(tmp_path: Path, setting: str) -> None:
    """All three have something to do; what comes round is what the setting is for, and nothing else."""
    world = World(tmp_path)
    world.topic("t", retention_ms="60000", segment_ms="30000")
    week_ago_ms = WALL_MS - 7 * 24 * 3_600_000
    produce(world, batch(b"old", at_ms=week_ago_ms, producer_id=7, producer_epoch=0, base_sequence=0))
    produce(world, batch(b"new"))
    world.wall += world.settings.producer_id_expiration_ms
    rarely = dict.fromkeys(WORK_BY_SETTING, RARELY_MS)
    settings: Any = Settings.model_validate(rarely | {setting: INTERVALS.checkpoint_ms})
    timers = Timers(world)
    maintenance_of(timers, world, Intervals.of(settings)).start()
    assert done(world) == set()
    timers.fire()
    assert done(world) == {WORK_BY_SETTING[setting]}


def test_retention_comes_to_every_partition_of_every_topic_that_is_deleted_from(tmp_path: Path) -> None:
    world = World(tmp_path)
    limits = {"retention.ms": "60000", "segment.ms": "30000"}
    world.topic("t", 2, **{name.replace(".", "_"): value for name, value in limits.items()})
    world.registry.internal(HISTORY_TOPIC, 1, {**limits, "cleanup.policy": "delete"})
    partitions = [("t", 0), ("t", 1), (HISTORY_TOPIC, 0)]
    logs = []
    for topic, index in partitions:
        partition = world.registry.partition(topic, index)
        assert partition is not None
        logs.append(partition.log)
        for at_ms in (WALL_MS - 120_000, WALL_MS):
            partition.append_local(bytearray(batch(b"x", at_ms=at_ms)))
            world.settle()
    timers = Timers(world)
    intervals = replace(INTERVALS, retention_ms=INTERVALS.checkpoint_ms, checkpoint_ms=RARELY_MS)
    maintenance_of(timers, world, intervals).start()
    timers.fire()
    assert [log.log_start_offset for log in logs] == [1, 1, 1]


def test_all_partitions_together_are_a_few_pieces_of_work(tmp_path: Path) -> None:
    """The loop hands each over, and 20,000 pieces took it seconds; the last partition has its turn as well."""
    world = World(tmp_path)
    world.topic("t", PARTITIONS, retention_ms="60000", segment_ms="30000")
    for at_ms in (WALL_MS - 120_000, WALL_MS):
        produce(world, batch(b"x", at_ms=at_ms), partition=PARTITIONS - 1)
    last = topic_of(world, "t").partitions[-1].log
    last.config = replace(last.config, flush_ms=0)
    timers = Timers(world)
    maintenance_of(timers, world, replace(INTERVALS, retention_ms=1, sync_ms=2)).start()
    handed_over = []
    for interval_ms in (2, 1):
        for owner, task in [key for key, due_ms in timers.timers.items() if due_ms == 1000 + interval_ms]:
            owner.timer_fired(task)
            handed_over.append(len(world.queue))
            world.settle()
    assert (last.recovery_point, last.log_start_offset) == (2, 1)
    assert len(handed_over) == 2
    assert max(handed_over) <= PARTITIONS // 100


def test_partitions_are_looked_at_in_turns_of_the_loop(world: World) -> None:
    """20,000 at once took some 40 ms to forget producers, and 20 to see which have to be written down."""
    world.topic("wide", 2 * PARTITIONS + 1)
    partitions = topic_of(world, "wide").partitions
    written = [partitions[0], partitions[PARTITIONS], partitions[-1]]
    for each in written:
        of_producer = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
        produce(world, of_producer, topic="wide", partition=each.index)
    world.wall += world.settings.producer_id_expiration_ms
    timers = Timers(world)
    maintenance_of(timers, world, replace(INTERVALS, producers_ms=INTERVALS.checkpoint_ms)).start()
    known = []
    for _ in range(3):
        timers.fire()
        has_checkpoint = (world.directory / RECOVERY_POINTS).exists()
        known.append(([len(each.producers or ()) for each in written], has_checkpoint))
    assert known == [([0, 1, 1], False), ([0, 0, 1], False), ([0, 0, 0], True)]


def test_a_log_that_fails_leaves_the_others_their_turn(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.topic("t", 2, retention_ms="60000", segment_ms="30000")
    logs = [partition.log for partition in topic_of(world, "t").partitions]
    for index in range(2):
        for at_ms in (WALL_MS - 120_000, WALL_MS):
            produce(world, batch(b"x", at_ms=at_ms), partition=index)
    logs[0].abandon()  # As when its topic is deleted meanwhile.
    timers = Timers(world)
    intervals = replace(INTERVALS, retention_ms=INTERVALS.checkpoint_ms, checkpoint_ms=RARELY_MS)
    maintenance_of(timers, world, intervals).start()
    with capture_logs() as lines:
        timers.fire()
    assert [log.log_start_offset for log in logs] == [0, 1]
    assert [(line["event"], line["task"]) for line in lines] == [
        ("maintenance failed", "t-0"),
        ("segments deleted", "t-1"),
    ]


def done(world: World) -> set[str]:
    """Which work has left its traces."""
    partition = world.registry.partition("t", 0)
    assert partition is not None
    assert partition.producers is not None
    traces = {
        "retention": partition.log.log_start_offset > 0,
        "checkpoint": (world.directory / RECOVERY_POINTS).exists(),
        "producers": not len(partition.producers),
    }
    return {name for name, is_there in traces.items() if is_there}
