"""A way between two processes that can be cut: a port on loopback whose connections go on to another.

Cut, it is silent: what is sent waits, and neither side hears of it. Mended, it drops the connections that it had,
as a network does that has forgotten them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from harness.processes import HOST, free_port

READ_BYTES = 1 << 16


class Relay:
    """As a context manager it listens on `port` of loopback and passes on to `target_port`."""

    def __init__(self, target_port: int) -> None:
        self.port = free_port([target_port])
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._passes: asyncio.Event | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many it has accepted and not dropped: those that mending drops."""
        return len(self._connections)

    def cut(self) -> None:
        """Pass nothing on any more."""
        self._do(self._cut())

    def mend(self) -> None:
        """Drop all connections, and pass on what comes over new ones."""
        self._do(self._mend())

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        self._passes = asyncio.Event()
        self._passes.set()
        self._server = await asyncio.start_server(self._on_connection, HOST, self.port)

    async def _cut(self) -> None:
        assert self._passes is not None
        self._passes.clear()

    async def _mend(self) -> None:
        assert self._passes is not None
        await self._drop()
        self._passes.set()

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._drop()

    async def _drop(self) -> None:
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._connected(reader, writer)
        except (asyncio.CancelledError, OSError):
            pass  # Dropped, or one of the two is gone: so is the other.
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._passes is not None
        await self._passes.wait()
        there, to_there = await asyncio.open_connection(HOST, self._target_port)
        try:
            ways = [
                asyncio.ensure_future(self._pass_on(reader, to_there)),
                asyncio.ensure_future(self._pass_on(there, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            to_there.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._passes is not None
        with suppress(OSError):
            while content := await reader.read(READ_BYTES):
                await self._passes.wait()
                writer.write(content)
                await writer.drain()
