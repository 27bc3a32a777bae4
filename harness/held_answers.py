"""A relay between clients and a broker that holds back the answers of one API to one client, and lets them go."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from harness.processes import free_port, wait_until

LENGTH = struct.Struct(">i")
HEADER = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id.
CORRELATION_ID = struct.Struct(">i")


class HeldAnswers:
    """A relay on a loopback port; answers to `client_id` of `api_key` wait until `release`.

    The broker's `advertised.listeners` has to name `address`, or clients soon pass the relay by.
    """

    def __init__(self, api_key: int, client_id: str) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._held_kind = (api_key, client_id)
        self._held: list[Callable[[], None]] = []
        self._is_holding = True
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def relay_to(self, broker: str) -> None:
        """Accept connections and relay them to `broker`, from now on."""
        host, _, port = broker.rpartition(":")

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            kinds: dict[int, tuple[int, str]] = {}
            there, back = await asyncio.open_connection(host, int(port))
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await asyncio.gather(
                    self._forward_requests(reader, back, kinds), self._forward_answers(there, writer, kinds)
                )
            back.close()
            writer.close()

        serving = asyncio.start_server(relay, "127.0.0.1", self.port)
        asyncio.run_coroutine_threadsafe(serving, self._loop).result()

    def wait_for_one(self, deadline_s: float) -> None:
        """Wait until an answer is held."""
        wait_until(lambda: bool(self._held), "an answer that is held", deadline_s)

    def hold_no_more(self) -> None:
        """Let later answers pass; those that are held go on waiting."""
        self._is_holding = False

    def release(self) -> None:
        """Send the answers that are held to their clients."""
        for send in self._held:
            self._loop.call_soon_threadsafe(send)

    async def _forward_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kinds: dict[int, tuple[int, str]]
    ) -> None:
        while True:
            frame = await _frame(reader)
            key, _, correlation_id, length = HEADER.unpack_from(frame, LENGTH.size)
            start = LENGTH.size + HEADER.size
            kinds[correlation_id] = key, frame[start : start + max(length, 0)].decode()
            writer.write(frame)

    async def _forward_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kinds: dict[int, tuple[int, str]]
    ) -> None:
        while True:
            frame = await _frame(reader)
            (correlation_id,) = CORRELATION_ID.unpack_from(frame, LENGTH.size)
            kind = kinds.pop(correlation_id)
            if self._is_holding and kind == self._held_kind:
                self._held.append(partial(writer.write, frame))
            else:
                writer.write(frame)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    prefix = await reader.readexactly(LENGTH.size)
    return prefix + await reader.readexactly(LENGTH.unpack(prefix)[0])
