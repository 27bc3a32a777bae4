"""The engine of a log: who is answered when, what a failure costs, and how it comes back, state by state.

Real logs on a double of the disk. Flushes and recoveries end when a test says so, and time is an argument.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from protocol.errors import ErrorCode
from storage.files import CorruptSegment, OnFlushed, StorageError
from storage.log.durable_log import DurableLog, LogHost
from storage.log.log_states import (
    ACTIVE,
    CLOSED,
    CLOSED_FAILED,
    CORRUPT,
    OFFLINE,
    PAUSED,
    RECOVERING,
    RECOVERING_FULL,
    RELEASED,
    TRANSITIONS,
    LogState,
    LogTrigger,
)
from storage.log.partition_log import PartitionLog
from storage.log.transitions import NoSuchTransition, next_state
from tests.storage.logs import NOW_MS, SMALL, batch, open_log

TIMEOUT_MS = 5_000
FAILED, DISK_FULL, RECOVERED = LogTrigger.FAILED, LogTrigger.DISK_FULL, LogTrigger.RECOVERED
UNUSABLE, DAMAGED, SPACE_FOUND = LogTrigger.UNUSABLE, LogTrigger.DAMAGED, LogTrigger.SPACE_FOUND
RETRIED, CLOSING, REOPENED = LogTrigger.RETRIED, LogTrigger.CLOSED, LogTrigger.REOPENED
GIVEN, TAKEN = LogTrigger.RELEASED, LogTrigger.TAKEN

WHERE_TO = {
    RECOVERING: {
        RECOVERED: ACTIVE,
        DISK_FULL: PAUSED,
        UNUSABLE: OFFLINE,
        DAMAGED: CORRUPT,
        CLOSING: CLOSED_FAILED,
        GIVEN: RELEASED,
    },
    RECOVERING_FULL: {
        RECOVERED: PAUSED,
        SPACE_FOUND: RECOVERING,
        DISK_FULL: PAUSED,
        UNUSABLE: OFFLINE,
        DAMAGED: CORRUPT,
        CLOSING: CLOSED_FAILED,
        GIVEN: RELEASED,
    },
    ACTIVE: {
        FAILED: RECOVERING,
        DISK_FULL: RECOVERING_FULL,
        UNUSABLE: OFFLINE,
        DAMAGED: CORRUPT,
        CLOSING: CLOSED,
        GIVEN: RELEASED,
    },
    PAUSED: {
        SPACE_FOUND: ACTIVE,
        RETRIED: RECOVERING,
        FAILED: RECOVERING_FULL,
        DISK_FULL: RECOVERING_FULL,
        CLOSING: CLOSED_FAILED,
        GIVEN: RELEASED,
    },
    OFFLINE: {RETRIED: RECOVERING, CLOSING: CLOSED_FAILED, GIVEN: RELEASED},
    CORRUPT: {CLOSING: CLOSED_FAILED, GIVEN: RELEASED},
    CLOSED: {REOPENED: ACTIVE, FAILED: CLOSED_FAILED, DISK_FULL: CLOSED_FAILED},
    CLOSED_FAILED: {REOPENED: OFFLINE},
    RELEASED: {TAKEN: RECOVERING},
}


@pytest.mark.parametrize("state", LogState)
@pytest.mark.parametrize("trigger", LogTrigger)
def test_every_state_knows_where_every_trigger_leads(state: LogState, trigger: LogTrigger) -> None:
    expected = WHERE_TO[state].get(trigger)
    if expected is None:
        with pytest.raises(NoSuchTransition):
            next_state(TRANSITIONS, state, trigger)
    else:
        assert next_state(TRANSITIONS, state, trigger) is expected


def test_what_has_failed_serves_only_after_it_was_recovered_or_needed_no_more_than_space() -> None:
    into_active = {(state, trigger) for (state, trigger), after in TRANSITIONS.items() if after is ACTIVE}
    assert into_active == {(RECOVERING, RECOVERED), (PAUSED, SPACE_FOUND), (CLOSED, REOPENED)}


class Stage:
    """A log, its owner, and whatever runs it."""

    def __init__(self, directory: Path, timeout_ms: int | None = None) -> None:
        self.files = FaultyFiles(directory)
        self.log: PartitionLog = open_log(directory / "t-0", SMALL, self.files)
        self.now_ms = 0
        self.timers: dict[int, int] = {}  # Deadlines by epoch.
        self.flushes: list[Callable[[], None]] = []
        self.recoveries: list[int] = []  # The epochs in which one was asked for.
        self.for_space = self.for_later = self.advanced = self.resumed = 0
        self.gathered: list[bytearray] = []
        self.durable_log = DurableLog(self.log, self._host())
        self.durable_log.listeners.append(self._on_advanced)
        self.durable_log.claim(self, timeout_ms)
        self.durable_log.recovered()

    def _host(self) -> LogHost:
        def wait_for_disk_space(log: DurableLog, error: StorageError) -> None:
            assert log is self.durable_log
            self.for_space += 1

        def try_later(log: DurableLog) -> None:
            assert log is self.durable_log
            self.for_later += 1

        return LogHost(
            now_ms=lambda: self.now_ms,
            set_timer=self._set_timer,
            schedule_flush=self._schedule,
            wait_for_disk_space=wait_for_disk_space,
            try_later=try_later,
        )

    def _set_timer(self, owner: DurableLog, epoch: int, deadline_ms: int | None) -> None:
        self.timers[epoch] = deadline_ms or 0

    def _schedule(self, log: PartitionLog, done: OnFlushed) -> None:
        def flush() -> None:
            try:
                log.flush()
            except StorageError as error:
                done(error)
            else:
                done(None)

        self.flushes.append(flush)

    def _on_advanced(self) -> None:
        self.advanced += 1

    # The owner.

    def stage(self) -> None:
        while self.gathered:
            self.durable_log.append(self.gathered.pop(0), NOW_MS)

    def on_failed(self, error: Exception | None) -> ErrorCode:
        self.gathered.clear()
        self.log.producers.state = None
        is_bug = isinstance(error, ZeroDivisionError)
        return ErrorCode.UNKNOWN_SERVER_ERROR if is_bug else ErrorCode.KAFKA_STORAGE_ERROR

    def recover(self, answer: ErrorCode) -> None:
        self.recoveries.append(self.durable_log.epoch)

    def on_resumed(self) -> None:
        self.resumed += 1

    # What a test does.

    @property
    def state(self) -> LogState:
        return self.durable_log.state

    def append(self) -> list[ErrorCode]:
        """Append a batch; what has been answered to its sender so far."""
        answers: list[ErrorCode] = []
        self.durable_log.append(batch(), NOW_MS)
        self.durable_log.when_durable(self.log.next_offset, answers.append)
        self.durable_log.flush()
        return answers

    def end_flush(self) -> None:
        """The oldest flush under way ends."""
        self.flushes.pop(0)()

    def end_recovery(self, error: BaseException | None = None) -> None:
        """The oldest recovery ends, which cuts the log back, as far as the disk lets it."""
        epoch = self.recoveries.pop(0)
        if error is None:
            try:
                self.log.fail_back()
            except StorageError as failure:
                error = failure
        if epoch == self.durable_log.epoch:  # Else its topic was to be deleted meanwhile.
            self.durable_log.recovered(error)

    def fill_disk(self) -> None:
        self.files.fail_always("write", errno.ENOSPC)

    def break_disk(self) -> None:
        self.files.fail_always("sync", errno.EIO)

    def mend(self) -> None:
        self.files.fault = None


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# Durable or not.


def test_nothing_is_answered_before_the_loop_hears_of_the_flush(stage: Stage) -> None:
    first = stage.append()
    second, third = stage.append(), stage.append()
    assert len(stage.flushes) == 1
    stage.log.flush()  # The thread may have taken all of it along, and the loop does not know yet.
    late: list[ErrorCode] = []
    stage.durable_log.when_durable(1, late.append)
    assert (first, second, third, late) == ([], [], [], [])
    stage.end_flush()
    assert (first, second, third, late) == ([ErrorCode.NONE],) * 4
    assert (stage.advanced, stage.durable_log.durable_offset) == (1, 3)


def test_a_flush_answers_what_it_took_along_alone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another append while it writes is for the flush behind it."""
    first, second = stage.append(), []
    flush = stage.log.flush

    def flush_and_append() -> None:
        flush()
        monkeypatch.undo()
        second.append(stage.append())

    monkeypatch.setattr(stage.log, "flush", flush_and_append)
    stage.end_flush()
    assert (first, second) == ([ErrorCode.NONE], [[]])
    assert stage.durable_log.durable_offset == 1
    stage.end_flush()
    assert second == [[ErrorCode.NONE]]
    assert stage.flushes == []


def test_what_is_durable_already_is_answered_behind_what_waits(stage: Stage) -> None:
    """Callbacks are called in the order in which they were given, also one that is given by another."""
    order: list[str] = []

    def first(error: ErrorCode) -> None:
        order.append("first")
        stage.durable_log.when_durable(1, lambda error: order.append("given by the first"))

    stage.append()
    stage.durable_log.when_durable(1, first)
    stage.durable_log.when_durable(1, lambda error: order.append("second"))
    stage.end_flush()
    assert order == ["first", "second", "given by the first"]


def test_the_owner_stages_what_it_has_gathered_when_a_flush_begins(stage: Stage) -> None:
    stage.gathered.append(batch())
    assert stage.log.next_offset == 0
    stage.durable_log.flush()
    assert stage.log.next_offset == 1
    stage.gathered.append(batch())
    stage.durable_log.flush()
    assert stage.log.next_offset == 1, "a flush is under way"
    stage.end_flush()
    assert stage.log.next_offset == 2
    stage.end_flush()
    assert (stage.durable_log.durable_offset, stage.flushes) == (2, [])


def test_nothing_is_flushed_where_nothing_was_appended(stage: Stage) -> None:
    stage.durable_log.flush()
    assert stage.flushes == []
    answers: list[ErrorCode] = []
    stage.durable_log.when_durable(0, answers.append)
    assert answers == [ErrorCode.NONE]


def test_bytes_are_counted_when_they_are_durable_and_not_if_they_were_lost(stage: Stage) -> None:
    stage.append()
    assert stage.durable_log.flushed_bytes == 0
    stage.end_flush()
    size_bytes = stage.durable_log.flushed_bytes
    assert size_bytes == stage.log.size_bytes
    stage.break_disk()
    stage.append()
    stage.end_flush()
    stage.mend()
    stage.end_recovery()
    assert stage.durable_log.staged_bytes == stage.durable_log.flushed_bytes == size_bytes


def test_all_that_one_flush_made_durable_is_counted(stage: Stage) -> None:
    """No other flush follows that would count it: a parked fetch would wait for its longest wait."""
    for _ in range(3):
        stage.append()
    stage.end_flush()
    assert (stage.durable_log.durable_offset, stage.flushes) == (3, [])
    assert stage.durable_log.flushed_bytes == stage.durable_log.staged_bytes == stage.log.size_bytes


def test_a_disk_that_hangs_is_an_error_after_the_owners_timeout(tmp_path: Path) -> None:
    stage = Stage(tmp_path, TIMEOUT_MS)
    first = stage.append()
    stage.now_ms = 10
    second = stage.append()
    assert stage.timers == {0: TIMEOUT_MS}
    stage.now_ms = TIMEOUT_MS
    stage.durable_log.timer_fired(0)
    assert (first, second) == ([ErrorCode.REQUEST_TIMED_OUT], [])
    assert stage.timers == {0: TIMEOUT_MS + 10}
    stage.durable_log.fail(ZeroDivisionError())
    stage.end_recovery()
    third = stage.append()
    stage.now_ms = 10 * TIMEOUT_MS
    stage.durable_log.timer_fired(0)
    assert (second, third) == ([ErrorCode.UNKNOWN_SERVER_ERROR], []), (
        "a timer of a former epoch means nothing"
    )


def test_without_a_timeout_it_sets_no_timer(stage: Stage) -> None:
    stage.append()
    assert stage.timers == {}


# A failure.


def test_a_failed_flush_is_answered_to_all_that_wait_before_the_log_is_recovered(stage: Stage) -> None:
    stage.break_disk()
    answers = [stage.append(), stage.append()]
    stage.end_flush()
    assert answers == [[ErrorCode.KAFKA_STORAGE_ERROR]] * 2
    assert (stage.state, stage.durable_log.epoch, stage.recoveries) == (RECOVERING, 1, [1])
    with pytest.raises(StorageError, match="the log is RECOVERING"):
        stage.durable_log.append(batch(), NOW_MS)
    stage.mend()
    stage.end_recovery()
    assert (stage.state, stage.log.next_offset) == (ACTIVE, 0)
    again = stage.append()
    stage.end_flush()
    assert again == [ErrorCode.NONE]


def test_a_flush_of_a_former_epoch_answers_nothing(stage: Stage) -> None:
    """An owner's bug ends the epoch while a flush is under way; that goes well, or not, for nothing."""
    former = stage.append()
    stage.durable_log.fail(ZeroDivisionError())
    assert former == [ErrorCode.UNKNOWN_SERVER_ERROR]
    stage.end_recovery()
    present = stage.append()
    stage.flushes.pop(0)()  # It may even take along what the present epoch appended.
    assert present == []
    assert stage.durable_log.durable_offset == 0
    stage.end_flush()
    assert (present, stage.durable_log.durable_offset) == ([ErrorCode.NONE], 1)


def test_a_log_that_failed_elsewhere_is_found_out_by_the_next_append(stage: Stage) -> None:
    waiting = stage.append()
    stage.break_disk()
    with pytest.raises(StorageError):
        stage.log.roll(NOW_MS) if stage.log.segments else stage.log.flush()
    with pytest.raises(StorageError):
        stage.durable_log.append(batch(), NOW_MS)
    assert (stage.state, waiting) == (RECOVERING, [ErrorCode.KAFKA_STORAGE_ERROR])
    stage.durable_log.fail(ZeroDivisionError())
    assert stage.recoveries == [1], "one failure, one recovery"


def test_a_log_that_cannot_be_cut_back_is_tried_again_later(stage: Stage) -> None:
    stage.break_disk()
    stage.append()
    stage.end_flush()
    stage.end_recovery()
    assert (stage.state, stage.for_later) == (OFFLINE, 1)
    stage.durable_log.try_again()
    assert (stage.state, stage.recoveries) == (RECOVERING, [2])
    stage.mend()
    stage.end_recovery()
    assert stage.state is ACTIVE
    stage.durable_log.try_again()
    assert (stage.state, stage.durable_log.epoch) == (ACTIVE, 2), "it serves: it is not to be recovered again"


def test_an_owner_that_finds_no_space_itself_recovers_again_later(stage: Stage) -> None:
    """The log is sound, and would be resumed when there is space: with an owner that was never recovered."""
    stage.durable_log.fail(ZeroDivisionError())
    stage.end_recovery(StorageError("write", Path("snapshot"), "No space left on device", errno.ENOSPC))
    assert stage.log.failure is None
    assert (stage.state, stage.for_later, stage.for_space) == (OFFLINE, 1, 0)
    stage.durable_log.try_again()
    assert (stage.state, stage.resumed, stage.recoveries) == (RECOVERING, 0, [2])
    stage.end_recovery()
    assert (stage.state, stage.resumed) == (ACTIVE, 0)


@pytest.mark.parametrize("error", [CorruptSegment(Path("log"), 0, "torn"), ZeroDivisionError("ours")])
def test_damage_is_left_to_an_operator(stage: Stage, error: Exception) -> None:
    stage.durable_log.fail(ZeroDivisionError())
    stage.end_recovery(error)
    assert (stage.state, stage.for_later) == (CORRUPT, 0)
    stage.durable_log.try_again()
    assert stage.state is CORRUPT


def test_a_log_that_cannot_be_read_is_used_again_later(stage: Stage) -> None:
    waiting = stage.append()
    stage.durable_log.take_offline(StorageError("read", Path("log"), "Input/output error", errno.EIO))
    assert (stage.state, stage.for_later, waiting) == (OFFLINE, 1, [ErrorCode.KAFKA_STORAGE_ERROR])
    stage.durable_log.try_again()
    stage.end_recovery()
    assert stage.state is ACTIVE


# A full disk.


def filled(stage: Stage) -> list[ErrorCode]:
    """A flush has found the disk full; what was answered."""
    stage.fill_disk()
    answers = stage.append()
    stage.end_flush()
    return answers


def test_a_log_that_met_a_full_disk_is_paused_until_there_is_space(stage: Stage) -> None:
    stage.append()
    stage.end_flush()
    assert filled(stage) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert (stage.state, stage.for_space) == (RECOVERING_FULL, 1)
    stage.mend()
    stage.end_recovery()
    assert stage.state is PAUSED
    with pytest.raises(StorageError, match="the log is PAUSED"):
        stage.durable_log.append(batch(), NOW_MS)
    stage.durable_log.try_again()
    assert (stage.state, stage.resumed, stage.recoveries) == (ACTIVE, 1, [])


def test_space_that_is_found_during_the_recovery_is_not_waited_for_again(stage: Stage) -> None:
    filled(stage)
    stage.durable_log.try_again()
    assert (stage.state, stage.recoveries) == (RECOVERING, [1]), "and the recovery goes on"
    stage.mend()
    stage.end_recovery()
    assert (stage.state, stage.resumed) == (ACTIVE, 0)


def test_a_log_that_could_not_be_cut_back_is_recovered_before_it_serves(stage: Stage) -> None:
    """Some file systems need space even to give some back."""
    stage.append()
    stage.end_flush()
    stage.fill_disk()
    stage.append()
    stage.end_flush()
    stage.files.fail_always("truncate", errno.ENOSPC)
    stage.end_recovery()
    failure = stage.log.failure
    assert failure is not None
    assert (stage.state, stage.for_space) == (PAUSED, 2)
    stage.mend()
    stage.durable_log.try_again()
    assert (stage.state, stage.resumed, stage.recoveries) == (RECOVERING, 0, [2])
    stage.end_recovery()
    assert (stage.state, stage.log.failure) == (ACTIVE, None)


def test_a_bug_while_it_is_paused_does_not_make_space(stage: Stage) -> None:
    filled(stage)
    stage.mend()
    stage.end_recovery()
    stage.durable_log.fail(ZeroDivisionError())
    assert (stage.state, stage.durable_log.epoch) == (RECOVERING_FULL, 2)
    stage.end_recovery()
    assert stage.state is PAUSED


# The deletion of its topic.


def test_a_closed_log_takes_nothing_and_answers_what_its_flush_took_along(stage: Stage) -> None:
    flushed = stage.append()
    stage.durable_log.close()
    assert (stage.state, stage.durable_log.is_closed) == (CLOSED, True)
    with pytest.raises(StorageError, match="the log is CLOSED"):
        stage.durable_log.append(batch(), NOW_MS)
    stage.end_flush()
    assert flushed == [ErrorCode.NONE]


def test_a_log_whose_topic_stays_flushes_what_was_staged_before(stage: Stage) -> None:
    first = stage.append()
    second = stage.append()
    stage.durable_log.close()
    stage.flushes.clear()  # Cut short: the flusher has taken none of it along.
    stage.durable_log._flush_end = 0
    stage.durable_log.reopen()
    stage.end_flush()
    assert (first, second) == ([ErrorCode.NONE], [ErrorCode.NONE])


def test_a_log_that_failed_while_its_topic_was_to_go_is_tried_again(stage: Stage) -> None:
    answers = stage.append()
    stage.durable_log.close()
    stage.break_disk()
    stage.end_flush()
    assert (stage.state, answers, stage.recoveries) == (CLOSED_FAILED, [ErrorCode.KAFKA_STORAGE_ERROR], [])
    stage.durable_log.reopen()
    assert (stage.state, stage.for_later) == (OFFLINE, 1)
    stage.mend()
    stage.durable_log.try_again()
    stage.end_recovery()
    assert stage.state is ACTIVE


def test_what_waits_for_a_log_that_is_gone_is_answered(stage: Stage) -> None:
    answers = stage.append()
    stage.durable_log.close()
    stage.durable_log.release_owner(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert answers == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    stage.break_disk()
    stage.end_flush()
    assert (stage.state, stage.advanced) == (CLOSED, 0)


# Anything at all.

STEPS = ("append", "append", "append", "flush", "flush", "disk", "recover", "again", "bug", "close")


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_all_are_answered_once_and_rightly(seed: int, tmp_path: Path) -> None:
    """Appends, flushes, failures, recoveries and deletions in any order, on a disk that comes and goes."""
    random = Random(seed)
    stage = Stage(tmp_path, TIMEOUT_MS)
    sent: dict[int, tuple[int, list[ErrorCode]]] = {}  # Where its batch ends, and its answers.
    for number in range(150):
        step = random.choice(STEPS)
        if step == "append" and stage.state is ACTIVE:
            try:
                answers = stage.append()
            except StorageError:
                continue
            sent[number] = (stage.log.next_offset, answers)
        elif step == "flush" and stage.flushes:
            stage.end_flush()
        elif step == "disk":
            stage.files.fault = random.choice((None, None, _full, _broken))
        elif step == "recover" and stage.recoveries:
            stage.end_recovery()
        elif step == "again":
            stage.durable_log.try_again()
        elif step == "bug":
            stage.durable_log.fail(ZeroDivisionError())
        elif step == "close":
            stage.durable_log.reopen() if stage.durable_log.is_closed else stage.durable_log.close()
        for end, answers in sent.values():
            assert len(answers) <= 1
            assert answers != [ErrorCode.NONE] or end <= stage.durable_log.durable_offset
    stage.files.fault = None
    if stage.durable_log.is_closed:
        stage.durable_log.reopen()
    for _ in range(4):
        while stage.recoveries:
            stage.end_recovery()
        stage.durable_log.try_again()
        while stage.flushes:
            stage.end_flush()
    assert stage.state is ACTIVE
    assert all(len(answers) == 1 for _, answers in sent.values())
    assert stage.durable_log.durable_offset == stage.log.durable_offset == stage.log.next_offset


def _full(operation: Operation) -> OSError | None:
    return OSError(errno.ENOSPC, "No space left on device") if operation.name == "write" else None


def _broken(operation: Operation) -> OSError | None:
    return OSError(errno.EIO, "Input/output error") if operation.name == "sync" else None


# Led by another node.


def test_a_log_that_is_released_answers_what_waits_and_reports_when_its_flush_has_ended(stage: Stage) -> None:
    answers, idle = stage.append(), []
    stage.durable_log.release(ErrorCode.NOT_COORDINATOR)
    stage.durable_log.when_idle(lambda: idle.append(stage.log.durable_offset))
    assert (answers, idle) == ([ErrorCode.NOT_COORDINATOR], [])
    with pytest.raises(StorageError):
        stage.append()
    stage.end_flush()
    assert (idle, stage.flushes, stage.recoveries) == ([1], [], [])


def test_a_log_that_is_released_without_a_flush_is_idle_at_once(stage: Stage) -> None:
    idle: list[bool] = []
    stage.durable_log.release(ErrorCode.NOT_COORDINATOR)
    stage.durable_log.when_idle(lambda: idle.append(True))
    assert idle == [True]


def test_a_log_that_is_released_waits_for_the_flushes_of_all_epochs(stage: Stage) -> None:
    stage.append()
    stage.durable_log.fail(ZeroDivisionError("ours"))
    stage.end_recovery()
    stage.append()
    idle: list[bool] = []
    stage.durable_log.release(ErrorCode.NOT_COORDINATOR)
    stage.durable_log.when_idle(lambda: idle.append(True))
    stage.end_flush()
    assert idle == []
    stage.end_flush()
    assert idle == [True]


def test_a_log_that_is_taken_again_is_recovered_first(stage: Stage) -> None:
    stage.append()
    stage.durable_log.release(ErrorCode.NOT_COORDINATOR)
    stage.end_flush()
    stage.durable_log.take()
    assert stage.state is RECOVERING
    stage.log.fail_back()
    stage.durable_log.recovered()
    assert (stage.state, stage.durable_log.durable_offset) == (ACTIVE, 1)
    answers = stage.append()
    stage.end_flush()
    assert answers == [ErrorCode.NONE]
