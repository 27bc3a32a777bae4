"""A daemon in a process of its own whose disk a test fills, and clears, while it runs.

`python -m tests.faulty_daemon FLAG [serve's arguments]`: the disk has no room for as long as the file FLAG is
there. Everything else is `muster serve`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from coordinator.daemon import serve
from coordinator.log_output import configure_log
from coordinator.settings import Settings
from coordinator.settings_sources import load
from muster.serve import parsed_overrides, stop_on_signals
from tests.daemon import READY, MusterDaemon
from tests.storage.faulty_files import FaultyFiles, Operation

NEEDS_ROOM = ("write", "create", "mkdir")


class FillableDaemon(MusterDaemon):
    """A Muster daemon with a disk that `fill_disk` fills and `make_room` clears."""

    def __init__(self, data_dir: Path, overrides: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir, overrides)
        self._flag = data_dir / "the-disk-is-full"

    def fill_disk(self) -> None:
        self._flag.touch()

    def make_room(self) -> None:
        self._flag.unlink()

    def has_said(self, text: str) -> bool:
        """Whether this is in its log."""
        return text in self.log_path.read_text(errors="replace")

    def _command(self) -> list[str]:
        return [self._python, "-m", "tests.faulty_daemon", str(self._flag), *self._settings()]


def fillable_files(root: Path, flag: Path) -> FaultyFiles:
    """A file layer on `root` that finds no room while `flag` is there."""

    def fault(operation: Operation) -> OSError | None:
        if operation.name in NEEDS_ROOM and flag.exists():
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return None

    root.mkdir(parents=True, exist_ok=True)
    files = FaultyFiles(root)
    files.fault = fault
    return files


async def run(settings: Settings, files: FaultyFiles) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    await serve(settings, lambda address: print(READY.format(address=address), "", flush=True), stop, files)


def main(flag: str, *arguments: str) -> None:
    settings = load(parsed_overrides(arguments)).settings
    configure_log(settings.muster_log_level)
    asyncio.run(run(settings, fillable_files(Path(settings.data_directory), Path(flag))))


if __name__ == "__main__":
    main(*sys.argv[1:])
