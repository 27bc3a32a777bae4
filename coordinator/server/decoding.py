"""Decoding of requests: at once as a rule, on a thread where it takes too long for the event loop.

A DescribeGroups of 100,000 groups takes 40 ms. While a thread decodes it the request has its place in the order of
its connection, so that nothing overtakes it, and it counts in the pool of memory. Requests that pipeline are never
decoded aside: the next one may start before the one before it is answered, and has to find it handled.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from coordinator.server.api_table import Api
from coordinator.server.gathering import Frames
from coordinator.server.large_frame import LARGE_FROM_BYTES
from coordinator.server.memory_pool import MemoryPool
from coordinator.server.outgoing import Readers
from coordinator.server.pending import Pending
from protocol.codec.codec import decode
from protocol.errors import DecodeError
from protocol.framing import skip_tagged_fields

ASIDE_FROM_BYTES: Final = 1 << 17
"""Size of a request from which it is decoded on a thread: smaller ones take some 5 ms at most."""


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request that is passed on as it came, where that is the `request_class` of its row in the API table."""

    api_key: int
    body: bytes
    """All that is behind the client id: the header's tagged fields, if it has any, and the message."""


class Starter(Protocol):
    """The connection of a request that is decoded aside."""

    is_open: bool

    def call(self, handle: Callable[[Any, Pending], None], request: Any, pending: Pending) -> None:
        """Call the handler of a request that has its place in the order."""

    def refuse(self, reason: str) -> None:
        """Close the connection, with `reason` in the log."""


def decode_request(api: Api, version: int, data: Frames, body: int, stop: int) -> Any:
    """Return the request in `data[body:stop]`, behind the tagged fields of its header. Raises DecodeError."""
    if api.request_class is RawRequest:
        return RawRequest(api.key, bytes(data[body:stop]))
    frame = memoryview(data)[body:stop] if stop - body > LARGE_FROM_BYTES else bytes(data[body:stop])
    tags_end = 0 if version < api.flexible_since else skip_tagged_fields(frame, 0)
    return decode(api.request_class, version, frame, tags_end)


def has_whole_header(api: Api, version: int, data: Frames, body: int, stop: int) -> bool:
    """Whether the header's tagged fields end within the frame, if the version, served or not, has any."""
    try:
        if version >= api.flexible_since:
            skip_tagged_fields(memoryview(data)[body:stop], 0)
    except DecodeError:
        return False
    return True


def takes_long(api: Api, size_bytes: int) -> bool:
    """Whether a request of this size is decoded aside."""
    return size_bytes >= ASIDE_FROM_BYTES and not api.pipelines


class AsideDecoder:
    """Decodes one request on one of `threads`, then has its connection call the handler, or refuse it."""

    def __init__(self, connection: Starter, api: Api, pending: Pending, pool: MemoryPool) -> None:
        """`pending` has its place in the order."""
        self._connection, self._api, self._pending = connection, api, pending
        pending.held_bytes = pending.frame_bytes
        pool.take(pending.frame_bytes)

    def begin(self, threads: Readers, data: Frames, body: int, stop: int) -> None:
        version = self._pending.api_version
        threads.submit(partial(decode_request, self._api, version, data, body, stop), self._on_decoded)

    def _on_decoded(self, decoded: Future[Any]) -> None:
        pending = self._pending
        pending.release_memory()
        if not self._connection.is_open:
            return
        try:
            request = decoded.result()
        except DecodeError as error:
            self._connection.refuse(f"{self._api.name} v{pending.api_version}: {error}")
            return
        self._connection.call(self._api.handle, request, pending)
