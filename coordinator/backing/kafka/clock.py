"""The clock of leases: it goes on while the machine sleeps, and nobody sets it."""

from __future__ import annotations

import time
from typing import Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stands still on Linux while the machine sleeps; macOS has it go on, and nothing else."""


def now_ms() -> int:
    """Milliseconds since some moment before this process began."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000
