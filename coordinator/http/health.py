"""`/livez` and `/readyz`: whether the loop turns, and whether every shard can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from coordinator.http.exchange import HttpProblem, Question, Steps
from coordinator.runtime.loop import Runtime
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.shard_states import ACTIVE, ELSEWHERE, LOADING
from storage.log.log_states import ACTIVE as LOG_ACTIVE

LATE_MS: Final = 2_000
"""A loop whose next turn comes later than this does not live: sessions would expire next."""

NAMED_MAX: Final = 20
"""The most reasons that are named; the others are counted."""


class Health:
    """Answers the probes of those who run the daemon."""

    def __init__(
        self,
        runtime: Runtime,
        now_ms: Callable[[], int],
        not_ready: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        """`not_ready` says what else is not ready."""
        self._runtime = runtime
        self._now_ms = now_ms
        self._not_ready = not_ready or (lambda: ())

    def live(self, question: Question) -> Steps:
        """Whether the next turn of the loop comes within LATE_MS; if none comes, nothing answers."""
        asked_ms = self._now_ms()
        return self._live(asked_ms)

    def _live(self, asked_ms: int) -> Steps:
        late_ms = self._now_ms() - asked_ms
        yield None
        if late_ms > LATE_MS:
            raise HttpProblem(503, f"The event loop took {late_ms} ms for a turn.")
        return {"status": "live"}

    def ready(self, question: Question) -> Steps:
        """Whether every shard is loaded and can be written; with `group`, whether that group's shard is."""
        yield None
        runners: list[tuple[str, ShardRunner[Any]]]
        if "group" in question.query:
            runners = [("shard", self._runtime.runner_for(question.query["group"]))]
        else:
            runners = [("shard", each) for each in self._runtime.runners]
            runners += [("transaction shard", each) for each in self._runtime.transaction_runners]
        reasons = list(self._reasons(runners))
        if "group" not in question.query:
            reasons += self._not_ready()
        if reasons:
            hidden = len(reasons) - NAMED_MAX
            named = reasons[:NAMED_MAX] + ([f"and {hidden} more"] if hidden > 0 else [])
            raise HttpProblem(503, "Not all that is asked here can be answered.", not_ready=named)
        return {"status": "ready"}

    def _reasons(self, runners: list[tuple[str, ShardRunner[Any]]]) -> Iterator[str]:
        if self._runtime.outages.is_full:
            yield "no room on the disk: writes are refused"
        for kind, runner in runners:
            if (problem := _problem(runner)) is not None:
                yield f"{kind} {runner.partition} {problem}"


def _problem(runner: ShardRunner[Any]) -> str | None:
    """What is wrong with a shard; nothing with one that another node leads."""
    if runner.state is ELSEWHERE:
        return None
    if runner.state is LOADING:
        return "is loading"
    if runner.state is not ACTIVE:
        return "is out of service: its log cannot be read"
    if runner.durable_log.state is not LOG_ACTIVE:
        return "cannot be written"
    return None
