"""A broker behind a gateway, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from protocol.framing import response_frame
from tests.server.test_connection import FakeTransport


class BrokerTransport(FakeTransport):
    """The broker's socket: one that is closed still sends what was written, one that is aborted does not."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        super().abort()
        self.is_aborted = True


class Broker:
    """Lets itself be connected to on command, or not at all."""

    def __init__(self) -> None:
        self.transport = BrokerTransport()
        self.end: asyncio.Protocol | None = None
        self.asked_for: list[int] = []
        self.error: OSError | None = None
        self.may_connect = asyncio.Event()

    async def connect(self, broker_id: int, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        self.asked_for.append(broker_id)
        await self.may_connect.wait()
        if self.error is not None:
            raise self.error
        self.end = protocol()
        self.end.connection_made(self.transport)
        return self.transport

    def answer(self, correlation_id: int, response: Any, version: int) -> None:
        self.say(b"".join(bytes(chunk) for chunk in response_frame(correlation_id, response, version)))

    def say(self, data: bytes) -> None:
        assert self.end is not None
        self.end.data_received(data)
