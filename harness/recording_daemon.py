"""A daemon that records which versions of which APIs its clients use, each for the first time, and the client id.

`python -m harness.recording_daemon FILE [serve's arguments]`: a line in FILE for each new (API key, version,
client id). Everything else is `muster serve`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from coordinator.daemon import daemon
from coordinator.server.api_table import Api, Handler, api_table
from coordinator.server.pending import Pending
from coordinator.settings.model import Settings
from coordinator.settings.sources import load
from harness.daemon import READY, ROOT, MusterDaemon
from muster.log_output import configure_log
from muster.serve import parsed_overrides, stop_on_signals

FOLDER = ROOT / ".cache" / "spoken"
"""Where the daemons of a test run write their files. To see one run alone, empty the folder before it."""


class RecordingDaemon(MusterDaemon):
    """A Muster daemon whose file in `folder` lists the API versions that its clients used."""

    def __init__(
        self, data_dir: Path, overrides: Mapping[str, str] | None = None, *, folder: Path = FOLDER
    ) -> None:
        super().__init__(data_dir, overrides)
        folder.mkdir(parents=True, exist_ok=True)
        self.spoken = folder / f"{uuid4().hex}.txt"

    def _command(self) -> list[str]:
        return [self._python, "-m", "harness.recording_daemon", str(self.spoken), *self._settings()]


class Recorded:
    """A handler that calls `report` with each request, then the wrapped handler, whose attributes it has."""

    def __init__(self, key: int, handler: Handler, report: Callable[[int, Pending], None]) -> None:
        self._key = key
        self._handler = handler
        self._report = report

    def __call__(self, request: Any, pending: Pending) -> None:
        self._report(self._key, pending)
        self._handler(request, pending)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)


def recording(table: Mapping[int, Api], file: Path) -> dict[int, Api]:
    """`table` with handlers that write a line to `file` for each version that is used for the first time."""
    recorded: set[tuple[int, int, str]] = set()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def report(key: int, pending: Pending) -> None:
        spoken = (key, pending.api_version, pending.client_id or "")
        if spoken not in recorded:
            recorded.add(spoken)
            os.write(descriptor, f"{spoken[0]} {spoken[1]} {spoken[2]}\n".encode())

    return {key: replace(api, handle=Recorded(key, api.handle, report)) for key, api in table.items()}


def main(file: str, *arguments: str) -> None:
    settings = load(parsed_overrides(arguments)).settings
    configure_log(settings.muster_log_level)

    def recorded_table(*parts: Any) -> dict[int, Api]:
        return recording(api_table(*parts), Path(file))

    with patch.object(daemon, "api_table", recorded_table):
        asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    await daemon.serve(settings, lambda address: print(READY.format(address=address), "", flush=True), stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
