"""Ends a command quietly when the reader of its output has closed it, as in `muster groups list | head -1`.

A shell shows 141 for a program that SIGPIPE ended. The signal itself is not used: it would also end the daemon, or
a command in the midst of a change, when one of their connections is closed.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Final

STATUS_NOT_READ: Final = 128 + 13  # What a shell shows for a program that SIGPIPE, signal 13, ended.


def status_of(command: Callable[[], int]) -> int:
    """Run `command` and return its exit status; STATUS_NOT_READ if the reader of its output has closed it."""
    try:
        try:
            return command()
        finally:
            print(end="", flush=True)  # The interpreter's own flush at exit would report the broken pipe.
    except BrokenPipeError:
        closed = [descriptor for descriptor in (1, 2) if _is_read_no_further(descriptor)]
        if not closed:
            raise  # The broken pipe is another one than our output.
        _discard(closed)
        return STATUS_NOT_READ
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich turns a broken pipe into its own exit.
            return STATUS_NOT_READ
        raise


def _is_read_no_further(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _discard(descriptors: list[int]) -> None:
    """Point these descriptors at /dev/null, so that what is still buffered for them is dropped."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
