"""Work that takes as long as a client wants it to: it has a thread of its own, where each gets a slice in turn.

So it holds up neither the loop, nor loads, nor the targets of groups; one that takes long holds up the others by a
slice, and a stop of the daemon as well. A step that takes too long is given up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

log = structlog.get_logger("muster.runtime")

SLICE_MS: Final = 50

STEP_MS: Final = 2_000
"""Time after which a step is given up. 10,000 names take 30 ms with an ordinary expression."""

ALL_STEPS_MS: Final = 30_000
"""Time of a whole work after which all that is left of it is given up."""

MOST_TOLD: Final = 1_000
"""Steps of which is remembered that they were given up, so that the log says so once."""


def cpu_ms() -> int:
    """The CPU time of the present thread."""
    return time.thread_time_ns() // 1_000_000


@dataclass(slots=True, eq=False)
class SlicedRun:
    """One work under way. `slice` runs on the thread, all else on the loop's."""

    steps: Generator[str, bool, object]
    now_ms: Callable[[], int]
    step: str = ""
    step_ms: int = 0  # Time that the step has taken so far,
    all_ms: int = 0  # and all of them.
    answer: bool | None = None  # To the step that it is at: whether it is given up. None before the first.
    is_done: bool = False
    outcome: object = None
    given_up: list[str] = field(default_factory=list)

    def slice(self) -> None:
        """Go on for a slice. What the work raises is raised here."""
        begin_ms = last_ms = self.now_ms()
        while last_ms - begin_ms < SLICE_MS:
            try:
                step = next(self.steps) if self.answer is None else self.steps.send(self.answer)
            except StopIteration as ended:
                self.is_done, self.outcome = True, ended.value
                return
            now_ms = self.now_ms()
            if step is not self.step:
                self.step, self.step_ms = step, 0
            self.step_ms += now_ms - last_ms
            self.all_ms += now_ms - last_ms
            last_ms = now_ms
            self.answer = self._is_over()

    def _is_over(self) -> bool:
        is_over = self.step_ms >= STEP_MS or self.all_ms >= ALL_STEPS_MS
        if is_over:
            self.given_up.append(self.step)
        return is_over


class Slices:
    """The thread, which begins with the first work. All methods run on the thread of `loop`.

    `now_ms` is its CPU time: a work is not given up since others had the processor.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._now_ms = now_ms
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slices")
        self._told: dict[str, None] = {}
        self._is_stopped = False

    def run(self, steps: Generator[str, bool, object], done: Callable[[Any], None]) -> None:
        """Do a work (`effects.SlicedWork.steps`) behind a slice of each that is under way.

        `done` is called with a future on the loop; not if the daemon stops meanwhile.
        """
        self._go_on(SlicedRun(steps, self._now_ms), done)

    def _go_on(self, run: SlicedRun, done: Callable[[Any], None]) -> None:
        slice_ended = self._loop.run_in_executor(self._thread, run.slice)
        slice_ended.add_done_callback(lambda ended: self._on_slice(run, done, ended))

    def _on_slice(self, run: SlicedRun, done: Callable[[Any], None], ended: Any) -> None:
        if self._is_stopped:
            return
        self._tell(run)
        if run.is_done or ended.exception() is not None:
            done(_Ended(run.outcome, ended.exception()))
        else:
            self._go_on(run, done)

    def _tell(self, run: SlicedRun) -> None:
        for step in run.given_up:
            if step not in self._told:
                if len(self._told) >= MOST_TOLD:
                    self._told.clear()
                self._told[step] = None
                log.warning("given up: it takes too long", what=step)
        run.given_up.clear()

    def stop(self) -> None:
        """Wait for the slice that is under way, and go on with nothing."""
        self._is_stopped = True
        self._thread.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Ended:
    """What became of a work: a future that is done."""

    outcome: object
    error: BaseException | None

    def exception(self) -> BaseException | None:
        return self.error

    def result(self) -> object:
        if self.error is not None:
            raise self.error
        return self.outcome
