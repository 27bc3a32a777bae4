"""The four examples of docs/delivery.md keep what it promises of each, while their workers are killed.

Two workers share a topic. At seeded moments one of them or both are killed (SIGKILL), or ended in good order
(SIGTERM), and started again at once.
In the end every row is counted where the example put it.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.observer import Observer, unique
from harness.processes import wait_until
from tests.clients.committed import CommittedView
from tests.clients.delivery.at_most_once import BATCH
from tests.clients.fleet import DEADLINE_S, Fleet, Worker

PARTITIONS = 4
ROWS = 2400
WORKERS = 2
KILLS = 4
SLEEP_AT = ROWS * 4 // 5
SEED = 20_817
END_S = 75.0
"""A sleeper's transaction holds its offsets open until it times out, after 30 s; then another worker goes on."""
FENCED = "This instance has been fenced by a newer instance"
QUICK_SETTINGS = ("session.timeout.ms=1200", "heartbeat.interval.ms=300", "fetch.wait.max.ms=50")

Record = Callable[[str, object], None]


@dataclass
class Job:
    """One example at work on a topic of its own: workers that are killed, and what they have put out so far."""

    fleet: Fleet
    observer: Observer
    example: str
    values: Callable[[], list[str]]  # Every value that was put out so far, repeats kept.
    output: str
    has_ids: bool = False  # Each worker is given a transactional id.
    all_values: Callable[[], list[str]] | None = None  # Where it takes another way to be sure of the end.
    progress: Callable[[], dict[int, int]] | None = (
        None  # The next offset of each partition; else the group's.
    )
    sleeps: bool = False  # One worker also sleeps for so long that its partitions are given to others.
    in_good_order: bool = False  # Workers are ended by SIGTERM, and have the settings that users get.
    ended: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))

    def __post_init__(self) -> None:
        self.topic, self.group = (
            self.observer.create_topic("source", PARTITIONS),
            unique("transacting" if self.has_ids else "delivery"),
        )
        self.rows = [f"row-{number}" for number in range(ROWS)]

    def run(self) -> Counter[str]:
        """Run all rows through kills; return how often each was put out once the workers have come to the end."""
        self.observer.write(self.topic, self.rows)
        self.workers = [self.start(number) for number in range(WORKERS)]
        for moment in sorted(self.chance.sample(range(ROWS // 20, ROWS * 3 // 4), KILLS)):
            self.await_put_out(moment)
            self.end_some()
        if self.sleeps:
            self.await_put_out(SLEEP_AT)
            self.send_to_sleep()
        self.await_end()
        for worker in self.workers:
            worker.wait_for_event("printed")  # Else it may not know yet what to do about SIGTERM.
            assert worker.terminate() == 0 or self.is_fenced(worker), worker.story()
        return Counter(self.all_values() if self.all_values else self.values())

    def start(self, number: int) -> Worker:
        own = [f"{self.group}-{number}"] if self.has_ids else []
        settings = () if self.in_good_order else QUICK_SETTINGS
        return self.fleet.start_example(self.example, self.topic, self.group, self.output, *own, *settings)

    def end_some(self) -> None:
        """One worker or all, whatever they are doing; others take their places."""
        for number in self.chance.sample(range(WORKERS), self.chance.randint(1, WORKERS)):
            self.end(self.workers[number])
            self.ended += 1
            self.workers[number] = self.start(number)

    def end(self, worker: Worker) -> None:
        if self.in_good_order:
            worker.wait_for_event("printed")  # Else it may not know yet what to do about SIGTERM.
            assert worker.terminate() == 0, worker.story()
        else:
            worker.kill()

    def send_to_sleep(self) -> None:
        """Stop a worker until the others have done all the rest; then it wakes, with a batch in its hands."""
        self.workers[0].pause()
        self.await_end()
        self.workers[0].resume()

    def is_fenced(self, worker: Worker) -> bool:
        """Whether it slept until its transaction had timed out: it can do no more then, and ends with an error."""
        return self.sleeps and worker is self.workers[0] and FENCED in worker.story()

    def await_put_out(self, count: int) -> None:
        self.wait(lambda: len(self.values()) >= count, f"{count} rows put out")

    def await_end(self) -> None:
        """All is committed. (What is processed after its commit still may be under way.)"""
        ends = self.observer.log_ends(self.topic, PARTITIONS)
        progress = self.progress or self.committed
        self.wait(lambda: progress() == ends, f"commits at {ends}", END_S)

    def committed(self) -> dict[int, int]:
        """The group's offsets; none while a sleeper's transaction holds them open, until that times out."""
        try:
            return self.observer.committed(self.group, self.topic)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
            return {}

    def wait(self, condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
        try:
            wait_until(condition, what, deadline_s)
        except TimeoutError as error:
            stories = "\n".join(worker.story() for worker in self.workers)
            raise AssertionError(f"{error}\n{stories}") from None


def test_at_most_once_repeats_nothing_and_loses_less_than_a_batch_for_each_death(
    quick_fleet: Fleet, watcher: Observer, tmp_path: Path, record_property: Record
) -> None:
    output = tmp_path / "rows"
    job = Job(quick_fleet, watcher, "at_most_once", lambda: lines(output), str(output))
    lost, repeated = outcome(job, record_property)
    assert repeated == 0
    assert 0 < lost <= job.ended * BATCH, "no kill came between a commit and the end of its batch"


def test_at_least_once_loses_nothing_and_repeats_what_was_not_committed(
    quick_fleet: Fleet, watcher: Observer, tmp_path: Path, record_property: Record
) -> None:
    output = tmp_path / "rows"
    job = Job(quick_fleet, watcher, "at_least_once", lambda: lines(output), str(output))
    lost, repeated = outcome(job, record_property)
    assert lost == 0
    assert repeated > 0, "no kill came between a row and its commit"


def test_exactly_once_by_a_database_neither_loses_nor_repeats(
    quick_fleet: Fleet, watcher: Observer, tmp_path: Path, record_property: Record
) -> None:
    output = tmp_path / "results.db"
    job = Job(quick_fleet, watcher, "exactly_once_sqlite", lambda: results(output), str(output))
    job.progress, job.sleeps = lambda: next_offsets(output), True
    assert outcome(job, record_property) == (0, 0)


def test_exactly_once_by_transactions_neither_loses_nor_repeats(
    quick_fleet: Fleet, watcher: Observer, record_property: Record
) -> None:
    target = watcher.create_topic("target", PARTITIONS)
    view = CommittedView(watcher.bootstrap, target, PARTITIONS)
    job = Job(quick_fleet, watcher, "exactly_once_transactions", view.values, target, has_ids=True)
    job.all_values, job.sleeps = view.read_to_the_end, True
    assert outcome(job, record_property) == (0, 0)
    view.close()


@pytest.mark.parametrize("example", ["at_most_once", "at_least_once"])
def test_workers_that_end_in_good_order_and_join_lose_and_repeat_nothing(
    fleet: Fleet, observer: Observer, tmp_path: Path, record_property: Record, example: str
) -> None:
    """The exactly-once examples need no such test: even kills lose and repeat nothing there."""
    output = tmp_path / "rows"
    job = Job(fleet, observer, example, lambda: lines(output), str(output), in_good_order=True)
    assert outcome(job, record_property) == (0, 0)


def outcome(job: Job, record_property: Record) -> tuple[int, int]:
    """Run the job; return how many rows were lost, and how many were put out more than once."""
    counts = job.run()
    assert not counts.keys() - set(job.rows), "rows that were never written"
    lost, repeated = ROWS - len(counts), sum(count > 1 for count in counts.values())
    how = "ended" if job.in_good_order else "killed"
    found = f"{ROWS} rows, {job.ended} workers {how}: {lost} lost, {repeated} repeated"
    record_property("figure", f"delivery, {job.example}: {found}")
    return lost, repeated


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def results(path: Path) -> list[str]:
    return [value for (value,) in rows(path, "results", "value")]


def next_offsets(path: Path) -> dict[int, int]:
    return dict(rows(path, "offsets", "partition, next_offset"))


def rows(path: Path, table: str, columns: str) -> list[tuple[Any, ...]]:
    """What is in the table; nothing before a worker has made it."""
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            return []
        return database.execute(f"SELECT {columns} FROM {table}").fetchall()
