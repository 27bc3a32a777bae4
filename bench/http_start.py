"""What HTTP adds to the start: `muster serve` to its ready line, with HTTP and without it, in alternating rounds.

    python -m bench.http_start [--rounds 30]

CPU of all threads is compared beside the time on the wall, which other programs of the machine move.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from harness.daemon import ROOT, WITH_BYTECODE

KINDS = {"with": "http://127.0.0.1:0", "without": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    for listeners in KINDS.values():
        start(listeners)  # Bytecode is written, and pages are in memory.
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(rounds):
        found = {kind: start(KINDS[kind]) for kind in random.sample(list(KINDS), 2)}
        cpu.append(found["with"][0] - found["without"][0])
        wall.append(found["with"][1] - found["without"][1])
    for name, differences in (("CPU", cpu), ("on the wall", wall)):
        low, high = interval(differences)
        print(f"HTTP adds {median(differences):.1f} ms {name} ({low:.1f} to {high:.1f}, {rounds} rounds)")


def start(listeners: str) -> tuple[float, float]:
    """CPU and wall ms of a start on an empty directory."""
    with tempfile.TemporaryDirectory() as directory:
        overrides = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": directory,
            "muster.http.listeners": listeners,
        }
        settings = [part for name, value in overrides.items() for part in ("--override", f"{name}={value}")]
        began = time.perf_counter()
        daemon = subprocess.Popen(
            [sys.executable, "-P", "-m", "muster", "serve", *settings],
            env={**os.environ, "PYTHONPATH": str(ROOT), **WITH_BYTECODE},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert daemon.stdout is not None
        line = daemon.stdout.readline()
        took_ms = (time.perf_counter() - began) * 1_000
        cpu_ms = cpu_ms_of(daemon.pid)
        daemon.terminate()
        daemon.wait()
    assert "ready" in line, line
    return cpu_ms, took_ms


def cpu_ms_of(pid: int) -> float:
    """What all threads of a process have used so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


def interval(differences: list[float]) -> tuple[float, float]:
    """Where the median lies in 95 of 100 draws."""
    drawn = sorted(median(random.choices(differences, k=len(differences))) for _ in range(2_000))
    return drawn[50], drawn[-51]


if __name__ == "__main__":
    main()
