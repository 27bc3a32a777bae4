"""A member of the demo's group, seen from outside: its process, and what it has reported so far."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

STOP_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 10.0


class GroupMember:
    """One process of `member.py`, started with `config`; its errors go to a file in `log_dir`."""

    def __init__(self, name: str, config: dict[str, Any], log_dir: Path) -> None:
        self.name = name
        self.state = "starting"
        self.member_id = ""
        self.partitions: list[int] = []
        self.flights: list[str] = []  # Everything it has read, in its order.
        self.rows_of: Counter[int] = Counter()  # Rows read, by partition.
        self._reports: SimpleQueue[bytes] = SimpleQueue()
        self._errors = log_dir / f"{name}.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.demo.member", json.dumps(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def gather(self) -> list[str]:
        """Take in what was reported since the last call; returns the flights among it."""
        before = len(self.flights)
        with suppress(Empty):
            while True:
                self._take_in(json.loads(self._reports.get_nowait()))
        return self.flights[before:]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def request_stop(self) -> None:
        """Ask it to commit, leave the group and end; does not wait."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait(self) -> None:
        """Wait until it has ended, and has reported all. Raises RuntimeError if it did not end well."""
        status = self._process.wait(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        if status != 0:
            raise RuntimeError(self.summary())

    def kill(self) -> None:
        """SIGKILL, as a crash: it sends no LeaveGroup. What it had reported by then still counts."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(KILL_TIMEOUT_S)
        self._reader.join(KILL_TIMEOUT_S)
        self.state = "killed"

    def summary(self) -> str:
        """How it stands and the end of what it wrote to stderr, for a failure's message."""
        errors = self._errors.read_text(errors="replace")[-2000:]
        return (
            f"{self.name}: {self.state}, status {self._process.poll()}, {len(self.flights):,} rows\n{errors}"
        )

    def _collect(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # A kill may cut the last one.
                self._reports.put(line)

    def _take_in(self, report: dict[str, Any]) -> None:
        if report["event"] == "rows":
            self.flights += report["flights"]
            self.rows_of.update({int(partition): rows for partition, rows in report["partitions"].items()})
        elif report["event"] == "owns":
            self.member_id, self.partitions = report["member_id"], report["partitions"]
            self.state = "reading" if self.partitions else "rebalancing"
