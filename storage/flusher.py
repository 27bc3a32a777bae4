"""Group commit: flushes logs on a few threads, one flush per log at a time, and reports to the event loop.

The caller that appended asks for a flush and is called back when the log is durable up to what was staged by
then. The threads get the logs of a turn at its end, for they would otherwise take the interpreter from it request
by request; what is staged while a flush runs goes into the next one. So under load the number of flushes follows
the disk and not the requests. All book-keeping belongs to the event loop's thread; the workers take logs from one
queue, flush them, and put the outcome into another. Completions that fall into one turn of the loop share a
wake-up. It knows nothing of files: a log is anything that has `next_offset`, `durable_offset` and `flush`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Protocol, TypeAlias

from storage.files import OnFlushed, StorageError
from storage.latencies import Latencies

Post: TypeAlias = Callable[[Callable[[], None]], object]
"""Runs a callable on the event loop's thread, soon: `loop.call_soon_threadsafe`."""


class Flushable(Protocol):
    """What the flusher needs of a log."""

    @property
    def next_offset(self) -> int: ...

    @property
    def durable_offset(self) -> int: ...

    def flush(self) -> None: ...


class Flusher:
    """The threads that flush logs. `schedule` and `close` are for the event loop's thread only."""

    def __init__(self, threads: int, post: Post, call_soon: Post | None = None) -> None:
        """Start `threads` workers: as many logs sync side by side.

        `call_soon` runs a callable behind the events of this turn; without it a flush begins at once.
        """
        self._post = post
        self._call_soon = call_soon or _at_once
        self._of_turn: list[Flushable] = []  # Scheduled in this turn, and no thread's yet.
        # By the log in flight; offsets rise.
        self._waiting: dict[Flushable, deque[tuple[int, OnFlushed]]] = {}
        self._dirty: SimpleQueue[Flushable | None] = SimpleQueue()
        self._flushed: SimpleQueue[tuple[Flushable, BaseException | None, float]] = SimpleQueue()
        self.latencies = Latencies()
        """How long each flush took."""
        self._wake_is_posted = False
        self._closed = False
        names = [f"flusher-{number}" for number in range(threads)]
        self._threads = [Thread(target=self._work, name=name, daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    def schedule(self, log: Flushable, done: OnFlushed) -> None:
        """Flush what is staged in `log`; then `done(None)`, or `done(error)` if it cannot be made durable.

        `done` runs on the event loop's thread, never within this call, in the order of the calls per log.
        """
        assert not self._closed, "scheduled after close"
        waiting = self._waiting.get(log)
        if waiting is None:
            waiting = self._waiting[log] = deque()
            self._of_turn.append(log)
            if len(self._of_turn) == 1:
                self._call_soon(self._begin)
        waiting.append((log.next_offset, done))

    def close(self) -> None:
        """Flush all that was scheduled, run every `done`, and end the threads. Blocks.

        Raises what callbacks have raised, when all that is done.
        """
        bugs: list[BaseException] = []
        while self._waiting:
            self._begin()
            outcome = self._flushed.get()
            try:
                self._settle(*outcome)
            except BaseException as bug:  # Not swallowed: raised when the other logs have been answered.
                bugs.append(bug)
        self._closed = True
        for _ in self._threads:
            self._dirty.put(None)
        for thread in self._threads:
            thread.join()
        _raise_any(bugs)

    def _begin(self) -> None:
        """Give the threads the logs that were scheduled in this turn."""
        logs, self._of_turn = self._of_turn, []
        for log in logs:
            self._dirty.put(log)

    # The workers.

    def _work(self) -> None:
        while (log := self._dirty.get()) is not None:
            error: BaseException | None = None
            began_s = monotonic()
            try:
                log.flush()
            except BaseException as failure:  # Not swallowed: the event loop's thread handles or raises it.
                error = failure
            self._flushed.put((log, error, monotonic() - began_s))
            # Two workers may both see False and post twice, which is harmless; the loop clears it before it
            # takes outcomes, so none is left behind without a wake-up.
            if not self._wake_is_posted:
                self._wake_is_posted = True
                self._post(self._drain)

    # The event loop's thread.

    def _drain(self) -> None:
        """Call back for every flush that has ended."""
        self._wake_is_posted = False
        while True:
            try:
                outcome = self._flushed.get_nowait()
            except Empty:
                return
            try:
                self._settle(*outcome)
            except BaseException:
                self._post(self._drain)  # The others are not to wait for the next wake-up.
                raise

    def _settle(self, log: Flushable, error: BaseException | None, took_s: float) -> None:
        """Run the callbacks whose bytes are durable, or all if the flush failed; flush again for the rest."""
        self.latencies.add(took_s)
        failure = error if error is None or isinstance(error, StorageError) else _error_of_bug(log, error)
        waiting = self._waiting[log]
        answered: list[OnFlushed] = []
        while waiting and (failure is not None or not _is_to_flush(log, waiting[0][0])):
            answered.append(waiting.popleft()[1])
        if waiting:
            self._dirty.put(log)
        else:
            del self._waiting[log]
        bugs = [] if error is None or error is failure else [error]
        for done in answered:
            try:
                done(failure)
            except BaseException as bug:  # Not swallowed: raised when those behind it have been answered.
                bugs.append(bug)
        _raise_any(bugs)  # Of ours: they end the loop's turn, as they would have ended any other caller's.


def _at_once(action: Callable[[], None]) -> None:
    action()


def _raise_any(bugs: list[BaseException]) -> None:
    """Raise the bug if there is one, and several as a group."""
    if len(bugs) > 1:
        raise BaseExceptionGroup("flushes and their callbacks", bugs)
    if bugs:
        raise bugs[0]


def _is_to_flush(log: Flushable, position: int) -> bool:
    """Whether something below `position` is staged. What lies beyond the log's end has been cut back since."""
    return log.durable_offset < position <= log.next_offset


def _error_of_bug(log: Flushable, bug: BaseException) -> StorageError:
    """Return the error for a flush that a bug ended: what it wrote is unknown, and no caller may wait for ever."""
    return StorageError("flush", Path(type(log).__name__), repr(bug))
