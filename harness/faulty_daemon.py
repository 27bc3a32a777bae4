"""A daemon in a process of its own whose disk a test fills, slows down and clears while it runs.

`python -m harness.faulty_daemon FOLDER [serve's arguments]`: the disk has no room for as long as the file FULL is
in FOLDER, and each sync takes as many seconds as the file SLOW says, or until that is gone. Everything else is
`muster serve`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coordinator.daemon.daemon import serve
from coordinator.settings.model import Settings
from coordinator.settings.sources import load
from harness.daemon import READY, MusterDaemon
from harness.doubles.faulty_files import FaultyFiles, Operation
from muster.log_output import configure_log
from muster.serve import parsed_overrides, stop_on_signals

NEEDS_ROOM: Final = ("write", "create", "mkdir")
FULL: Final = "the-disk-is-full"
SLOW: Final = "a-sync-takes"
HANGING_S: Final = 3600.0
LOOK_S: Final = 0.01


class FaultyDaemon(MusterDaemon):
    """A Muster daemon with a disk that `fill_disk` fills and `make_room` clears, and whose syncs can be slow."""

    def __init__(self, data_dir: Path, overrides: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir, overrides)
        self._full = data_dir / FULL
        self._slow = data_dir / SLOW

    def fill_disk(self) -> None:
        self._full.touch()

    def make_room(self) -> None:
        self._full.unlink()

    def slow_down(self, sync_s: float = HANGING_S) -> None:
        """Let every sync take `sync_s` seconds from now on; the default is so long that a sync hangs."""
        draft = self._slow.with_suffix(".draft")
        draft.write_text(str(sync_s))
        draft.rename(self._slow)

    def speed_up(self) -> None:
        """Let every sync end, those under way included."""
        self._slow.unlink()

    def has_said(self, text: str) -> bool:
        """Whether the daemon's log contains `text`."""
        return text in self.log_path.read_text(errors="replace")

    def _command(self) -> list[str]:
        return [self._python, "-m", "harness.faulty_daemon", str(self.data_dir), *self._settings()]


def faulty_files(root: Path, folder: Path) -> FaultyFiles:
    """A file layer on `root` whose disk is full and slow as the files in `folder` say."""
    full, slow = folder / FULL, folder / SLOW

    def fault(operation: Operation) -> OSError | None:
        if operation.name == "sync":
            wait_while_slow(slow)
        if operation.name in NEEDS_ROOM and full.exists():
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return None

    root.mkdir(parents=True, exist_ok=True)
    files = FaultyFiles(root)
    files.fault = fault
    return files


def wait_while_slow(slow: Path) -> None:
    """Sleep for the seconds in the file `slow`, or until the file is removed."""
    if not slow.exists():
        return
    try:
        until = time.monotonic() + float(slow.read_text())
    except FileNotFoundError:
        return  # Removed between the check and the read: the disk is quick again.
    while slow.exists() and time.monotonic() < until:
        time.sleep(LOOK_S)


async def run(settings: Settings, files: FaultyFiles) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    await serve(settings, lambda address: print(READY.format(address=address), "", flush=True), stop, files)


def main(folder: str, *arguments: str) -> None:
    settings = load(parsed_overrides(arguments)).settings
    configure_log(settings.muster_log_level)
    asyncio.run(run(settings, faulty_files(Path(settings.data_directory), Path(folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
