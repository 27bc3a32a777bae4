"""Group commit: which outcome arrives where, on which thread, and how often the disk and the loop are asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.files import StorageError
from storage.flusher import Flusher
from storage.log.partition_log import PartitionLog
from tests.storage.logs import NOW_MS, SMALL, all_spans, batch, open_log

PATIENCE_S = 10  # How long a test waits for another thread before it fails.
BROKEN = StorageError("sync", Path("t-0"), "Input/output error", 5)
KINDS_OF_BUG = (AssertionError("ours"), SystemExit("ours"))
"""One of Python's ordinary exceptions, and one that is no Exception."""


class Loop:
    """Stands for the event loop: what is posted runs when the test says so, on the test's thread."""

    def __init__(self) -> None:
        self.posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.wakeups = 0

    def post(self, callback: Callable[[], None]) -> None:
        self.posted.put(callback)

    def turn(self) -> None:
        """Run the next callback, waiting for it."""
        callback = self.posted.get(timeout=PATIENCE_S)
        self.wakeups += 1
        callback()


class SlowLog:
    """A log whose flushes begin when they are asked to and end when the test lets them."""

    def __init__(self) -> None:
        self.next_offset = 0
        self.durable_offset = 0
        self.flushes = 0
        self.started: SimpleQueue[int] = SimpleQueue()
        self.allowed: SimpleQueue[BaseException | None] = SimpleQueue()

    def flush(self) -> None:
        self.flushes += 1
        taken = self.next_offset
        self.started.put(taken)
        outcome = self.allowed.get(timeout=PATIENCE_S)
        if outcome is not None:
            raise outcome
        self.durable_offset = taken

    def stage(self) -> None:
        self.next_offset += 1

    def end_flush(self, outcome: BaseException | None = None) -> None:
        self.allowed.put(outcome)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def flusher(loop: Loop) -> Iterator[Flusher]:
    flusher = Flusher(2, loop.post)
    yield flusher
    flusher.close()


def test_done_runs_on_the_loop_after_the_log_is_durable(loop: Loop, flusher: Flusher) -> None:
    log, seen = SlowLog(), []
    log.stage()
    flusher.schedule(log, lambda error: seen.append((threading.current_thread(), log.durable_offset, error)))
    log.end_flush()
    assert seen == []
    loop.turn()
    assert seen == [(threading.current_thread(), 1, None)]


def test_what_is_staged_during_a_flush_goes_into_the_next_as_one(loop: Loop, flusher: Flusher) -> None:
    log = SlowLog()
    seen: list[str | int] = []

    def note(mark: str | int, _: StorageError | None) -> None:
        seen.append(mark)

    log.stage()
    flusher.schedule(log, partial(note, "first"))
    assert log.started.get(timeout=PATIENCE_S) == 1
    for number in range(10):
        log.stage()
        flusher.schedule(log, partial(note, number))
    log.end_flush()
    loop.turn()
    assert seen == ["first"]
    assert log.started.get(timeout=PATIENCE_S) == 11
    log.end_flush()
    loop.turn()
    assert seen == ["first", *range(10)]
    assert log.flushes == 2


def test_the_threads_get_the_logs_of_a_turn_at_its_end(loop: Loop) -> None:
    """They would take the interpreter from it, request by request."""
    at_end: list[Callable[[], None]] = []
    flusher = Flusher(2, loop.post, at_end.append)
    one, other = SlowLog(), SlowLog()
    seen: list[StorageError | None] = []
    for log in (one, other, one):
        log.stage()
        flusher.schedule(log, seen.append)
    (end_turn,) = at_end
    assert (one.flushes, other.flushes) == (0, 0)
    end_turn()
    assert (one.started.get(timeout=PATIENCE_S), other.started.get(timeout=PATIENCE_S)) == (2, 1)
    one.end_flush()
    other.end_flush()
    while len(seen) < 3:
        loop.turn()
    one.stage()
    flusher.schedule(one, seen.append)
    assert len(at_end) == 2, "and those of the next at the end of that"
    one.end_flush()
    flusher.close()  # Though that never comes.
    assert seen == [None] * 4


def test_one_log_is_never_flushed_twice_at_a_time_and_others_do_not_wait(
    loop: Loop, flusher: Flusher
) -> None:
    slow, fast = SlowLog(), SlowLog()
    seen: list[SlowLog] = []

    def note(log: SlowLog, _: StorageError | None) -> None:
        seen.append(log)

    for log in (slow, slow, fast):
        log.stage()
        flusher.schedule(log, partial(note, log))
    fast.end_flush()
    loop.turn()
    assert seen == [fast]
    assert slow.flushes == 1
    slow.end_flush()
    loop.turn()
    assert (seen[1:], slow.flushes) in (([slow, slow], 1), ([slow], 1))
    slow.end_flush()


def test_completions_that_fall_together_share_a_wakeup(loop: Loop) -> None:
    flusher, logs = Flusher(1, loop.post), [SlowLog() for _ in range(20)]
    seen: list[SlowLog] = []

    def note(log: SlowLog, _: StorageError | None) -> None:
        seen.append(log)

    for log in logs:
        log.stage()
        flusher.schedule(log, partial(note, log))
        log.end_flush()
    for log in logs:  # All have begun, so all but the last have ended.
        log.started.get(timeout=PATIENCE_S)
    while len(seen) < 20:
        loop.turn()
    assert seen == logs
    assert loop.wakeups <= 2
    flusher.close()


class TurningAway:
    """The flusher's queue of outcomes, which does `meanwhile` once it was found empty, before its reader knows."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._meanwhile: Callable[[], None] | None = meanwhile
        self.put, self.get = self._queue.put, self._queue.get

    def get_nowait(self) -> Any:
        try:
            return self._queue.get_nowait()
        except Empty:
            meanwhile, self._meanwhile = self._meanwhile, None
            if meanwhile is not None:
                meanwhile()
            raise


def test_a_flush_that_ends_as_the_loop_turns_away_wakes_it_again(loop: Loop) -> None:
    """Else its answer would wait for the next flush of any log: for ever, if there is none."""
    flusher = Flusher(1, loop.post)
    seen: list[SlowLog] = []
    first, late, next_one = SlowLog(), SlowLog(), SlowLog()

    def meanwhile() -> None:
        late.end_flush()
        next_one.started.get(timeout=PATIENCE_S)  # Its only worker is through with the late one.

    # Its own queue may turn away at any time; this one does so at the worst.
    flusher._flushed = TurningAway(meanwhile)  # type: ignore[assignment]

    def schedule(log: SlowLog) -> None:
        log.stage()
        flusher.schedule(log, lambda _: seen.append(log))

    for log in (first, late, next_one):
        schedule(log)
    first.end_flush()
    loop.turn()
    assert seen == [first]
    assert not loop.posted.empty(), "the loop sleeps, and an outcome lies there"
    loop.turn()
    assert seen == [first, late]
    next_one.end_flush()
    flusher.close()


def test_a_failed_flush_is_reported_to_all_that_wait_and_is_not_tried_again(
    loop: Loop, flusher: Flusher
) -> None:
    log = SlowLog()
    seen: list[StorageError | None] = []
    for _ in range(3):
        log.stage()
        flusher.schedule(log, seen.append)
    log.end_flush(BROKEN)
    loop.turn()
    assert seen == [BROKEN] * 3
    assert log.flushes == 1


@pytest.mark.parametrize("bug", KINDS_OF_BUG, ids=repr)
def test_a_bug_in_a_flush_surfaces_on_the_loop(loop: Loop, bug: BaseException) -> None:
    """And none waits for ever: all are called with the failure."""
    flusher, log = Flusher(1, loop.post), SlowLog()
    seen: list[StorageError | None] = []
    log.stage()
    flusher.schedule(log, seen.append)
    log.end_flush(bug)
    with pytest.raises(type(bug), match="ours"):
        loop.turn()
    assert [type(error) for error in seen] == [StorageError]
    flusher.close()


@pytest.mark.parametrize("bug", KINDS_OF_BUG, ids=repr)
def test_a_bug_in_a_callback_does_not_hold_up_those_behind_it(loop: Loop, bug: BaseException) -> None:
    """It surfaces when they have been answered; two of them surface as one."""
    flusher, log = Flusher(1, loop.post), SlowLog()
    seen: list[StorageError | None] = []

    def fail(error: StorageError | None) -> None:
        raise bug

    for raised, bugs in ((type(bug), 1), (BaseExceptionGroup, 2)):
        seen.clear()
        log.stage()
        for done in (*[fail] * bugs, seen.append):
            flusher.schedule(log, done)
        log.end_flush()
        with pytest.raises(raised):
            loop.turn()
        assert seen == [None]
        loop.turn()  # It was posted again, for outcomes behind this one.
    flusher.close()


@pytest.mark.parametrize("bug", KINDS_OF_BUG, ids=repr)
def test_a_bug_in_one_flush_does_not_hold_up_the_outcomes_behind_it(loop: Loop, bug: BaseException) -> None:
    """Their wake-up is the one that the bug ended; the next may come with the next flush, or never."""
    flusher, broken, sound, next_one = Flusher(1, loop.post), SlowLog(), SlowLog(), SlowLog()
    seen: list[str] = []

    def note(name: str, _: StorageError | None) -> None:
        seen.append(name)

    for name, log in (("broken", broken), ("sound", sound), ("next", next_one)):
        log.stage()
        flusher.schedule(log, partial(note, name))
    broken.end_flush(bug)
    sound.end_flush()
    next_one.started.get(timeout=PATIENCE_S)  # Its only worker is through with the two before.
    with pytest.raises(type(bug), match="ours"):
        loop.turn()
    assert not loop.posted.empty(), "the loop sleeps, and an outcome lies there"
    loop.turn()
    assert seen == ["broken", "sound"]
    next_one.end_flush()
    flusher.close()


def test_an_empty_queue_of_a_callback_is_not_taken_for_that_of_the_outcomes(loop: Loop) -> None:
    """`queue.Empty` is how the loop knows that it has taken all; raised by a callback it is a bug like others."""
    flusher, broken, sound, next_one = Flusher(1, loop.post), SlowLog(), SlowLog(), SlowLog()
    seen: list[StorageError | None] = []

    def fail(error: StorageError | None) -> None:
        raise Empty

    for log, done in ((broken, fail), (sound, seen.append), (next_one, seen.append)):
        log.stage()
        flusher.schedule(log, done)
    broken.end_flush()
    sound.end_flush()
    next_one.started.get(timeout=PATIENCE_S)  # Its only worker is through with the two before.
    wake_up = loop.posted.get(timeout=PATIENCE_S)
    with pytest.raises(Empty):
        wake_up()
    assert not loop.posted.empty(), "the loop sleeps, and an outcome lies there"
    loop.turn()
    assert seen == [None]
    next_one.end_flush()
    flusher.close()


def test_what_was_cut_back_before_its_flush_is_not_flushed_for_ever(loop: Loop, flusher: Flusher) -> None:
    """Cutting the log back has answered those who waited; there is nothing left that could become durable."""
    log = SlowLog()
    seen: list[StorageError | None] = []
    log.stage()
    flusher.schedule(log, seen.append)
    assert log.started.get(timeout=PATIENCE_S) == 1
    log.stage()
    flusher.schedule(log, seen.append)
    log.end_flush()
    log.next_offset = 1
    loop.turn()
    assert (seen, log.flushes) == ([None, None], 1)


def test_close_flushes_all_that_was_scheduled(loop: Loop) -> None:
    flusher, log = Flusher(2, loop.post), SlowLog()
    seen: list[StorageError | None] = []
    log.stage()
    flusher.schedule(log, seen.append)
    log.started.get(timeout=PATIENCE_S)
    log.stage()
    flusher.schedule(log, seen.append)
    log.end_flush()
    log.end_flush()
    flusher.close()
    assert (seen, log.durable_offset) == ([None, None], 2)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("flusher-")]


@pytest.mark.parametrize("bug", KINDS_OF_BUG, ids=repr)
@pytest.mark.parametrize("raising", [1, 2])
def test_close_answers_all_and_ends_the_threads_whatever_callbacks_raise(
    loop: Loop, bug: BaseException, raising: int
) -> None:
    """What they raise surfaces when that is done; that of several logs as one."""
    flusher, logs = Flusher(2, loop.post), [SlowLog() for _ in range(3)]
    seen: list[SlowLog] = []

    def answer(log: SlowLog, _: StorageError | None) -> None:
        seen.append(log)
        if log in logs[:raising]:
            raise bug

    for log in logs:
        log.stage()
        flusher.schedule(log, partial(answer, log))
        log.end_flush()
    with pytest.raises(type(bug) if raising == 1 else BaseExceptionGroup):
        flusher.close()
    assert set(seen) == set(logs)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("flusher-")]
    with pytest.raises(AssertionError, match="scheduled after close"):
        flusher.schedule(logs[0], lambda _: None)


def test_no_outcome_is_reported_before_the_disk_has_synced(tmp_path: Path, loop: Loop) -> None:
    """Real logs: at every `done`, the last sync of the log's file came after its last write."""
    files, flusher = FaultyFiles(tmp_path), Flusher(2, loop.post)
    logs = [open_log(tmp_path / f"t-{number}", SMALL, files) for number in range(4)]
    pending: deque[int] = deque()
    for number in range(200):
        log = logs[number % 4]
        position = log.append(batch(), wall_ms=NOW_MS).last_offset
        pending.append(number)

        def done(error: StorageError | None, log: PartitionLog = log, position: int = position) -> None:
            assert error is None
            assert log.durable_offset > position
            written = [op for op in list(files.operations) if op.path.parent == log.directory]
            synced = max(i for i, op in enumerate(written) if op.name == "sync" and op.path.suffix == ".log")
            size = sum(
                op.size_bytes for op in written[:synced] if op.name == "write" and op.path.suffix == ".log"
            )
            assert size >= (position + 1) * len(batch())
            pending.popleft()

        flusher.schedule(log, done)
    while pending:
        loop.turn()
    flusher.close()
    assert all(all_spans(log) == [(n, n) for n in range(50)] for log in logs)
