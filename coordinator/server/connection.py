"""One client's connection: frames in, answers out, in the order of the requests.

Bytes are cut into frames, a frame becomes a `Pending`, its handler answers now or later. Which request may start
and which answer may leave is the `ReplyOrder`'s. While a request must wait, or while the peer does not read,
nothing more is taken off the socket: that is the back-pressure, and the bound on memory, of one connection; what
all of them may hold is the `MemoryPool`'s. Knows no groups and no topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sized
from functools import partial
from struct import Struct
from time import perf_counter
from typing import Any, cast

import structlog

from coordinator.security.acls import Operation, ResourceType
from coordinator.security.session import NO_SESSION
from coordinator.server.answering import AnsweringConnection
from coordinator.server.api_table import API_VERSIONS_KEY, Api, ApiVersionsHandler
from coordinator.server.client_ids import ClientIds
from coordinator.server.connection_host import ConnectionHost
from coordinator.server.decoding import AsideDecoder, decode_request, has_whole_header, takes_long
from coordinator.server.gathering import Frames, Gathering
from coordinator.server.outgoing import Outgoing
from coordinator.server.pending import UNKNOWN_SOFTWARE, Pending
from coordinator.server.prepared import PreparedRequests
from coordinator.server.turn_parts import PutOff, closes_later, drop, ends_later
from protocol.errors import DecodeError

WRITE_HIGH_WATER_BYTES = 0
"""Unsent bytes beyond which the connection reads no more requests and writes no more answers."""

TURN_BYTES = 1 << 16
"""Bytes of answers gathered before they are written: only a write notices a peer that does not read."""

_SIZE = Struct(">i")
_HEAD = Struct(">ihhi")  # Size, API key, version, correlation id.
_HEADER = Struct(">hhih")  # API key, version, correlation id, length of the client id.

log = structlog.get_logger("muster.connection")


class Connection(AnsweringConnection):
    """The server's end of one client's socket."""

    __slots__ = (
        "_apis",
        "_backlog",
        "_client_ids",
        "_clock",
        "_gathering",
        "_host",
        "_is_ending",
        "_max_bytes",
        "_prepared",
        "_put_off",
        "_turn",
        "client_host",
        "client_software",
        "last_request_ms",
        "listener_name",
        "session",
    )

    def __init__(self, host: ConnectionHost, listener_name: str) -> None:
        super().__init__(host.memory_pool)
        self._host = host
        self._max_bytes = host.max_request_bytes
        self.listener_name = listener_name
        self.client_host = ""
        self.client_software = UNKNOWN_SOFTWARE
        self.session = NO_SESSION
        self.last_request_ms = 0
        self._clock = host.clock
        self._turn = host.turn
        self._gathering: Gathering | None = None  # Holds a partial frame, or requests held back.
        self._backlog: Sized = ()  # The pieces in `_gathering`.
        self._is_ending = False
        self._put_off: PutOff | None = None  # Set while the requests held back wait for a later turn.
        self._prepared = PreparedRequests(host.memory_pool)
        self._client_ids = ClientIds()

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do `operation` to the resource; where nobody gives rights, it may."""
        rights = self._host.rights
        if rights is None:
            return True
        host = self.client_host.removeprefix("/")
        return rights.may(self.session.principal, host, operation, resource_type, name)

    @property
    def client_id(self) -> str:
        """The client id of its latest request that was no prepared one."""
        return self._client_ids.text

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write = self._transport.write
        peer = self._transport.get_extra_info("peername")
        if peer is None:  # The client hung up before its connection was accepted.
            self._transport.abort()
            return
        self.client_host, self.peer = f"/{peer[0]}", f"{peer[0]}:{peer[1]}"
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self._outgoing = Outgoing(
            self._transport, self._host.readers, self._host.slow_readers, self._on_sent, self._on_unreadable
        )
        self._sending = self._outgoing.queue
        self._gathering = Gathering(self, self._transport, self._pool)
        self._backlog = self._gathering.pieces
        self._apis = self._host.apis  # Not sooner: it may change while TLS shakes hands.
        self.is_open = True
        self._host.on_connected(self, peer[0])

    def eof_received(self) -> bool:
        """Close, but not before what was received is started. True: the transport is closed by us."""
        return closes_later(self._put_off, self._turn, self.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport, self._write = None, drop  # What is started from here on is answered to no client.
        if self._outgoing is not None:
            self._outgoing.stop()
        self.is_open = self.is_open and self._put_off is not None
        if not ends_later(self._put_off, self._turn, self._on_lost):
            self._on_lost()

    def _on_lost(self) -> None:
        self.is_open = False
        self._order.clear()
        self._out.clear()
        if self._gathering is not None:
            self._gathering.stop()
        self.unmute()
        self._outgoing = self._gathering = None  # They refer back to this, and garbage collections are rare.
        self._prepared.forget()
        self._host.on_disconnected(self)

    def data_received(self, data: bytes) -> None:
        immediate, turn = self._prepared.immediate, self._turn
        if (
            data.endswith(immediate.rest)
            and data.startswith(immediate.head)
            and len(data) == immediate.size_bytes
            and not self._unanswered
            and not self._backlog
            and not self._write_blocked
            and not self._sending
            and not self._out
            and immediate.guard.version == immediate.guarded_at
            and (encoded := immediate.answer(now_ms := self._clock.now_ms())) is not None
        ):
            # The hot path: one whole prepared request and nothing else, next in the order. Inlined for speed.
            self.last_request_ms = now_ms
            encoded.count.sent += 1
            answer = encoded.before + data[8:12] + encoded.after
            if turn.cheap_left > 0 or turn.has_cheap():
                turn.cheap_left -= 1
                self._write(answer)
            else:  # To put the request off would cost as much; and a client without an answer sends no more.
                self._out.append(answer)
                turn.later(self._send)
            return
        if self._backlog:
            assert self._gathering is not None
            if self._gathering.add(data):
                self.consume(self._gathering.take())
            elif self._put_off is not None:
                self._hold_back()
        elif turn.is_over() and not self._pool.is_full:
            assert self._gathering is not None
            self._put_off = PutOff(self, turn)
            self._gathering.begin(data, _HEADER.size)
        elif not self._repeat(data):
            self.consume(data)

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

    def _repeat(self, data: Frames) -> bool:
        """Start the request in `data`, if that is a whole prepared one that waits for the disk, and nothing else.

        Returns False, and has done nothing, if it is anything else, or if requests before it are unanswered. What
        `consume` and `_start` do for any request is done here in a third of the calls, for a commit of 30 us.
        """
        waiting = self._prepared.waiting
        if (
            len(data) != waiting.size_bytes
            or self._unanswered
            or self._write_blocked
            or self._sending
            or not self.is_open
            or (field_values := waiting.match(data, 0, len(data))) is None
            or not waiting.holds()
        ):
            return False
        waiting.is_used = True
        _, key, _, correlation_id = _HEAD.unpack_from(data)
        api = self._apis[key]
        pending = Pending(self, api, waiting.api_version, correlation_id, waiting.client_id, len(data) - 4)
        self._enter(pending)
        # Not counted in the pool, like as many bytes received: it is short, and waits alone on its connection.
        self._handle(waiting.run, field_values, pending)
        return True

    def consume(self, data: Frames) -> None:
        """Start the whole requests in `data`, up to the first that has to wait; keep the remaining bytes."""
        position, end = 0, len(data)
        self._is_consuming = True
        needed_bytes = 4
        while end - position >= 4 and self.is_open:
            immediate = self._prepared.immediate
            if (
                immediate.has_same_bytes_at(data, position)
                and not self._unanswered
                and not self._is_sending
                and not self._turn.is_over()
            ):
                pieces, position = immediate.answer_all(data, position, now_ms := self._clock.now_ms())
                if pieces:
                    self.last_request_ms = now_ms
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
        self._is_consuming = False
        self._send()
        if position < end and self.is_open:
            assert self._gathering is not None
            self._gathering.begin(data[position:] if position else data, needed_bytes)

    def _start(self, data: Frames, start: int, stop: int) -> bool:
        """Hand the frame `data[start:stop]` to its handler; return False if it has to wait or was refused."""
        key, version, correlation_id, client_id_length = _HEADER.unpack_from(data, start)
        api = self._apis.get(key)
        if api is None:
            self.refuse(f"unknown API key {key}")
            return False
        if self._is_sending or (
            self._unanswered and (self._pool.is_full or not self._order.may_overtake(api.pipelines))
        ):
            self._hold_back()
            return False
        if self._turn.is_over() and not self._pool.is_full:
            self._put_off = PutOff(self, self._turn)
            self._hold_back()
            return False
        body = start + _HEADER.size + max(client_id_length, 0)
        if body > stop:
            self.refuse(f"{api.name}: client id of {client_id_length} bytes in a shorter frame")
            return False
        try:
            client_id = self._client_ids.text_of(bytes(data[start + _HEADER.size : body]))
        except DecodeError as error:
            self.refuse(f"{api.name}: client id: {error}")
            return False
        pending = Pending(self, api, version, correlation_id, client_id, stop - start)
        self._enter(pending)
        if (prepared := self._prepared.match(key, data, start - 4, stop)) is not None:
            self.call(*prepared, pending)
        elif api.min_version <= version <= api.max_version:
            self._decode(api, pending, data, body, stop)
        elif key == API_VERSIONS_KEY and has_whole_header(api, version, data, body, stop):
            self.call(cast(ApiVersionsHandler, api.handle).unsupported_version, None, pending)
        else:
            self.refuse(f"{api.name} v{version}; served are {api.min_version} to {api.max_version}")
            return False
        return True

    def _enter(self, pending: Pending) -> None:
        """Give a request its place in the order; accept connections first, if that is due."""
        self._order.add(pending)
        self.last_request_ms = now_ms = self._clock.now_ms()
        if now_ms >= self._host.accept_at_ms:
            self._host.accept(now_ms)

    def _decode(self, api: Api, pending: Pending, data: Frames, body: int, stop: int) -> None:
        """Decode the request in `data[body:stop]` and call its handler; close the connection if that fails."""
        version = pending.api_version
        if api.counts.latencies is not None:
            pending.received_s = perf_counter()
        if takes_long(api, stop - body):
            AsideDecoder(self, api, pending, self._pool).begin(self._host.readers, data, body, stop)
            return
        try:
            request = decode_request(api, version, data, body, stop)
        except DecodeError as error:
            self.refuse(f"{api.name} v{version}: {error}")
            return
        if api.prepare is not None:
            start = stop - pending.frame_bytes - _SIZE.size
            prepare = api.prepare if api.prepare_for is None else partial(api.prepare_for, pending)
            self._prepared.maybe_prepare(
                api.key, prepare, request, version, bytes(data[start:stop]), pending.client_id
            )
        self.call(api.handle, request, pending)

    def call(self, handle: Callable[[Any, Pending], None], request: Any, pending: Pending) -> None:
        """Call the handler of a request that has its place in the order; count its memory while it waits."""
        # One that pipelines waits for the disk, not for other requests.
        if self._handle(handle, request, pending) and pending.chunks is None and pending.api.pipelines:
            pending.held_bytes = pending.frame_bytes
            self._pool.take(pending.frame_bytes)

    def _handle(self, handle: Callable[[Any, Pending], None], request: Any, pending: Pending) -> bool:
        """Call the handler; close the connection and return False if it fails."""
        try:
            handle(request, pending)
        except Exception:  # A bug of ours: the client sees its connection close, the log has the trace.
            log.exception("request failed", api=pending.api.name, version=pending.api_version, peer=self.peer)
            self.close()
            return False
        return True

    # Order and back-pressure.

    def _hold_back(self) -> None:
        self.is_held_back = True
        if self._transport is not None and self.is_open:
            self._transport.pause_reading()

    def _maybe_resume(self) -> None:
        """Start the requests held back, in a later turn of the loop: this one may be another connection's."""
        if self.is_held_back and self._put_off is None and self.is_open:
            self._host.call_soon(self._resume)

    def _resume(self) -> None:
        if not self.is_held_back or self._put_off is not None or not self.is_open:
            return
        if self._is_sending or self._is_ending:
            self._hold_back()
            return
        self.is_held_back = False
        assert self._transport is not None
        self._transport.resume_reading()
        if self._gathering is not None and self._backlog:
            data = self._gathering.take()
            if not self._repeat(data):
                self.consume(data)

    def go_on(self, finish: Callable[[], None] | None) -> None:
        """Start the requests that were put off. If the client has gone meanwhile, `finish` follows them."""
        self._put_off = None
        if finish is None:
            self._resume()
            return
        self.is_held_back = self._is_ending
        if self._gathering is not None and self._backlog and not self._is_ending:
            self.consume(self._gathering.take())
        left_over = _left_over(self)
        if self.is_held_back and left_over is None and self._transport is not None:
            return  # Behind a request that waits; the end is seen again when the socket is read again.
        if not ends_later(left_over, None, finish):
            finish()

    @property
    def awaits_answer(self) -> bool:
        """Whether a request is unanswered or put off: then the connection is not idle, though it sends nothing."""
        return bool(self._unanswered) or self._put_off is not None

    @property
    def waits_for_disk(self) -> bool:
        """Whether received bytes are held back by requests that all wait for the disk, or for a later turn."""
        return self.is_held_back and (self._put_off is not None or self._order.waits_for_disk)

    # The end.

    def refuse(self, reason: str) -> None:
        """Close the connection of a peer that broke the protocol, with one log line: the peer and the reason."""
        log.warning("connection refused", peer=self.peer, listener=self.listener_name, reason=reason)
        self.close()

    def cut_off(self, reason: str) -> None:
        """Close at once and drop unsent answers: other connections need the memory that this one holds."""
        log.warning("connection refused", peer=self.peer, listener=self.listener_name, reason=reason)
        self.abort()

    def close_idle(self, idle_ms: int) -> None:
        """Close after `idle_ms` without a whole request; drop unsent answers if the peer does not read."""
        if self._gathering is not None and self._gathering.received_bytes > 0:
            self.refuse(f"no whole request for {idle_ms} ms")
        elif self._write_blocked:
            self.abort()
        else:
            self.close()

    def stop_reading(self) -> None:
        """Start no more requests; those that were started are still answered."""
        if self.is_open:
            self._is_ending = True
            self._hold_back()

    def abort(self) -> None:
        """Close now and drop the answers that were not sent."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close once the answers made so far are sent; requests not yet answered get none."""
        self._is_consuming = False
        self._send()
        self.is_open = False
        if self._transport is not None and (self._outgoing is None or self._outgoing.is_idle):
            self._transport.close()  # Otherwise `_on_sent` closes it.


def use_apis(connection: Connection, apis: Mapping[int, Api]) -> None:
    """Serve by another API table from the next request on; what was prepared by the last one is forgotten."""
    connection._apis = apis
    connection._prepared.forget()


def _left_over(connection: Connection) -> PutOff | None:
    """Return what was put off anew: in place, compiled code would insist on the None that was just assigned."""
    return connection._put_off
