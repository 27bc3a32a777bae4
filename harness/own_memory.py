"""The most memory that this process has had, itself: `ru_maxrss` begins at what the process had that forked it."""

from __future__ import annotations

from pathlib import Path


def peak_kib() -> int:
    """Peak of the resident memory since this program was started, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak)
