"""Tasks that go on beside those who began them: none of them fails unheard."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

import structlog

log = structlog.get_logger(__name__)


def spawn(work: Coroutine[object, object, None]) -> asyncio.Task[None]:
    """Begin `work`; what it raises, but for its cancellation, is a bug of ours and is logged as one."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_report)
    return task


async def end(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait until they have ended. Raises what one has raised, but for its cancellation."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    for task in running:
        with suppress(asyncio.CancelledError):
            await task


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a task failed", task=task.get_coro(), exc_info=error)
