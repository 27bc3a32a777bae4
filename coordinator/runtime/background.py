"""What a shard has another thread find out: `Result.background`, begun here, and handed back as `WorkFinished`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from coordinator.effects import Work, WorkFinished
from storage.log.durable_log import DurableLog


class Worker(Protocol):
    """The runner of a shard that asks for work."""

    durable_log: DurableLog

    def handle_or_keep(self, event: WorkFinished) -> None: ...
    def fail_on(self, error: Exception, event: object) -> None: ...


class WorkHost(Protocol):
    """What this needs of the runtime."""

    def wall_ms(self) -> int: ...
    def run_aside(self, work: Callable[[], object], done: Callable[[Any], None]) -> None: ...


def begin_work(runner: Worker, host: WorkHost, work: Work) -> None:
    """Have `work` done on another thread, and its outcome handled by the shard, if it is the same one by then.

    One that was loaded since has forgotten that it asked. What `work` raises is a bug, and fails the shard.
    """
    host.run_aside(work.run, partial(_finished, runner, host, runner.durable_log.epoch))


def _finished(runner: Worker, host: WorkHost, epoch: int, done: Any) -> None:
    if epoch != runner.durable_log.epoch:
        return
    error = done.exception()
    if error is not None:
        runner.fail_on(error, "background")
    else:
        runner.handle_or_keep(WorkFinished(done.result(), host.wall_ms()))
