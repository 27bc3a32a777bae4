"""Many members of a group in one process: `"members": 50` in the config, each on a thread or task of its own.

All are made first and then set off together; with `"waits": true` only when a line comes on stdin, so that many
processes set off together as well. Knows no client library.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Protocol

from harness.reporting import Config, report, stop_requested
from tests.clients.workers.diary import Diary


class Member(Protocol):
    """Joins its group in `run`, not earlier; reads until `stop` is set, and then closes in good order."""

    def run(self, stop: threading.Event) -> None: ...


class AsyncMember(Protocol):
    """A `Member` for a library on asyncio."""

    async def run(self, stop: threading.Event) -> None: ...


def host(config: Config, member: Callable[[Config, Diary], Member]) -> None:
    """Run the members until stdin ends. What one of them raises ends all, and the process."""
    go = threading.Semaphore(0)
    stop = stop_requested(go.release)
    members = [member(config, diary) for diary in _diaries(config, go)]
    _wait_if_asked(config, go)
    with ThreadPoolExecutor(len(members)) as threads:
        running = [threads.submit(each.run, stop) for each in members]
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
        for finished in done:
            finished.result()


def host_async(config: Config, member: Callable[[Config, Diary], AsyncMember]) -> None:
    """Run the members as `host` does, all on one event loop."""

    async def run() -> None:
        go = threading.Semaphore(0)
        stop = stop_requested(go.release)
        members = [member(config, diary) for diary in _diaries(config, go)]
        _wait_if_asked(config, go)
        async with asyncio.TaskGroup() as running:
            for each in members:
                running.create_task(each.run(stop))

    asyncio.run(run())


def _diaries(config: Config, go: threading.Semaphore) -> list[Diary]:
    return [Diary(config, number, go) for number in range(config.get("members", 1))]


def _wait_if_asked(config: Config, go: threading.Semaphore) -> None:
    if config.get("waits"):
        report("waiting")
        go.acquire()
