"""One connection of a scenario's actor: a request goes out, its answer is awaited when the script wants it.

At most one request is under way at a time, so a request that a broker parks blocks nothing else: an actor
that asks meanwhile takes a second connection. Nothing is retried, nothing hidden.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from protocol.codec.codec import spec
from protocol.framing import encode_request
from tests.conformance.answers import Answer, read_answer

SIZE: Final = Struct(">i")
OPEN_TIMEOUT_S: Final = 20.0
CORRELATION_ID: Final = 7  # One request at a time: they need no ids of their own.


class Connection:
    """An open connection. `closed_by_peer` becomes true when the broker hangs up."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client_id: str,
        on_answer: Callable[[Answer], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._on_answer = on_answer
        self.is_busy = False
        self.questions: set[tuple[int, int]] = set()
        """API keys and versions of all that was asked."""
        self._answer: asyncio.Task[Any] | None = None

    @classmethod
    async def open(
        cls, bootstrap: str, client_id: str, on_answer: Callable[[Answer], None] = lambda answer: None
    ) -> Connection:
        """Connect to `host:port`; raises OSError or TimeoutError. `on_answer` sees every answer as it arrived."""
        host, port = bootstrap.rsplit(":", 1)
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, int(port))
        return cls(reader, writer, client_id, on_answer)

    def send(self, request: Any, version: int) -> asyncio.Task[Any]:
        """Send `request`; the task ends with its decoded answer, or ConnectionError when hung up on."""
        key = spec(type(request)).api_key
        assert key is not None
        return self.send_frame(
            encode_request(request, version, CORRELATION_ID, self._client_id), key, version
        )

    def send_frame(self, frame: bytes, key: int, version: int) -> asyncio.Task[Any]:
        """Send `frame` as `send` does; it may be one that our codec refuses to write."""
        assert not self.is_busy
        self.is_busy = True
        self.questions.add((key, version))
        self._writer.write(frame)
        self._answer = asyncio.create_task(self._receive(key, version))
        return self._answer

    def send_bytes(self, data: bytes) -> asyncio.Task[Any]:
        """Send `data` as it is; the task ends with the next frame, without its length, as `send` does."""
        assert not self.is_busy
        self._writer.write(data)
        self._answer = asyncio.create_task(self.next_frame())
        return self._answer

    def next_answer(self, key: int, version: int) -> asyncio.Task[Any]:
        """Await one more answer, to a request that went out with others."""
        assert not self.is_busy
        self.is_busy = True
        self._answer = asyncio.create_task(self._receive(key, version))
        return self._answer

    def write(self, data: bytes) -> None:
        """Send `data` as it is; `next_frame` has what comes back."""
        assert not self.is_busy
        self._writer.write(data)

    def send_without_answer(self, request: Any, version: int) -> None:
        """Send `request`, which the broker does not answer: Produce with acks 0."""
        assert not self.is_busy
        self._writer.write(encode_request(request, version, CORRELATION_ID, self._client_id))

    async def next_frame(self) -> bytes:
        """The next frame, without its length. Raises ConnectionError when hung up on."""
        try:
            (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the broker closed the connection") from error

    async def _receive(self, key: int, version: int) -> Any:
        frame = await self.next_frame()
        correlation_id, answer = read_answer(key, version, frame)
        assert correlation_id == CORRELATION_ID
        self.is_busy = False
        self._on_answer(answer)
        return answer.message

    def close(self) -> None:
        """Hang up; an answer that is still to come is lost."""
        if self._answer is not None:
            self._answer.cancel()
        self._writer.close()
