"""Threads for work that would block the event loop: cold reads, directories, the catalogue.

Work is submitted on the event-loop thread and its outcome is delivered there, so nothing else in the data plane
knows that threads exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from storage.flusher import Post

T = TypeVar("T")


class Workers(Protocol):
    """Threads that run work which may wait for the disk."""

    def submit(self, work: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        """Run `work` on a thread; then call `done` on the event-loop thread, with the finished future."""


class ThreadWorkers:
    """`Workers` on a few threads of their own; with one thread, work runs in the order it was given."""

    def __init__(self, threads: int, post: Post, name: str) -> None:
        self._post = post
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._left = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def submit(self, work: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        future = self._threads.submit(work)
        self._left += 1
        self._is_idle.clear()
        future.add_done_callback(lambda finished: self._post(lambda: self._deliver(done, finished)))

    def _deliver(self, done: Callable[[Future[T]], None], finished: Future[T]) -> None:
        try:
            done(finished)
            _forget_frames(finished)
        finally:
            self._left -= 1
            if not self._left:
                self._is_idle.set()

    async def idle(self) -> None:
        """Return when the outcomes of all submitted work are delivered, including work submitted meanwhile."""
        await self._is_idle.wait()

    def close(self) -> None:
        """Wait until the submitted work is done; outcomes are still delivered through `post`."""
        self._threads.shutdown()


def _forget_frames(finished: Future[Any]) -> None:
    """Take the traceback off an error that was delivered: raised in `done`, it has a frame that has the future.

    Such a cycle would keep what the work was about, which may be a request of many megabytes.
    """
    if not finished.cancelled() and (error := finished.exception()) is not None:
        error.__traceback__ = None
