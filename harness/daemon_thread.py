"""A whole daemon on a thread of the test's process, so that the test can replace its file layer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coordinator.daemon.daemon import serve
from coordinator.settings.model import Settings
from storage.files import Files

DEADLINE_S = 60


class Daemon:
    """`serve` from entry to exit; `bootstrap` is its address."""

    def __init__(
        self,
        directory: Path,
        files: Files,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
        **settings: Any,
    ) -> None:
        listeners = ("PLAINTEXT://127.0.0.1:0",)
        settings = {
            "muster_http_listeners": (),
            **settings,
        }  # Of many daemons one could have the default port.
        self._settings = Settings(listeners=listeners, log_dirs=(str(directory),), **settings)
        self._files = files
        self._ready = threading.Event()
        self._loop_factory = loop_factory
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await serve(self._settings, self._on_ready, self._stop, self._files)

    def _on_ready(self, address: str) -> None:
        self.bootstrap = address
        self._ready.set()

    def __enter__(self) -> Daemon:
        self._thread.start()
        assert self._ready.wait(DEADLINE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
