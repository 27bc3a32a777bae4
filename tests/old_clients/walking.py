"""What the walks of old Python clients have in common: a step is a line, its name, a tab, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable

RECORDS = 20
DEADLINE_S = 60.0


def step(name: str, action: Callable[[], object]) -> None:
    """Do a step, and print what it returned, or the name of the error that it raised."""
    try:
        outcome = str(action())
    except Exception as error:  # Whatever the library raises is what the walk is about.
        outcome = error.args[0] if isinstance(error, Refused) else type(error).__name__
    print(f"{name}\t{outcome}", flush=True)


class Refused(Exception):
    """A library without exceptions was answered with this error."""


def wait_for(condition: Callable[[], object]) -> bool:
    """Whether `condition` became true in time; it blocks a little itself, as a poll does."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if condition():
            return True
    return False
