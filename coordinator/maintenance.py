"""What has to be done now and then: retention, syncs, checkpoints, snapshots of producers, forgetting silent ones.

Driven by the runtime's timers like everything else; what waits for the disk does so on a thread.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from coordinator.settings import Settings
from coordinator.topics.registry import TopicRegistry
from coordinator.topics.workers import Workers
from storage.files import StorageError
from storage.log_config import INT64_MAX
from storage.log_directory import LogDirectory
from storage.partition_log import PartitionLog

log = structlog.get_logger("muster.maintenance")


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often each kind of work comes round."""

    retention_ms: int
    checkpoint_ms: int  # How far a crash makes the next start look back.
    producers_ms: int
    sync_ms: int = INT64_MAX  # The highest number stands for never, as in Kafka.

    @classmethod
    def of(cls, settings: Settings) -> Intervals:
        return cls(
            settings.log_retention_check_interval_ms,
            settings.log_flush_offset_checkpoint_interval_ms,
            settings.producer_id_expiration_check_interval_ms,
            settings.log_flush_scheduler_interval_ms,
        )


class Timers(Protocol):
    """The part of the runtime that is needed here: `timer_fired` is called with what follows in the key."""

    def now_ms(self) -> int: ...
    def wall_ms(self) -> int: ...
    def set_timer(self, key: tuple[Any, Any], deadline_ms: int) -> None: ...


class Maintenance:
    """Arms its own timers; `workers` must run one piece of work at a time."""

    def __init__(
        self,
        runtime: Timers,
        registry: TopicRegistry,
        directory: LogDirectory,
        workers: Workers,
        intervals: Intervals,
    ) -> None:
        self._runtime = runtime
        self._registry = registry
        self._directory = directory
        self._workers = workers
        self._intervals_ms = {
            self._retain: intervals.retention_ms,
            self._checkpoint: intervals.checkpoint_ms,
            self._forget_producers: intervals.producers_ms,
            self._sync: intervals.sync_ms,
        }

    def start(self) -> None:
        for task, interval_ms in self._intervals_ms.items():
            if interval_ms < INT64_MAX:
                self._arm(task)

    def _arm(self, task: Any) -> None:
        self._runtime.set_timer((self, task), self._runtime.now_ms() + self._intervals_ms[task])

    def timer_fired(self, task: Any) -> None:
        self._arm(task)  # First: should it fail, it is tried again at its next time.
        task()

    def _retain(self) -> None:
        """Let segments go that are too old or too many; topics that are only compacted keep theirs."""
        wall_ms = self._runtime.wall_ms()
        for topic in self._registry.all():
            if topic.config.is_deleting:
                for partition in topic.partitions:
                    self._retain_one(partition.log, wall_ms)

    def _retain_one(self, partition_log: PartitionLog, wall_ms: int) -> None:
        name = partition_log.directory.name
        self._workers.submit(lambda: partition_log.apply_retention(wall_ms), lambda done: _report(name, done))

    def _sync(self) -> None:
        """Sync the logs that `flush.ms` asks for; most have nothing that was not synced."""
        wall_ms = self._runtime.wall_ms()
        for topic in self._registry.all():
            for partition in topic.partitions:
                if partition.log.recovery_point < partition.log.durable_offset:
                    self._sync_one(partition.log, wall_ms)

    def _sync_one(self, partition_log: PartitionLog, wall_ms: int) -> None:
        name = partition_log.directory.name
        self._workers.submit(lambda: partition_log.sync(wall_ms), lambda done: _report(name, done))

    def _forget_producers(self) -> None:
        self._registry.expire_producers()

    def _checkpoint(self) -> None:
        for topic in self._registry.all():
            for partition in topic.partitions:
                if not partition.append_error:
                    self._snapshot(partition.log)
        self._workers.submit(self._directory.checkpoint, lambda done: _report("checkpoint", done))

    def _snapshot(self, partition_log: PartitionLog) -> None:
        """Write down where the log's producers stand, if so much came since the last time that it is worth it."""
        snapshot = partition_log.producers.take_snapshot()
        if snapshot is not None:
            name = partition_log.directory.name
            self._workers.submit(
                lambda: partition_log.producers.write(snapshot), lambda done: _report(name, done)
            )


def _report(task: str, done: Future[Any]) -> None:
    """A failure here loses nothing: the task is tried again at its next time."""
    try:
        outcome = done.result()
    except StorageError as error:
        log.error("maintenance failed", task=task, error=str(error))
    else:
        if outcome:
            log.info("segments deleted", task=task, count=outcome)
