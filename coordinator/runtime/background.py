"""What a shard has others do while it goes on: store its records, write markers, and work that takes long.

Each is handed back as an event, to the shard that asked: one that was loaded since has forgotten that it did, and
asks again for what it still needs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Protocol

import structlog

from coordinator.effects import (
    AppendFinished,
    MarkersWanted,
    MarkersWritten,
    Result,
    SlicedWork,
    Work,
    WorkFailed,
    WorkFinished,
)
from protocol.errors import ErrorCode
from storage.log.durable_log import DurableLog

log = structlog.get_logger("muster.shard")


class Asking(Protocol):
    """The runner of a shard that asks."""

    partition: int
    durable_log: DurableLog

    @property
    def position(self) -> int: ...
    def handle(self, event: AppendFinished) -> None: ...
    def handle_or_keep(self, event: WorkFinished | MarkersWritten) -> None: ...
    def fail_on(self, error: Exception, event: object) -> None: ...


class Helper(Protocol):
    """What this needs of the runtime."""

    def wall_ms(self) -> int: ...
    def do(self, action: Callable[[], None]) -> None: ...
    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None: ...
    def run_in_slices(self, steps: Generator[str, bool, object], done: Callable[[Any], None]) -> None: ...
    def write_markers(
        self, wanted: MarkersWanted, done: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None: ...


def ask(runner: Asking, host: Helper, asked: Result, error: ErrorCode) -> None:
    """Begin what a result asks for, whose records were appended or refused with `error`."""
    for wanted in () if error else asked.markers:
        want_markers(runner, host, runner.durable_log.epoch, wanted)
    for work in asked.background:
        _begin_work(runner, host, work)
    if asked.then is None:
        return
    if error:
        runner.handle(AppendFinished(asked.then, error, host.wall_ms()))
    else:
        hand_back = partial(_hand_back, runner, host, runner.durable_log.epoch, asked.then)
        runner.durable_log.when_durable(runner.position, hand_back)


def _hand_back(runner: Asking, host: Helper, epoch: int, then: object, outcome: ErrorCode) -> None:
    """Hand `then` to the shard, in this turn or a later one; not if the epoch has ended by then.

    What the shard is read from then has the records, or has them not.
    """
    host.do(partial(_append_finished, runner, host, epoch, then, outcome))


def _append_finished(runner: Asking, host: Helper, epoch: int, then: object, outcome: ErrorCode) -> None:
    if epoch == runner.durable_log.epoch:
        runner.handle(AppendFinished(then, outcome, host.wall_ms()))


def _begin_work(runner: Asking, host: Helper, work: Work) -> None:
    """Have `work` done on another thread. What it raises is a bug, and fails the shard; not so `WorkFailed`."""
    finished = partial(_finished, runner, host, runner.durable_log.epoch)
    if isinstance(work, SlicedWork):
        host.run_in_slices(work.steps(), finished)
    else:
        host.run_aside(work.run, finished)


def _finished(runner: Asking, host: Helper, epoch: int, done: Any) -> None:
    if epoch != runner.durable_log.epoch:
        return
    error = done.exception()
    if error is not None:
        runner.fail_on(error, "background")
        return
    outcome = done.result()
    if isinstance(outcome, WorkFailed):
        log.error(
            "work for a request failed",
            partition=runner.partition,
            work=repr(outcome),
            exc_info=outcome.error,
        )
    runner.handle_or_keep(WorkFinished(outcome, host.wall_ms()))


def want_markers(runner: Asking, host: Helper, epoch: int, wanted: MarkersWanted) -> None:
    """Ask the host for the markers once all records written so far are durable, however long that takes.

    If they never become durable, the log is read again, and a shard that still needs markers asks again.
    """
    runner.durable_log.when_durable(
        runner.position, lambda outcome: _begin_markers(runner, host, epoch, wanted, outcome)
    )


def _begin_markers(
    runner: Asking, host: Helper, epoch: int, wanted: MarkersWanted, outcome: ErrorCode
) -> None:
    if outcome is ErrorCode.REQUEST_TIMED_OUT:
        want_markers(runner, host, epoch, wanted)
    elif not outcome:
        host.write_markers(
            wanted,
            lambda: _markers_written(runner, host, epoch, wanted.then),
            lambda: epoch == runner.durable_log.epoch,
        )


def _markers_written(runner: Asking, host: Helper, epoch: int, then: Any) -> None:
    if epoch == runner.durable_log.epoch:  # Else the shard was loaded since, and has asked again if need be.
        runner.handle_or_keep(MarkersWritten(then, host.wall_ms()))
