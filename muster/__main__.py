"""The `muster` command. `serve` is recognised before the rest of the command line is imported: the daemon
answers within a second of its start, and reading the other commands would take a tenth of it."""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import NoReturn

from muster.closed_output import status_of

STARTED_S = time.monotonic()
"""The monotonic time at which this process began to run our code; the ready line has the seconds since then."""


def main() -> int:
    """Run the command line; return its status: 0 success, 1 failure, 2 wrong usage, 141 if output was not read.

    `serve` does not return: its process ends.
    """
    status = status_of(_run)
    if sys.argv[1:2] == ["serve"]:
        _end_process(status)
    return status


def _end_process(status: int) -> NoReturn:
    """End with all that the daemon held as it is: to free every object by itself takes a fifth of a stop.

    Its threads have ended by now, its files are closed, and its output is written.
    """
    sys.stderr.flush()
    os._exit(status)


def _run() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        from muster.hangup import HeldHangup

        hangup = HeldHangup()  # Before all that takes time.
        gc.disable()  # Imported modules are no garbage; `serve` turns collection on again.
        from muster.lazy_dataclasses import compile_methods_lazily

        compile_methods_lazily()
        from muster.serve import serve_command

        return serve_command(arguments[1:], STARTED_S, hangup)
    from muster.cli import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
