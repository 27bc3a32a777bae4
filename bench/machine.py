"""The machine in one line, for tables of figures."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> str:
    """Cores, processor, kernel and Python, and what a reader has to know of the rest."""
    info = Path("/proc/cpuinfo").read_text()
    model = next(
        (line.split(":", 1)[1].strip() for line in info.splitlines() if "model name" in line), "unknown"
    )
    return (
        f"{os.cpu_count()} cores of {model}, Linux {platform.release()}, Python {platform.python_version()}, "
        f"one shared and noisy virtual machine; the load generator runs on the same cores"
    )
