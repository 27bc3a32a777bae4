"""One client's connection: frames in, answers out, in the order of the requests.

Bytes are cut into frames, a frame becomes a `Pending`, its handler answers now or later. A request
starts only when the answers before it are out, as in Kafka, except that those of `Api.pipelines`
may share what they wait for. While a request must wait, while too many are unanswered, or while the
peer does not read, nothing more is taken off the socket: that is the back-pressure, and the bound on
memory, of one connection; what all of them may hold is the `MemoryPool`'s. Knows no groups and no topics.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sized
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

import structlog

from coordinator.server.api_table import API_VERSIONS_KEY, Api, ApiVersionsHandler
from coordinator.server.gathering import Frames, Gathering
from coordinator.server.large_frame import LARGE_FROM_BYTES
from coordinator.server.outgoing import Outgoing, joined
from coordinator.server.pending import Pending
from coordinator.server.prepared import PreparedRequests
from protocol.codec.codec import decode
from protocol.codec.primitives import Buffer, replaced_text
from protocol.errors import DecodeError
from protocol.framing import skip_tagged_fields
from storage.files import StorageError
from storage.log.file_range import FileRange

if TYPE_CHECKING:
    from coordinator.server.server import Server
    from coordinator.settings.listeners import Listener

MAX_UNANSWERED = 128
"""Pipelined requests of one connection that may wait for their answers; more stay in the socket."""

MAX_UNANSWERED_BYTES = 8 << 20
"""Of those requests together; beyond it the next one waits. A producer's batches are held until written."""

WRITE_HIGH_WATER_BYTES = 0
"""Bytes that the system has not taken beyond which no more of the connection's requests are read, nor answers."""

TURN_BYTES = 1 << 16
"""Of answers gathered in one turn before they are written: a peer that does not read them is noticed there."""

_SIZE = Struct(">i")
_HEADER = Struct(">hhih")  # API key, version, correlation id, length of the client id.

log = structlog.get_logger("muster.connection")


class Connection(asyncio.Protocol):
    """The server's end of one socket."""

    __slots__ = (
        "_apis",
        "_backlog",
        "_client_id",
        "_client_id_bytes",
        "_clock",
        "_gathering",
        "_in_turn",
        "_is_ending",
        "_is_pipelining",
        "_max_bytes",
        "_out",
        "_out_bytes",
        "_outgoing",
        "_pool",
        "_prepared",
        "_sending",
        "_server",
        "_transport",
        "_unanswered",
        "_unanswered_bytes",
        "_write",
        "_write_blocked",
        "client_host",
        "is_held_back",
        "is_open",
        "last_request_ms",
        "listener_name",
        "peer",
    )

    def __init__(self, server: Server, listener: Listener) -> None:
        self._server = server
        self._apis = server.apis
        self._max_bytes = server.max_request_bytes
        self._pool = server.memory_pool
        self.listener_name = listener.name
        self.client_host = ""
        self.peer = ""
        self.is_open = False
        self.last_request_ms = 0
        self._clock = server.clock
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[bytes], None] = _not_connected
        self._gathering: Gathering | None = (
            None  # Received, not yet a request: a partial frame, or held back.
        )
        self._backlog: Sized = ()  # Its pieces.
        self._unanswered: deque[Pending] = deque()
        self._unanswered_bytes = 0  # Their frames' sizes together.
        self._is_pipelining = True  # All of the unanswered may be overtaken in starting.
        self.is_held_back = False
        self._is_ending = False
        self._write_blocked = False
        self._in_turn = False
        self._out: list[Buffer | FileRange] = []
        self._out_bytes = 0
        self._outgoing: Outgoing | None = None  # Sends what has to be read first; idle as a rule.
        self._sending: Sized = ()  # Its queue.
        self._prepared = PreparedRequests()
        self._client_id_bytes = b""
        self._client_id = ""

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write = self._transport.write
        peer = self._transport.get_extra_info("peername")
        if peer is None:  # It has hung up before we came to it.
            self._transport.abort()
            return
        self.client_host, self.peer = f"/{peer[0]}", f"{peer[0]}:{peer[1]}"
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self._outgoing = Outgoing(
            self._transport,
            self._server.readers,
            self._server.slow_readers,
            self._on_sent,
            self._on_unreadable,
        )
        self._sending = self._outgoing.queue
        self._gathering = Gathering(self, self._transport, self._pool)
        self._backlog = self._gathering.pieces
        self.is_open = True
        self._server.on_connected(self, peer[0])

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._unanswered.clear()
        self._out.clear()
        if self._outgoing is not None:
            self._outgoing.stop()
        if self._gathering is not None:
            self._gathering.stop()
        self._outgoing = self._gathering = None  # They point back at us, and garbage collections are rare.
        self._server.on_disconnected(self)

    def data_received(self, data: bytes) -> None:
        immediate = self._prepared.immediate
        if (
            data.endswith(immediate.rest)
            and data.startswith(immediate.head)
            and len(data) == immediate.size_bytes
            and not self._unanswered
            and not self._backlog
            and not self._write_blocked
            and not self._sending
            and immediate.is_current()
        ):
            # The hot path: a prepared request, whole, alone and next in the order, so written out flat.
            self.last_request_ms = now_ms = self._clock.now_ms()
            encoded = immediate.answer(now_ms)
            self._write(encoded.before + data[8:12] + encoded.after)
            return
        if self._backlog:
            assert self._gathering is not None
            if self._gathering.add(data):
                self._consume(self._gathering.take())
        else:
            self._consume(data)

    def pause_writing(self) -> None:
        self._write_blocked = True
        if self._outgoing is not None:
            self._outgoing.pause()

    def resume_writing(self) -> None:
        self._write_blocked = False
        if self._outgoing is not None:
            self._outgoing.resume()
        self._maybe_resume()

    # Frames in.

    def _consume(self, data: Frames) -> None:
        """Start every whole request in `data`, as far as they may start; keep the rest."""
        position, end = 0, len(data)
        self._in_turn = True
        needed_bytes = 4
        while end - position >= 4 and self.is_open:
            immediate = self._prepared.immediate
            if immediate.is_next(data, position) and not self._unanswered and not self._is_sending:
                self.last_request_ms = now_ms = self._clock.now_ms()
                pieces, position = immediate.answer_all(data, position, now_ms)
                self._out += pieces
                continue
            size = _SIZE.unpack_from(data, position)[0]
            if size < _HEADER.size or size > self._max_bytes:
                self.refuse(f"frame of {size} bytes; allowed are {_HEADER.size} to {self._max_bytes}")
                break
            stop = position + 4 + size
            if stop > end:
                needed_bytes = 4 + size
                break
            if not self._start(data, position + 4, stop):
                break
            position = stop
            if self._out_bytes >= TURN_BYTES:
                self._send()
        self._in_turn = False
        self._send()
        if position < end and self.is_open:
            assert self._gathering is not None
            self._gathering.begin(data[position:] if position else data, needed_bytes)

    def on_large(self, frame: bytearray) -> None:
        """A large frame is whole."""
        self._consume(frame)

    def _start(self, data: Frames, start: int, stop: int) -> bool:
        """Hand the frame `data[start:stop]` to its handler; False if it has to wait."""
        key, version, correlation_id, client_id_length = _HEADER.unpack_from(data, start)
        api = self._apis.get(key)
        if api is None:
            self.refuse(f"unknown API key {key}")
            return False
        if (self._unanswered and not self._may_overtake(api)) or self._is_sending:
            self._hold_back()
            return False
        body = start + _HEADER.size + max(client_id_length, 0)
        if body > stop:
            self.refuse(f"{api.name}: client id of {client_id_length} bytes in a shorter frame")
            return False
        try:
            client_id = self._client_id_of(bytes(data[start + _HEADER.size : body]))
        except DecodeError as error:
            self.refuse(f"{api.name}: client id: {error}")
            return False
        pending = Pending(self, api, version, correlation_id, client_id, stop - start)
        self.last_request_ms = now_ms = self._clock.now_ms()
        if now_ms >= self._server.accept_at_ms:
            self._server.accept(now_ms)
        if (prepared := self._prepared.match(api, data, start - 4, stop)) is not None:
            self._handle(*prepared, pending)
            return True
        if not api.min_version <= version <= api.max_version:
            return self._unsupported(pending)
        self._decode(pending, data, start, body, stop)
        return True

    def _decode(self, pending: Pending, data: Frames, start: int, body: int, stop: int) -> None:
        api = pending.api
        try:
            frame = memoryview(data)[body:stop] if stop - body > LARGE_FROM_BYTES else bytes(data[body:stop])
            tags_end = 0 if pending.api_version < api.flexible_since else skip_tagged_fields(frame, 0)
            request: Any = decode(api.request_class, pending.api_version, frame, tags_end)
        except DecodeError as error:
            self.refuse(f"{api.name} v{pending.api_version}: {error}")
            return
        if api.prepare is not None:
            self._prepared.learn(api, request, pending.api_version, bytes(data[start - 4 : stop]))
        self._handle(api.handle, request, pending)

    def _handle(self, handle: Callable[[Any, Pending], None], request: Any, pending: Pending) -> None:
        """Give `pending` its place in the order, and have what was asked handled."""
        api = pending.api
        self._is_pipelining = api.pipelines and (self._is_pipelining or not self._unanswered)
        self._unanswered.append(pending)
        self._unanswered_bytes += pending.frame_bytes
        try:
            handle(request, pending)
        except Exception:  # Ours, not the peer's: it is told by closing, we by the trace.
            log.exception("request failed", api=api.name, version=pending.api_version, peer=self.peer)
            self.close()
            return
        if pending.chunks is None and api.pipelines:  # It waits for the disk, not for other requests.
            pending.held_bytes = pending.frame_bytes
            self._pool.take(pending.frame_bytes)

    def _client_id_of(self, raw: bytes) -> str:
        """A connection keeps one client id, so the last one is remembered."""
        if raw != self._client_id_bytes:
            self._client_id = replaced_text(raw)
            self._client_id_bytes = raw
        return self._client_id

    def _unsupported(self, pending: Pending) -> bool:
        api = pending.api
        if api.key != API_VERSIONS_KEY:
            self.refuse(
                f"{api.name} v{pending.api_version}; served are {api.min_version} to {api.max_version}"
            )
            return False
        self._unanswered.append(pending)
        self._unanswered_bytes += pending.frame_bytes
        cast(ApiVersionsHandler, api.handle).unsupported_version(pending)
        return True

    # Order and back-pressure.

    @property
    def _is_sending(self) -> bool:
        """Whether answers are still on their way out: no more are made for a peer who does not take them."""
        return self._write_blocked or bool(self._sending)

    def _may_overtake(self, api: Api) -> bool:
        return (
            self._is_pipelining
            and api.pipelines
            and len(self._unanswered) < MAX_UNANSWERED
            and self._unanswered_bytes < MAX_UNANSWERED_BYTES
            and not self._pool.is_full
        )

    def _hold_back(self) -> None:
        if not self.is_held_back and self._transport is not None:
            self.is_held_back = True
            self._transport.pause_reading()

    def _maybe_resume(self) -> None:
        """Look at what was held back, in a turn of its own: an answer may come from anybody's turn."""
        if self._may_resume:
            self._server.call_soon(self._resume)

    @property
    def _may_resume(self) -> bool:
        return self.is_held_back and self.is_open and not self._is_sending and not self._is_ending

    def _resume(self) -> None:
        if not self._may_resume:
            return
        self.is_held_back = False
        assert self._transport is not None
        self._transport.resume_reading()
        if self._gathering is not None and self._backlog:
            self._consume(self._gathering.take())

    # Answers out.

    def on_not_held(self, size_bytes: int) -> None:
        """A request of ours has its answer, so what came with it is let go of; we may be closed by now."""
        self._pool.release(size_bytes)

    def on_answered(self, pending: Pending) -> None:
        """`pending` has its answer: send it, and those behind it, if it was the one waited for."""
        unanswered = self._unanswered
        if not unanswered or unanswered[0] is not pending:
            return
        while unanswered and unanswered[0].chunks is not None:
            answered = unanswered.popleft()
            self._unanswered_bytes -= answered.frame_bytes
            self._out += answered.chunks or ()
            self._out_bytes += sum(map(len, answered.chunks or ()))
        if not self._in_turn:
            self._send()
        if self.is_held_back:
            self._maybe_resume()

    def _send(self) -> None:
        """Hand over what is answered; one write for all the answers of a turn."""
        out = self._out
        if out and self.is_open:
            assert self._outgoing is not None
            if self._outgoing.is_idle and (whole := joined(out)) is not None:
                self._write(whole)
                if self._write_blocked:
                    self._outgoing.grew()
            else:
                self._outgoing.send(out)
        out.clear()
        self._out_bytes = 0

    def _on_sent(self) -> None:
        """The answers that had to be read are out."""
        if not self.is_open and self._transport is not None:
            self._transport.close()
        elif self.is_held_back:
            self._maybe_resume()

    def _on_unreadable(self, error: StorageError) -> None:
        """Half an answer is out and the rest cannot be read: the peer may ask again."""
        log.error("answer cut short", peer=self.peer, error=str(error))
        self.abort()

    @property
    def awaits_answer(self) -> bool:
        """Whether a request is still unanswered: the silence is then ours."""
        return bool(self._unanswered)

    @property
    def waits_for_disk(self) -> bool:
        """Whether what was received waits for requests that wait for the disk, not for other requests."""
        return self.is_held_back and self._is_pipelining and bool(self._unanswered)

    @property
    def is_read_by_peer(self) -> bool:
        """Whether the peer takes its answers."""
        return not self._write_blocked

    @property
    def holds_partial_frame(self) -> bool:
        return self._gathering is not None and self._gathering.received_bytes > 0

    # The end.

    def refuse(self, reason: str) -> None:
        """Close on a peer that broke the protocol, with the one line that names it and why."""
        log.warning("connection refused", peer=self.peer, listener=self.listener_name, reason=reason)
        self.close()

    def cut_off(self, reason: str) -> None:
        """Close at once, without a last word: for the sake of others."""
        log.warning("connection refused", peer=self.peer, listener=self.listener_name, reason=reason)
        self.abort()

    def stop_reading(self) -> None:
        """Start no more requests; those that were started are still answered."""
        if self.is_open:
            self._is_ending = True
            self._hold_back()

    def abort(self) -> None:
        """Close now: the peer does not take what it was sent."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close once what was answered so far is out; requests not yet answered get none."""
        self._in_turn = False
        self._send()
        self.is_open = False
        if self._transport is not None and (self._outgoing is None or self._outgoing.is_idle):
            self._transport.close()  # Else it is when the rest of the answers is out.


def _not_connected(data: bytes) -> None:
    raise AssertionError("written to before connection_made")
