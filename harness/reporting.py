"""How a client process and the test that started it communicate. It knows no client library.

In: one JSON object as the last argument, and stdin: a line wakes a worker that waits for it; when stdin is
closed (by the test, or because the test died), the worker should end in good order. Out: one JSON object per
line on stdout, each with an "event". Errors go to stderr, with a traceback, and end the process with a status
other than 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

Config = dict[str, Any]
Command = Callable[[Config], None]

STEP_DEADLINE_S = 60.0  # A step takes a second or two; on a busy machine many times that.

_write_lock = threading.Lock()


def report(event: str, **fields: object) -> None:
    """Print one event; safe to call from a library's callback threads."""
    line = json.dumps({"event": event, **fields})
    with _write_lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def stop_requested(on_line: Callable[[], object] = lambda: None) -> threading.Event:
    """Return an event that is set when stdin ends. `on_line` is called for each of its lines, and at the end."""
    event = threading.Event()

    def watch() -> None:
        for _ in sys.stdin.buffer:
            on_line()
        event.set()
        on_line()

    threading.Thread(target=watch, daemon=True).start()
    return event


@contextlib.contextmanager
def step(name: str) -> Iterator[dict[str, object]]:
    """Report a step of a walk, unless its block raises. The dict may take details for the report."""
    details: dict[str, object] = {}
    yield details
    report("step", step=name, **details)


def require(condition: object, what: object) -> None:
    """An assertion that holds under `python -O` too. Raises AssertionError with `what`."""
    if not condition:
        raise AssertionError(what)


def require_equal(actual: object, expected: object, what: str) -> None:
    """Raises AssertionError naming `what` and both values unless they are equal."""
    require(actual == expected, f"{what}: {actual!r}, expected {expected!r}")


def eventually(attempt: Callable[[], Any], what: str, deadline_s: float = STEP_DEADLINE_S) -> Any:
    """Return the first truthy value of `attempt`, which itself should block a little, as a poll does.

    Raises AssertionError after the deadline.
    """
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if value := attempt():
            return value
    raise AssertionError(f"{what}: not within {deadline_s} s")


async def eventually_async(attempt: Callable[[], Awaitable[object]], what: str) -> None:
    """Await `attempt` again and again until its result is truthy. Raises AssertionError after the deadline."""

    async def repeat() -> None:
        while not await attempt():  # noqa: ASYNC110 - what is awaited is on another process.
            await asyncio.sleep(0)

    try:
        await asyncio.wait_for(repeat(), STEP_DEADLINE_S)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {STEP_DEADLINE_S} s") from None


def main(commands: dict[str, Command]) -> None:
    """Run the command named by the first argument with the JSON object of the second."""
    commands[sys.argv[1]](json.loads(sys.argv[2]))
