"""The periodic tasks: retention, syncs, checkpoints, snapshots of producers, expiry of idle producers.

The runtime's timers start the tasks; work that waits for the disk is done on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

import structlog

from coordinator.purgatory.delayed import TimerOwner
from coordinator.settings.model import Settings
from coordinator.topics.partition import Partition
from coordinator.topics.registry import TopicRegistry
from coordinator.topics.workers import Workers
from storage.directory.log_directory import LogDirectory
from storage.files import StorageError
from storage.log.config import INT64_MAX
from storage.log.partition_log import PartitionLog

LOGS_PER_PIECE: Final = 500
"""Logs in one piece of work for the thread: one piece for each of 20,000 logs blocked the loop for seconds."""

PARTITIONS_PER_TURN: Final = 1_000
"""Partitions visited in one turn of the loop, in some 2 ms; requests are answered between the turns."""

Outcome: TypeAlias = int | StorageError | None
"""Outcome of the work on one log: the number of segments deleted, the error if it failed, or None."""

log = structlog.get_logger("muster.maintenance")


@dataclass(frozen=True, slots=True)
class Intervals:
    """The interval between two runs of each task."""

    retention_ms: int
    checkpoint_ms: int  # Bounds how much of the logs has to be read at a start after a crash.
    producers_ms: int
    sync_ms: int = INT64_MAX  # INT64_MAX stands for never, as in Kafka.

    @classmethod
    def of(cls, settings: Settings) -> Intervals:
        return cls(
            settings.log_retention_check_interval_ms,
            settings.log_flush_offset_checkpoint_interval_ms,
            settings.producer_id_expiration_check_interval_ms,
            settings.log_flush_scheduler_interval_ms,
        )


Task: TypeAlias = Callable[[], None]


class MaintenanceHost(Protocol):
    """The runtime, as maintenance uses it; a timer calls `owner.timer_fired(key)`, where the key is the task."""

    def now_ms(self) -> int: ...
    def wall_ms(self) -> int: ...
    def set_timer(self, owner: TimerOwner[Task], key: Task, deadline_ms: int) -> None: ...


class Maintenance:
    """Runs the tasks at their intervals; `workers` must run one piece of work at a time."""

    def __init__(
        self,
        runtime: MaintenanceHost,
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
            self._apply_retention: intervals.retention_ms,
            self._checkpoint: intervals.checkpoint_ms,
            self._forget_producers: intervals.producers_ms,
            self._sync: intervals.sync_ms,
        }

    def start(self) -> None:
        for task, interval_ms in self._intervals_ms.items():
            if interval_ms < INT64_MAX:
                self._arm(task)

    def _arm(self, task: Task) -> None:
        self._runtime.set_timer(self, task, self._runtime.now_ms() + self._intervals_ms[task])

    def timer_fired(self, task: Task) -> None:
        if task in self._intervals_ms:
            self._arm(task)  # Armed first: a task that fails is tried again at its next time.
        task()

    def _apply_retention(self) -> None:
        """Delete segments beyond the limits of age and size; logs that are only compacted keep theirs."""
        wall_ms = self._runtime.wall_ms()
        topics = (topic for topic in self._registry.all() if topic.config.is_deleting)
        logs = [partition.log for topic in topics for partition in topic.partitions]
        self._run_on_worker(logs, lambda each: each.apply_retention(wall_ms))

    def _sync(self) -> None:
        """Sync the logs for which `flush.ms` has passed; most have nothing left to sync."""
        wall_ms = self._runtime.wall_ms()
        logs = [partition.log for partition in self._registry.partitions()]
        self._run_on_worker(logs, lambda each: _sync_one(each, wall_ms))

    def _run_on_worker(self, logs: Sequence[PartitionLog], work: Callable[[PartitionLog], Outcome]) -> None:
        for first in range(0, len(logs), LOGS_PER_PIECE):
            piece = logs[first : first + LOGS_PER_PIECE]
            self._workers.submit(partial(_on_each, piece, work), _report_each)

    def _forget_producers(self) -> None:
        self._in_turns(self._registry.partitions(), self._registry.expire_producers)

    def _checkpoint(self) -> None:
        self._in_turns(self._registry.partitions(), self._snapshot_all, self._write_checkpoint)

    def _in_turns(
        self,
        partitions: Sequence[Partition],
        visit: Callable[[Sequence[Partition]], object],
        at_the_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Visit PARTITIONS_PER_TURN partitions now and the others in later turns, then call `at_the_end`.

        A stop of the daemon ends that early.
        """
        visit(partitions[:PARTITIONS_PER_TURN])
        if rest := partitions[PARTITIONS_PER_TURN:]:
            go_on = partial(self._in_turns, rest, visit, at_the_end)
            self._runtime.set_timer(self, go_on, self._runtime.now_ms())
        else:
            at_the_end()

    def _write_checkpoint(self) -> None:
        self._workers.submit(self._directory.checkpoint, lambda done: _report("checkpoint", done))

    def _snapshot_all(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            if not partition.append_error:
                self._snapshot(partition.log)

    def _snapshot(self, partition_log: PartitionLog) -> None:
        """Write a snapshot of the log's producers, if enough was appended since the last snapshot."""
        snapshot = partition_log.producers.take_snapshot()
        if snapshot is not None:
            name = partition_log.directory.name
            self._workers.submit(
                lambda: partition_log.producers.write(snapshot), lambda done: _report(name, done)
            )


def _sync_one(partition_log: PartitionLog, wall_ms: int) -> None:
    """Have the log sync what `flush.ms` asks for, if it has unsynced records; only then is its lock needed."""
    if partition_log.recovery_point < partition_log.durable_offset:
        partition_log.sync(wall_ms)


def _on_each(
    logs: Sequence[PartitionLog], work: Callable[[PartitionLog], Outcome]
) -> list[tuple[str, Outcome]]:
    """Do `work` on each log; return (name of the log, outcome). A failure does not stop work on other logs."""
    outcomes: list[tuple[str, Outcome]] = []
    for each in logs:
        try:
            outcome = work(each)
        except StorageError as error:
            outcome = error
        if outcome:
            outcomes.append((each.directory.name, outcome))
    return outcomes


def _report_each(done: Future[list[tuple[str, Outcome]]]) -> None:
    for name, outcome in done.result():
        _report_outcome(name, outcome)


def _report(task: str, done: Future[None]) -> None:
    try:
        done.result()
    except StorageError as error:
        _report_outcome(task, error)


def _report_outcome(task: str, outcome: Outcome) -> None:
    """Log an outcome. A failure loses nothing: the task is tried again after its interval."""
    if isinstance(outcome, StorageError):
        log.error("maintenance failed", task=task, error=str(outcome))
    else:
        log.info("segments deleted", task=task, count=outcome)
