"""Virtual time: what happens next happens at once, and nothing sleeps.

A `Timeline` is a queue of events by time. Clients are coroutines on it (`Task`): what they await is a sleep or
an answer, and both are events. `ProcessLoop` is the part of an asyncio loop that the daemon's runtime uses,
for a process that can be stopped (SIGSTOP) or die.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from typing import Any

WALL_START_MS = 1_700_000_000_000

Action = Callable[[], object]


@dataclass(slots=True)
class Scheduled:
    """An event to come, unless it is cancelled before."""

    action: Action | None

    def cancel(self) -> None:
        self.action = None


class Timeline:
    """Events by time, those of one instant in the order in which they were entered. Times in ms."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.wall_offset_ms = WALL_START_MS  # What the wall clock is ahead of the monotonic one; it may jump.
        self._queue: list[tuple[int, int, Scheduled]] = []
        self._numbers = count()

    def at(self, at_ms: int, action: Action) -> Scheduled:
        """Have `action` run at `at_ms`, or as soon as can be if that has passed."""
        scheduled = Scheduled(action)
        self.put(at_ms, scheduled)
        return scheduled

    def put(self, at_ms: int, scheduled: Scheduled) -> None:
        heappush(self._queue, (max(at_ms, self.now_ms), next(self._numbers), scheduled))

    def after(self, delay_ms: int, action: Action) -> Scheduled:
        return self.at(self.now_ms + delay_ms, action)

    def step(self) -> bool:
        """Let the next thing happen; False if there is nothing left."""
        while self._queue:
            at_ms, _, scheduled = heappop(self._queue)
            action, scheduled.action = scheduled.action, None
            if action is not None:
                self.now_ms = at_ms
                action()
                return True
        return False


# Coroutines.


class Signal:
    """Something to await that is set once, with a value."""

    __slots__ = ("_task", "is_set", "value")

    def __init__(self) -> None:
        self.is_set = False
        self.value: Any = None
        self._task: Task | None = None

    def set(self, value: Any = None) -> None:
        """Only the first time counts."""
        if self.is_set:
            return
        self.is_set, self.value = True, value
        if self._task is not None:
            self._task.resume()

    def __await__(self) -> Generator[Signal, None, Any]:
        if not self.is_set:
            yield self
        return self.value

    def wake(self, task: Task) -> None:
        self._task = task


class Task:
    """A coroutine that runs whenever what it awaits has come; unless it is paused: then when it goes on."""

    def __init__(self, coroutine: Coroutine[Signal, None, None]) -> None:
        self._coroutine = coroutine
        self._is_paused = self._is_due = self._is_running = False
        self.is_done = False
        self.resume()

    def resume(self) -> None:
        if self.is_done:
            return
        if self._is_paused:
            self._is_due = True
            return
        self._is_running = True
        try:
            self._coroutine.send(None).wake(self)
        except StopIteration:
            self.is_done = True
        self._is_running = False

    def pause(self) -> None:
        self._is_paused = True

    def go_on(self) -> None:
        self._is_paused = False
        if self._is_due:
            self._is_due = False
            self.resume()

    def cancel(self) -> None:
        """It does not run again. (From within itself it first runs on to its next await.)"""
        self.is_done = True
        if not self._is_running:
            self._coroutine.close()


# The loop of a process.


class Origin(IntEnum):
    """What a process finds to do first when it has been stopped and goes on: libuv runs timers first."""

    TIMER = 0
    THREAD = 1
    SOCKET = 2


class Outcome:
    """What a function that ran on another thread came to; of asyncio's Future as much as is needed."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._value: Any = None
        self._callbacks: list[Callable[[Any], object]] = []

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self._callbacks.append(callback)

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            self._value = function(*arguments)
        except Exception as error:  # Raised by `result`, as a Future does.
            self._error = error
        for callback in self._callbacks:
            callback(self)

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


@dataclass
class ProcessLoop:
    """One process's event loop: runs while the process does."""

    timeline: Timeline
    load_ms: Callable[[], int]  # How long reading a shard's log takes.
    is_dead: bool = False
    is_stopped: bool = False
    _missed: list[tuple[Origin, int, Scheduled]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def call_soon(self, action: Callable[..., object], *arguments: Any) -> Scheduled:
        return self.run_at(self.timeline.now_ms, Origin.THREAD, lambda: action(*arguments))

    def call_later(self, delay_s: float, action: Callable[..., object], *arguments: Any) -> Scheduled:
        at_ms = self.timeline.now_ms + round(delay_s * 1_000)
        return self.run_at(at_ms, Origin.TIMER, lambda: action(*arguments))

    def run_in_executor(self, _: object, function: Callable[..., Any], *arguments: Any) -> Outcome:
        outcome = Outcome()
        at_ms = self.timeline.now_ms + self.load_ms()
        self.run_at(at_ms, Origin.THREAD, lambda: outcome.run(function, arguments))
        return outcome

    def run_at(self, at_ms: int, origin: Origin, action: Action) -> Scheduled:
        """Run `action` then, or when the process goes on, or never if it is dead by then."""
        scheduled = Scheduled(None)
        scheduled.action = lambda: self._run(origin, action, scheduled)
        self.timeline.put(at_ms, scheduled)
        return scheduled

    def stop(self) -> None:
        self.is_stopped = True

    def go_on(self) -> None:
        """What was due meanwhile is found now, in the order in which a loop looks."""
        self.is_stopped = False
        missed, self._missed = sorted(self._missed, key=lambda each: each[:2]), []
        for _, _, scheduled in missed:
            self.timeline.put(self.timeline.now_ms, scheduled)

    def _run(self, origin: Origin, action: Action, scheduled: Scheduled) -> None:
        if self.is_dead:
            return
        if self.is_stopped:
            scheduled.action = lambda: self._run(origin, action, scheduled)
            self._missed.append((origin, next(self._numbers), scheduled))
        else:
            action()
