"""The work of all HTTP requests, a step in each turn of the loop, so that the Kafka port never waits for more.

A step is at most STEP_MS. It is left out in a turn that other work has used up, but not for ever. Those under way
take turns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import structlog

from coordinator.http.exchange import STEP_MS, Aside, Steps

log = structlog.get_logger("muster.http")

PATIENCE_TURNS: Final = 5
"""Used up turns in a row without a step; then one is done, or a storm would starve the probe that asks of it."""


class StepQueue:
    """Steps that wait for their turn, and threads for what waits for the disk. Event-loop thread only."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        is_turn_over: Callable[[], bool],
        aside: Callable[[Callable[[], Any], Callable[[Any], None]], None],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`aside(work, done)` does work on a thread, and calls `done` with its future on the loop."""
        self.aside = aside
        self.now_ns = now_ns
        self._call_soon = call_soon
        self._is_turn_over = is_turn_over
        self._waiting: deque[Callable[[], bool]] = deque()
        self._is_scheduled = self._is_stopped = False
        self._passed_over = 0

    def add(self, step: Callable[[], bool]) -> None:
        """Have `step` called in one of the next turns, and again as long as it returns True."""
        self._waiting.append(step)
        if not self._is_scheduled and not self._is_stopped:
            self._is_scheduled = True
            self._call_soon(self._do_one)

    def _do_one(self) -> None:
        if self._is_stopped:
            return
        if self._is_turn_over() and self._passed_over < PATIENCE_TURNS:
            self._passed_over += 1
        else:
            self._passed_over = 0
            step = self._waiting.popleft()
            try:
                if step():
                    self._waiting.append(step)
            except Exception:  # A bug of ours; the others' work goes on.
                log.exception("a step of an HTTP request failed")
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self._call_soon(self._do_one)

    def run(self, steps: Steps) -> None:
        """Do steps that are nobody's answer."""
        Work(self, steps).begin()

    def stop(self) -> None:
        """Do no more steps: the loop is about to stop."""
        self._is_stopped = True
        self._waiting.clear()


class Work:
    """Steps under way: what they yield and return goes to the methods that are to be overridden."""

    def __init__(self, queue: StepQueue, steps: Steps) -> None:
        self._queue = queue
        self._steps: Steps | None = steps
        self._outcome: Any = None
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Begin with the next turn."""
        self._queue.add(self.step)

    def step(self) -> bool:
        """Do a step; return whether there is more to do now."""
        end_ns = self._queue.now_ns() + STEP_MS * 500_000  # Half, since the last of it may be as long.
        while self._steps is not None:
            try:
                yielded = self._next()
            except StopIteration as ended:
                self._steps = None
                self.on_done(ended.value)
                return False
            except Exception as error:  # A handler's: it answers its own request, and the others go on.
                self._steps = None
                self.on_failed(error)
                return False
            if isinstance(yielded, Aside):
                self._queue.aside(yielded.work, self._on_aside)
                return False
            if yielded and not self.on_part(yielded):
                return False
            if self._queue.now_ns() >= end_ns:
                return True
        return False

    def _next(self) -> bytes | Aside | None:
        assert self._steps is not None, "it is under way"
        outcome, error = self._outcome, self._error
        self._outcome = self._error = None
        return self._steps.send(outcome) if error is None else self._steps.throw(error)

    def _on_aside(self, done: Any) -> None:
        if self._steps is None:
            return
        self._error = done.exception()
        self._outcome = None if self._error is not None else done.result()
        self._queue.add(self.step)

    @property
    def is_under_way(self) -> bool:
        return self._steps is not None

    def stop(self) -> None:
        """Do no more steps."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    def on_part(self, part: bytes) -> bool:
        """Take a part of what is made; return False to pause until `begin` is called again."""
        raise AssertionError(f"nothing takes {len(part)} bytes")

    def on_done(self, value: Any) -> None:
        """Take what the steps returned."""

    def on_failed(self, error: Exception) -> None:
        """Take what the steps raised."""
        log.error("work for HTTP failed", exc_info=error)
