"""The journal's two threads: who is called back when and where, and what a failure or a bug leaves running."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread, current_thread

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from storage.files import StorageError
from storage.journal import threads as threads_module
from storage.journal.files import DIRECTORY
from storage.journal.threads import JournalThreads
from tests.storage.journals import Shards, journal_files
from tests.storage.logs import NOW_MS

PATIENCE_S = 20  # How long a test waits for another thread before it fails.
NEVER_S = 3600.0
SEGMENT = "00000000000000000000.log"


@dataclass
class Loop:
    """Stands for the event loop: what is to run on it runs when the test says so, on the test's thread."""

    due: SimpleQueue[Callable[[], None]] = field(default_factory=SimpleQueue)

    def post(self, callback: Callable[[], None]) -> None:
        self.due.put(callback)

    def turn(self) -> None:
        """Run the next callback, waiting for it."""
        self.due.get(timeout=PATIENCE_S)()

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.turn()


class Gate:
    """A fault of the double that holds operations of a name on certain paths, until it is opened."""

    def __init__(self, name: str, place: str) -> None:
        self.reached = Event()
        self._name, self._place, self._open = name, place, Event()

    def __call__(self, operation: Operation) -> None:
        if operation.is_at(self._name, self._place):
            self.reached.set()
            assert self._open.wait(PATIENCE_S)

    def wait(self) -> None:
        assert self.reached.wait(PATIENCE_S)

    def open(self) -> None:
        self._open.set()


@dataclass
class World:
    """Three logs, their journal and its threads, on a double of the disk."""

    disk: FaultyFiles
    loop: Loop
    shards: Shards
    threads: JournalThreads = field(init=False)
    answers: list[tuple[str, StorageError | None, Thread]] = field(default_factory=list)
    written: list[tuple[int, StorageError | None, Thread]] = field(default_factory=list)
    checkpoints: SimpleQueue[Thread] = field(default_factory=SimpleQueue)
    errors: SimpleQueue[BaseException] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        for index, log in enumerate(self.shards.logs):
            log.on_written = partial(self._on_written, index)
        self.threads = JournalThreads(
            self.shards.journal,
            self.loop.post,
            self.loop.post,
            lambda: NOW_MS,
            lambda: self.checkpoints.put(current_thread()),
            self.errors.put,
        )

    def _on_written(self, index: int, error: StorageError | None) -> None:
        self.written.append((index, error, current_thread()))

    def commit(self, mark: str, index: int = 0) -> None:
        """Stage a batch and schedule its log."""
        self.shards.put(index)
        self.threads.schedule(self.shards.logs[index], partial(self._done, mark))

    def _done(self, mark: str, error: StorageError | None) -> None:
        self.answers.append((mark, error, current_thread()))

    @property
    def marks(self) -> list[str]:
        return [mark for mark, _, _ in self.answers]

    def wait_for(self, *marks: str) -> None:
        self.loop.until(lambda: self.marks == list(marks))

    def frames(self) -> list[list[str]]:
        """The logs in each frame of the journal; what is read changes nothing."""
        frames = journal_files(self.shards.path).read()
        return [[name for name, _ in frame.parts] for frame in frames]


@pytest.fixture
def disk(tmp_path: Path) -> FaultyFiles:
    (tmp_path / "disk").mkdir()
    return FaultyFiles(tmp_path / "disk")


@pytest.fixture
def world(disk: FaultyFiles) -> Iterator[World]:
    world = World(disk, Loop(), Shards(disk.root, disk, 3).opened())
    yield world
    disk.fault = None
    if not world.threads._closed:
        world.threads.close()


# Frames.


def test_all_that_one_turn_schedules_is_one_frame_and_is_answered_in_order_on_the_loop(world: World) -> None:
    for mark, index in (("a", 0), ("b", 1), ("c", 0), ("d", 2)):
        world.commit(mark, index)
    assert world.answers == [], "never within the call"
    world.wait_for("a", "c", "b", "d")
    assert {(error, thread) for _, error, thread in world.answers} == {(None, current_thread())}
    assert [log.durable_offset for log in world.shards.logs] == [2, 1, 1]
    assert world.frames() == [["t-0", "t-1", "t-2"]]


def test_what_comes_while_a_frame_is_written_is_the_next_frame(world: World, disk: FaultyFiles) -> None:
    world.commit("first")
    world.wait_for("first")
    disk.fault = gate = Gate("sync", DIRECTORY)
    world.commit("second")
    world.loop.turn()
    gate.wait()
    for number in range(5):
        world.commit(str(number), number % 3)
    assert world.marks == ["first"], "not before its sync"
    gate.open()
    world.wait_for("first", "second", "0", "3", "1", "4", "2")
    assert world.frames() == [["t-0"], ["t-0"], ["t-0", "t-1", "t-2"]]


def test_a_frame_that_fails_is_answered_with_its_error_and_the_next_one_goes_on(
    world: World, disk: FaultyFiles
) -> None:
    world.commit("before")
    world.wait_for("before")
    disk.fail_always("sync", errno.ENOSPC)
    world.commit("failed", 0)
    world.wait_for("before", "failed")
    disk.fault = None
    error = world.answers[-1][1]
    assert error is not None
    assert error.is_no_room
    assert world.shards.logs[0].failure is error
    world.commit("other", 1)
    world.wait_for("before", "failed", "other")
    assert world.answers[-1][1] is None


def failing(name: str, place: str) -> Callable[[Operation], OSError | None]:
    return lambda operation: OSError(errno.EIO, "fault") if operation.is_at(name, place) else None


def bug_at(name: str, place: str) -> Callable[[Operation], None]:
    def fault(operation: Operation) -> None:
        if operation.is_at(name, place):
            raise ZeroDivisionError("a bug")

    return fault


def test_a_bug_in_a_frame_is_answered_and_raised_on_the_loop_and_the_thread_goes_on(
    world: World, disk: FaultyFiles
) -> None:
    world.commit("before")
    world.wait_for("before")
    disk.fault = bug_at("write", DIRECTORY)
    world.commit("failed", 0)
    with pytest.raises(ZeroDivisionError):
        world.wait_for("never")
    disk.fault = None
    assert world.marks == ["before", "failed"]
    error = world.answers[-1][1]
    assert error is not None
    assert "ZeroDivisionError" in error.reason
    assert world.shards.logs[0].failure is error
    world.commit("other", 1)
    world.wait_for("before", "failed", "other")
    world.shards.logs[0].fail_back()
    world.commit("again", 0)
    world.wait_for("before", "failed", "other", "again")
    assert world.shards.offsets(0) == [0, 1]


def test_a_callback_that_raises_does_not_keep_the_next_frame_from_being_written(world: World) -> None:
    def bug(error: StorageError | None) -> None:
        raise ZeroDivisionError

    world.shards.put(0)
    world.threads.schedule(world.shards.logs[0], bug)
    world.loop.turn()
    world.commit("next", 1)  # While the frame is written.
    with pytest.raises(ZeroDivisionError):
        world.wait_for("next")
    world.wait_for("next")


def raise_a_bug(error: StorageError | None) -> None:
    raise ZeroDivisionError("a bug")


def test_a_callback_that_raises_does_not_keep_the_frame_s_other_logs_from_theirs(world: World) -> None:
    world.shards.put(0)
    world.threads.schedule(world.shards.logs[0], raise_a_bug)
    world.commit("same log", 0)
    world.commit("other log", 1)
    with pytest.raises(ZeroDivisionError):
        world.loop.until(lambda: bool(world.answers))
    assert world.marks == ["same log", "other log"]


# Behind.


def test_what_counts_is_written_behind_soon_and_the_loop_is_told(world: World) -> None:
    world.commit("a", 0)
    world.commit("b", 2)
    world.loop.until(lambda: len(world.written) == 2)
    assert world.written == [(0, None, current_thread()), (2, None, current_thread())]
    assert [log.written_offset for log in world.shards.logs] == [1, 0, 1]


def test_what_is_behind_waits_for_more_unless_a_reader_waits_for_it(
    disk: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads_module, "WRITE_BEHIND_S", NEVER_S)
    world = World(disk, Loop(), Shards(disk.root, disk, 3).opened())
    log = world.shards.logs[0]
    world.commit("a")
    world.wait_for("a")
    assert log.written_offset == 0
    log.await_written()
    world.loop.until(lambda: len(world.written) == 1)
    world.commit("b")
    world.loop.until(lambda: len(world.written) == 2)
    log.end_wait()
    world.commit("c")
    world.wait_for("a", "b", "c")
    assert log.written_offset == 2
    world.threads.close()


def test_what_a_reader_waits_for_is_gathered_until_it_is_much(
    disk: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or until the time is up, as the other tests show."""
    monkeypatch.setattr(threads_module, "GATHER_S", NEVER_S)
    monkeypatch.setattr(threads_module, "WRITE_BEHIND_BYTES", 150)
    world = World(disk, Loop(), Shards(disk.root, disk, 3).opened())
    world.shards.logs[0].await_written()
    world.commit("a")
    world.wait_for("a")
    assert world.shards.logs[0].written_offset == 0
    world.commit("b")
    world.loop.until(lambda: bool(world.written))
    assert world.shards.logs[0].written_offset == 2
    world.threads.close()


def test_much_behind_is_written_without_waiting(disk: FaultyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "WRITE_BEHIND_S", NEVER_S)
    monkeypatch.setattr(threads_module, "WRITE_BEHIND_BYTES", 150)
    world = World(disk, Loop(), Shards(disk.root, disk, 3).opened())
    world.commit("a")
    world.wait_for("a")
    world.commit("b")
    world.loop.until(lambda: bool(world.written))
    assert world.shards.logs[0].written_offset == 2
    world.threads.close()


def test_a_log_that_cannot_be_written_behind_is_reported_and_the_others_are_written(
    world: World, disk: FaultyFiles
) -> None:
    disk.fault = failing("write", "t-1/")
    for index in range(3):
        world.commit(str(index), index)
    world.loop.until(lambda: len(world.written) == 3)
    assert [(index, error is None) for index, error, _ in world.written] == [(0, True), (1, False), (2, True)]


def test_a_bug_in_the_second_thread_is_reported_and_it_goes_on(world: World, disk: FaultyFiles) -> None:
    disk.fault = bug_at("write", "t-0/")
    world.commit("a", 0)
    world.wait_for("a")
    assert isinstance(world.errors.get(timeout=PATIENCE_S), ZeroDivisionError)
    disk.fault = None
    world.commit("b", 1)
    world.loop.until(lambda: sorted(index for index, _, _ in world.written) == [0, 1])


def test_a_report_that_fails_is_raised_on_the_loop_and_the_second_thread_goes_on(
    world: World, disk: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that thread commits would be acknowledged and never come to their segments."""

    def cannot_report(error: BaseException) -> None:
        raise OSError(errno.ENOSPC, "the log cannot be written")

    monkeypatch.setattr(world.threads, "_on_error", cannot_report)
    disk.fault = bug_at("write", "t-0/")
    world.commit("a", 0)
    with pytest.raises(OSError, match="the log cannot be written"):
        world.wait_for("never")
    disk.fault = None
    world.commit("b", 1)
    world.loop.until(lambda: sorted(index for index, _, _ in world.written) == [0, 1])


# Checkpoints.


@pytest.fixture
def eager(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Makes a checkpoint after each round."""
    monkeypatch.setattr(threads_module, "CHECKPOINT_BYTES", 1)
    return world


def test_a_checkpoint_is_made_when_the_file_is_large_and_told_on_the_second_thread(eager: World) -> None:
    eager.commit("a")
    eager.wait_for("a")
    assert eager.checkpoints.get(timeout=PATIENCE_S) is not current_thread()
    assert eager.shards.journal.files.numbers == [2]
    assert eager.shards.logs[0].recovery_point == 1


def test_a_checkpoint_is_made_in_time_and_not_for_nothing(
    disk: FaultyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads_module, "CHECKPOINT_S", 0.01)
    world = World(disk, Loop(), Shards(disk.root, disk, 3).opened())
    world.commit("a")
    world.wait_for("a")
    world.checkpoints.get(timeout=PATIENCE_S)
    world.threads.close()
    assert world.checkpoints.empty()
    assert world.shards.journal.files.numbers == [2]


def test_a_checkpoint_that_fails_is_reported_and_made_the_next_time(eager: World, disk: FaultyFiles) -> None:
    disk.fault = failing("create", "2.journal")
    eager.commit("a")
    eager.wait_for("a")
    assert isinstance(eager.errors.get(timeout=PATIENCE_S), StorageError)
    assert eager.checkpoints.empty()
    disk.fault = None
    eager.commit("b")
    eager.wait_for("a", "b")
    eager.checkpoints.get(timeout=PATIENCE_S)
    assert eager.shards.journal.files.numbers[0] > 1


def test_what_comes_while_a_checkpoint_is_made_is_written_behind_between_two_syncs(
    eager: World, disk: FaultyFiles
) -> None:
    first, second = Gate("sync", f"t-0/{SEGMENT}"), Gate("sync", f"t-1/{SEGMENT}")

    def fault(operation: Operation) -> None:
        first(operation)
        second(operation)

    disk.fault = fault
    eager.commit("a", 0)
    eager.commit("b", 1)
    eager.wait_for("a", "b")
    first.wait()
    eager.commit("c", 2)
    eager.wait_for("a", "b", "c")
    first.open()
    second.wait()
    eager.loop.until(lambda: 2 in [index for index, _, _ in eager.written])
    assert eager.checkpoints.empty()
    second.open()
    eager.checkpoints.get(timeout=PATIENCE_S)


# The end.


def test_a_close_writes_and_answers_all_that_was_scheduled_and_ends_the_threads(
    world: World, disk: FaultyFiles
) -> None:
    disk.fault = gate = Gate("sync", DIRECTORY)
    world.commit("in flight", 0)
    world.loop.turn()
    gate.wait()
    world.commit("waits", 1)
    gate.open()
    world.threads.close()
    assert world.marks == ["in flight", "waits"]
    assert [log.durable_offset for log in world.shards.logs] == [1, 1, 0]
    assert not any(thread.is_alive() for thread in world.threads._threads)
    while not world.loop.due.empty():
        world.loop.turn()  # What was posted before finds nothing left to do.
    assert world.marks == ["in flight", "waits"]
    with pytest.raises(AssertionError, match="after close"):
        world.threads.schedule(world.shards.logs[0], lambda _: None)


def test_a_close_does_not_wait_for_a_checkpoint_that_is_due_later(world: World) -> None:
    world.commit("a")
    world.threads.close()
    assert world.marks == ["a"]
    assert world.checkpoints.empty()


def test_a_bug_at_the_close_is_raised_once_the_rest_is_answered_and_the_threads_have_ended(
    world: World, disk: FaultyFiles
) -> None:
    world.commit("before")
    world.wait_for("before")
    disk.fault = gate = Gate("sync", DIRECTORY)
    world.shards.put(0)
    world.threads.schedule(world.shards.logs[0], raise_a_bug)
    world.loop.turn()
    gate.wait()
    world.commit("waits", 1)
    gate.open()
    with pytest.raises(ZeroDivisionError):
        world.threads.close()
    assert world.marks == ["before", "waits"]
    assert not any(thread.is_alive() for thread in world.threads._threads)
