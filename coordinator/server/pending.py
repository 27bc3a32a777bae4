"""One request that awaits its answer: its client, its version, and the connection that the answer goes to.

A `Pending` keeps the request's place in its connection's order. Handlers answer it once, now or
later; it knows no groups and no topics.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, ClassVar, Final, Protocol

from coordinator.quotas.meter import Meter
from coordinator.security.acls import Operation, ResourceType
from coordinator.security.session import Session
from coordinator.server.api_counts import ApiCounts
from protocol.codec.primitives import Buffer
from protocol.errors import EncodeError
from protocol.framing import EncodedResponse, response_frame

CHUNKS_OF_A_PIECE: Final = 10_000
"""Chunks that are joined at a time: 2 to 4 ms, where 100,000 groups are half a million of them."""


UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")
"""Name and version of the client's library where it has not given them."""


class ApiTraits(Protocol):
    """The properties of a request's API that its place in the order and its log lines depend on."""

    @property
    def name(self) -> str: ...
    @property
    def counts(self) -> ApiCounts: ...
    @property
    def pipelines(self) -> bool:
        """Whether the next request may start before this one is answered, if it pipelines too."""


class Channel(Protocol):
    """The connection that a request came on, as its `Pending` sees it."""

    client_software: tuple[str, str]
    """Name and version of the client's library, as its ApiVersions request gave them (KIP-511)."""

    @property
    def client_host(self) -> str: ...
    @property
    def listener_name(self) -> str: ...
    @property
    def session(self) -> Session:
        """Who the client is."""

    @property
    def is_open(self) -> bool: ...
    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do `operation` to the resource, now."""

    def on_answered(self, pending: Pending) -> None:
        """Send the answer of `pending`, which is in `pending.chunks`, in its turn."""

    def on_framed(self, pending: Pending, frame: bytes) -> None:
        """As `on_answered`, where the answer is the one chunk `frame`."""

    def release_memory(self, size_bytes: int) -> None:
        """Stop counting the frame of an answered request; the connection may be closed already."""

    def wait_alone(self) -> None:
        """Start no other request before those that are unanswered now have their answers."""

    def mute(self, throttle_ms: int) -> None:
        """Start no more requests for so long; what is answered meanwhile is sent (KIP-219)."""

    def refuse(self, reason: str) -> None:
        """Close the connection, with `reason` in the log."""


class Pending:
    """A request that was received and is not answered yet."""

    __slots__ = (
        "__weakref__",
        "api",
        "api_version",
        "chunks",
        "client_id",
        "connection",
        "correlation_id",
        "frame_bytes",
        "held_bytes",
        "received_s",
    )

    is_guarded: ClassVar[bool] = False
    """Whether its handler has to ask for rights itself, or what it answers is completed behind it."""

    def __init__(
        self,
        connection: Channel,
        api: ApiTraits,
        api_version: int,
        correlation_id: int,
        client_id: str,
        frame_bytes: int = 0,
    ) -> None:
        self.connection = connection
        self.api = api
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.frame_bytes = frame_bytes
        # Bytes counted in the memory pool until there is an answer, even if the peer is gone.
        self.held_bytes = 0
        self.received_s = 0.0  # When a request that is timed was received; 0: it is not timed.
        self.chunks: Sequence[Buffer] | None = None  # The framed answer, from the moment it is known.

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka shows it: "/127.0.0.1"."""
        return self.connection.client_host

    @property
    def listener(self) -> str:
        """Name of the listener that the request came through, whose endpoint the answer names."""
        return self.connection.listener_name

    @property
    def is_open(self) -> bool:
        """Whether the client still waits for the answer."""
        return self.connection.is_open

    @property
    def session(self) -> Session:
        """Who the client is."""
        return self.connection.session

    @property
    def meter(self) -> Meter | None:
        """What the request takes of quotas: nothing, unless it is a `MeteredPending`."""
        return None

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do `operation` to the resource, now."""
        return self.connection.may(operation, resource_type, name)

    @property
    def describes(self) -> Callable[[str], bool] | None:
        """Whether the client may know of the topic of this name; None: of all."""
        return None

    def part(self, part: GatherPart) -> Any:
        """Return what answers of single shards go to, on their way to `part`."""
        return part

    def reply(self, response: Any) -> None:
        """Answer with `response`, a message or an EncodedResponse, once every earlier request is answered.

        Raises nothing: a response that the API version cannot encode (a text longer than its field may be) closes
        the connection.
        """
        assert self.chunks is None, f"{self.api.name} was answered twice"
        self.release_memory()
        if not self.connection.is_open:
            return
        if isinstance(response, EncodedResponse):
            response.count.sent += 1
            frame = response.frame(self.correlation_id)
            self.chunks = (frame,)
            self.connection.on_framed(self, frame)
            return
        try:
            self.chunks = response_frame(self.correlation_id, response, self.api_version)
        except EncodeError as error:
            self.drop(str(error))
            return
        self._count(response)
        self.connection.on_answered(self)

    def reply_framed(self, frame: bytes) -> None:
        """Answer with a frame, without its size, that another server has made for this request."""
        assert self.chunks is None, f"{self.api.name} was answered twice"
        self.release_memory()
        if self.connection.is_open:
            self.api.counts.answered += 1
            self.chunks = (len(frame).to_bytes(4, "big"), frame)
            self.connection.on_answered(self)

    def _count(self, response: Any) -> None:
        """Count an answer, the errors in it, and how long it took."""
        counts = self.api.counts
        counts.add(response)
        if self.received_s and counts.latencies is not None:
            counts.latencies.add(perf_counter() - self.received_s)

    def reply_aside(
        self, make: Callable[[], Any], run: Callable[[Callable[[], object], Callable[[Any], None]], None]
    ) -> None:
        """Answer as `reply` does, with an answer so large that making and encoding it would block the loop.

        `run(work, done)` does the work on a thread, then calls `done` on the event loop with the finished future.
        There it is joined to a few large chunks as well, so it may have no records that are read from files.
        """
        correlation_id, version = self.correlation_id, self.api_version
        run(lambda: _in_pieces(response_frame(correlation_id, make(), version)), self._on_framed)

    def _on_framed(self, framed: Future[Sequence[Buffer]]) -> None:
        if framed.cancelled() or not self.connection.is_open:  # Cancelled when the daemon stops.
            return
        error = framed.exception()
        if isinstance(error, EncodeError):  # Not raised: it would make a cycle with this frame.
            self.drop(str(error))
        else:
            self.chunks = framed.result()
            self.api.counts.answered += 1  # It is too large to look for errors in it, and has none as a rule.
            self.connection.on_answered(self)

    def no_reply(self) -> None:
        """Leave the order without an answer, as Produce with acks=0 does."""
        self.release_memory()
        self.api.counts.answered += 1
        self.chunks = []
        self.connection.on_answered(self)

    def drop(self, reason: str) -> None:
        """Close the connection instead of answering: the only report of a failure where no answer is expected."""
        self.release_memory()
        self.connection.refuse(f"{self.api.name} v{self.api_version}: {reason}")

    def release_memory(self) -> None:
        """Stop counting the request in the pool of memory."""
        if self.held_bytes:
            held_bytes, self.held_bytes = self.held_bytes, 0
            self.connection.release_memory(held_bytes)


def _in_pieces(chunks: Sequence[Buffer]) -> list[bytes]:
    """Return `chunks` joined, CHUNKS_OF_A_PIECE at a time: one call for all would keep the interpreter as long."""
    starts = range(0, len(chunks), CHUNKS_OF_A_PIECE)
    return [b"".join(chunks[start : start + CHUNKS_OF_A_PIECE]) for start in starts]


class Gather:
    """Collects the responses to the parts of one request; calls `merge` once, when all have arrived.

    `merge` is called with the responses in the order of the parts.
    """

    def __init__(self, parts: int, merge: Callable[[list[Any]], None]) -> None:
        self._responses: list[Any] = [None] * parts
        self._missing = parts
        self._merge = merge

    def part(self, index: int) -> GatherPart:
        return GatherPart(self, index)

    def arrived(self, index: int, response: Any) -> None:
        self._responses[index] = response
        self._missing -= 1
        if not self._missing:
            self._merge(self._responses)


class GatherPart:
    """One part of a request, whose response goes to a `Gather`; a shard uses it like a `Pending`."""

    __slots__ = ("__weakref__", "_gather", "_index")

    def __init__(self, gather: Gather, index: int) -> None:
        self._gather = gather
        self._index = index

    def reply(self, response: Any) -> None:
        self._gather.arrived(self._index, response)
