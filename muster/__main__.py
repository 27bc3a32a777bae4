"""The `muster` command. `serve` is recognised before the rest of the command line is imported: the daemon
answers within a second of its start, and reading the other commands would take a tenth of it."""

from __future__ import annotations

import gc
import sys
import time

from muster.closed_output import status_of

STARTED_S = time.monotonic()
"""When this process began to run our code, for the ready line."""


def main() -> int:
    """Run the command line; return the exit status: 0 well, 1 failed, 2 not understood, 141 read no further."""
    return status_of(_run)


def _run() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        gc.disable()  # Nothing that is imported is garbage; `serve` looks for some again when all has been.
        from muster.serve import serve_command

        return serve_command(arguments[1:], STARTED_S)
    from muster.cli import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
