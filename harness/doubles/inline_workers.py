"""Workers without threads: submitted work runs at once, on the thread of the caller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def finished(work: Callable[[], T]) -> Future[T]:
    """Do `work` here and now; return what a thread's future is then."""
    future: Future[T] = Future()
    try:
        future.set_result(work())
    except Exception as error:  # Not swallowed: it comes out of `future.result()`.
        future.set_exception(error)
    return future


class InlineWorkers:
    """A double of `coordinator.topics.workers.Workers`."""

    def submit(self, work: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        done(finished(work))
