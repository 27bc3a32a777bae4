"""The daemon's end of a connection: the real `Connection`, on a transport in virtual time.

The daemon's API table is watched here, so that the witness knows each request from its arrival to the bytes of
its answer. What the daemon writes is cut into frames and decoded, and each answer has to be that of the oldest
request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from coordinator.server.api_table import Api, Handler
from coordinator.server.connection import Connection
from coordinator.server.memory_pool import MemoryPool
from coordinator.server.outgoing import SlowReaders
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepare, Prepared
from coordinator.settings.listeners import ListenerConfig
from protocol.framing import EncodedResponse, decode_response
from protocol.messages import RESPONSES
from tests.simulation.call import Call, api_key_of
from tests.simulation.timeline import Origin

if TYPE_CHECKING:
    from tests.simulation.server import Server
    from tests.simulation.wire import Wire

POOL_BYTES: Final = 256 << 20
MAX_REQUEST_BYTES: Final = 1 << 20
LISTENER: Final = ListenerConfig("PLAINTEXT", "10.0.0.9", 9092, "10.0.0.9", 9092)
PEER: Final = ("10.0.0.1", 40_000)

_SIZE: Final = Struct(">i")


class WireCall(Call):
    """A request on a connection: it is answered through the `Pending` that the connection made for it."""

    is_ordered = True
    correlation_id = 0
    pending: Pending | None = None

    def reply(self, response: Any) -> None:
        assert self.pending is not None, "answered before it was read"
        self.witness.on_made(self, response)
        self.pending.reply(response)


class Host:
    """Of `server.server.Server` what a connection uses."""

    max_request_bytes = MAX_REQUEST_BYTES
    readers = None  # No answer of these APIs is read from a file.
    accept_at_ms = 1 << 62

    def __init__(self, server: Server, apis: WatchedApis) -> None:
        self.apis = apis
        self.clock = server.clock
        self.call_soon = server.loop.call_soon
        self.slow_readers = SlowReaders()
        self.rights = None
        assert server.runtime is not None
        self.turn = server.runtime.turn
        self.memory_pool = MemoryPool(POOL_BYTES, server.clock, self._set_timer)

    def accept(self, now_ms: int) -> None:
        """Connections do not come by a socket that listens."""

    def _set_timer(self, owner: object, key: object, deadline_ms: int | None) -> None:
        raise AssertionError("requests of a few hundred bytes never wait for memory")

    def on_connected(self, connection: Connection, ip: str) -> None:
        """There is no maximum."""

    def on_disconnected(self, connection: Connection) -> None:
        """Nothing is kept of it."""


class SocketEnd(asyncio.Transport):
    """One connection in one life of the daemon."""

    def __init__(self, wire: Wire, server: Server) -> None:
        super().__init__()
        self._wire = wire
        self._server = server
        self._loop = server.loop
        self._received = bytearray()  # Which the daemon has not read yet.
        self._unread: list[tuple[int, Call]] = []
        self._to_start: deque[WireCall] = deque()
        self._to_answer: deque[WireCall] = deque()
        self._written = bytearray()  # An answer in part.
        self._is_reading_paused = self._is_read_due = self._is_frame_cut = False
        self._is_blocked = self._is_ended = self._is_over = False
        self._connection: Connection | None = None
        self._at_socket(self._accept)

    def _at_socket(self, action: Callable[[], None], delay_ms: int = 0) -> None:
        self._loop.run_at(self._server.timeline.now_ms + delay_ms, Origin.SOCKET, action)

    def _accept(self) -> None:
        host = Host(self._server, WatchedApis(self._server.apis, self))
        self._connection = Connection(host, LISTENER.name)  # type: ignore[arg-type]
        self._connection.connection_made(self)
        self._have_read()

    # What comes from the client.

    def arrived(self, data: bytes, call: WireCall | None) -> None:
        """Bytes are in the socket; `call` is the request that they complete."""
        if self._loop.is_dead or self._is_over:
            return
        self._received += data
        self._is_frame_cut = call is None
        if call is not None:
            if self._to_answer:
                self._server.witness.marks.reach("request_behind_an_unanswered_one")
            self._to_start.append(call)
            self._to_answer.append(call)
            self._server.witness.on_arrival(call)
            if not self._is_reading_paused:
                self._unread.append((self._server.timeline.now_ms, call))
                self._server.unread.append(self._unread[-1])
        self._have_read()

    def ended(self) -> None:
        """The client has hung up: what is still in the socket is read first."""
        self._is_ended = True
        self._have_read()

    def _have_read(self) -> None:
        if self._connection is not None and not (self._is_reading_paused or self._is_read_due):
            self._is_read_due = True
            self._at_socket(self._read)

    def _read(self) -> None:
        self._is_read_due = False
        if self._is_reading_paused or self._is_over:
            return
        self._note_read()
        data, self._received = bytes(self._received), bytearray()
        assert self._connection is not None
        if data:
            if self._is_frame_cut:
                self._server.witness.marks.reach("frame_read_in_part")
            self._connection.data_received(data)
        if self._is_ended and not self._is_reading_paused:
            self._lose()

    def _note_read(self) -> None:
        """No request of this connection waits for the daemon to look: it has, or means not to for now."""
        for arrived in self._unread:
            self._server.unread.remove(arrived)
        self._unread.clear()

    def _lose(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._note_read()
            self._server.ends.remove(self)
            for call in self._to_answer:
                self._server.witness.deadlines.excuse(call)
            assert self._connection is not None
            self._connection.connection_lost(None)

    def stuck(self) -> list[Any]:
        """Requests that have come and are not begun, though none before them is unanswered."""
        is_idle = len(self._to_start) == len(self._to_answer) and not self._is_blocked
        return [call.request for call in self._to_start] if is_idle else []

    def die(self) -> None:
        """The process is gone."""
        self._is_over = True
        self._wire.on_lost()

    # The requests, as the daemon starts them.

    def started(self, pending: Pending | None) -> WireCall:
        """The request that the daemon starts now: of those that have come, the first."""
        call = self._to_start.popleft()
        if pending is not None and pending.correlation_id != call.correlation_id:
            self._server.witness.violated(f"{call.request} came first, but another request was started")
        call.pending = pending
        self._server.witness.on_read(call)
        return call

    # The answers. A transport as the daemon sees it.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_over:
            return
        self._written += data
        while len(self._written) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._written)[0]
            if len(self._written) < end:
                break
            frame = bytes(self._written[_SIZE.size : end])
            del self._written[:end]
            self._answered(frame)
        if not self._is_blocked and (blocked_ms := self._wire.blocked_ms()):
            self._block(blocked_ms)
        if self._is_ended:
            self._at_socket(self._lose)  # The system says that no client takes it.

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def _answered(self, frame: bytes) -> None:
        witness = self._server.witness
        correlation_id = _SIZE.unpack_from(frame)[0]
        call = next((each for each in self._to_answer if each.correlation_id == correlation_id), None)
        if call is None:
            witness.violated(f"an answer to no request: {frame!r}")
            return
        if call is not self._to_answer[0]:
            witness.violated(f"{call.request} was answered before {self._to_answer[0].request}")
        self._to_answer.remove(call)
        cls = RESPONSES[api_key_of(call)]
        call.leave(decode_response(cls, call.api_version, frame)[1])

    def _block(self, blocked_ms: int) -> None:
        """The client does not read for a while, and the system has taken all it can."""
        self._is_blocked = True
        assert self._connection is not None
        self._connection.pause_writing()
        self._at_socket(self._unblock, blocked_ms)

    def _unblock(self) -> None:
        self._is_blocked = False
        if not self._is_over and self._connection is not None:
            self._connection.resume_writing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return PEER if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        """The system has taken all that was written, and takes no more while it blocks."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Whether a client is slow is drawn."""

    def pause_reading(self) -> None:
        self._is_reading_paused = True
        self._note_read()

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        if self._received or self._is_ended:
            self._have_read()

    def close(self) -> None:
        """No client of the simulation gives the daemon a reason, but to close what is closed."""
        if not (self._is_ended or self._is_over):
            self._server.witness.violated(f"the daemon closed a connection, unanswered: {self._requests()}")
        self._at_socket(self._lose)

    def abort(self) -> None:
        self.close()

    def _requests(self) -> list[Any]:
        return [call.request for call in self._to_answer]


class WatchedApis:
    """The daemon's API table on one connection; a row is made when it is asked for the first time."""

    def __init__(self, apis: Mapping[int, Api], end: SocketEnd) -> None:
        self._apis = apis
        self._end = end
        self._rows: dict[int, Api] = {}

    def get(self, key: int) -> Api | None:
        if key not in self._rows and key in self._apis:
            api = self._apis[key]
            self._rows[key] = replace(
                api,
                handle=self._handler(api.handle),
                prepare=None if api.prepare is None else self._prepare(api.prepare),
            )
        return self._rows.get(key)

    def __getitem__(self, key: int) -> Api:
        api = self.get(key)
        assert api is not None, f"no API has the key {key}"
        return api

    def _handler(self, handle: Handler) -> Handler:
        return lambda request, pending: handle(request, self._end.started(pending))  # type: ignore[arg-type]

    def _prepare(self, prepare: Prepare) -> Prepare:
        def watched(request: Any, version: int, frame: bytes) -> Prepared | None:
            prepared = prepare(request, version, frame)
            return None if prepared is None else self._watched(prepared, frame)

        return watched

    def _watched(self, prepared: Prepared, frame: bytes) -> Prepared:
        def run(numbers: tuple[int, ...], pending: Pending) -> None:
            prepared.run(numbers, self._end.started(pending))  # type: ignore[arg-type]

        def answer(now_ms: int) -> EncodedResponse | None:
            encoded = prepared.answer(now_ms)
            if encoded is not None:
                self._end.started(None)
            return encoded

        return Prepared(
            frame,
            prepared.is_current,
            run,
            template=prepared.template,
            answer=answer if prepared.is_immediate else None,
        )
