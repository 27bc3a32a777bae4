"""Ends a command whose output is read no further, as in `muster groups list | head -1`: quietly, with one status.

A shell shows 141 for a program that SIGPIPE ended. Leaving it to the signal itself would end the daemon, or a
command in the midst of a change, when some connection of theirs is closed.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Final

STATUS_NOT_READ: Final = 128 + 13  # SIGPIPE, by its number.


def status_of(command: Callable[[], int]) -> int:
    """The exit status of `command`; STATUS_NOT_READ where what it printed is read no further."""
    try:
        try:
            return command()
        finally:
            print(end="", flush=True)  # Not left to the end of the interpreter, which would report it.
    except BrokenPipeError:
        closed = [descriptor for descriptor in (1, 2) if _is_read_no_further(descriptor)]
        if not closed:
            raise  # It was about something else than our output.
        _discard(closed)
        return STATUS_NOT_READ
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # What rich makes of it, with a status of its own.
            return STATUS_NOT_READ
        raise


def _is_read_no_further(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _discard(descriptors: list[int]) -> None:
    """Have what is still buffered for them go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
