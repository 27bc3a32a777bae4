"""One client's connection to the port of a broker, and the connection to the broker that it has for its own.

Requests go on in their order, and so do answers, so that whatever a broker keeps for a connection (fetch sessions,
quotas, order) is the client's. What the gateway answers itself waits for the broker's answers before it. While one
side does not read, the other is not read: no more than a socket's buffer is held for either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, cast

import structlog

from coordinator.gateway.allowed import API_VERSIONS, PRODUCE, Way, is_allowed, way_of
from coordinator.gateway.answering import Answers
from coordinator.gateway.front import Answered, Front, PassedOn
from coordinator.gateway.heads import Head, acks_of, head_at, with_client_id
from coordinator.gateway.stream import Stream, Verdict
from coordinator.runtime.tasks import spawn
from coordinator.server.connection_host import ConnectionHost
from protocol.codec.codec import decode, spec
from protocol.codec.primitives import Buffer
from protocol.errors import DecodeError, EncodeError, ErrorCode
from protocol.framing import (
    REQUEST_HEADER,
    SIZE,
    decode_response,
    encode_request,
    response_frame,
    skip_tagged_fields,
)
from protocol.messages import REQUESTS, RESPONSES

READ_BYTES_MAX: Final = 1 << 20
"""Of a request that is read; those that name groups, topics or keys have a few kilobytes."""
PRODUCE_HEAD_BYTES_MAX: Final = 70_000
"""Before the acks of a Produce there are two texts of at most 32 KiB each."""
CONNECT_TIMEOUT_S: Final = 10.0
FLUSH_TIMEOUT_S: Final = 5.0
"""How long a broker may take for what a client has sent that is gone."""
BUFFER_BYTES: Final = 1 << 18
"""Bytes that may wait to be written on either side before the other is not read."""
log = structlog.get_logger("muster.gateway")


class ToBroker(Protocol):
    """How connections to brokers are made."""

    async def connect(self, broker_id: int, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """Connect to the broker. Raises OSError."""


class BrokerPortConnection(asyncio.Protocol):
    """The client's end; the server counts it as it counts its own connections."""

    def __init__(
        self, host: ConnectionHost, listener_name: str, broker_id: int, front: Front, to_broker: ToBroker
    ) -> None:
        self._host = host
        self.listener_name = listener_name
        self._broker_id = broker_id
        self._front = front
        self._to_broker = to_broker
        self.peer = self.client_host = ""
        self.is_open = False
        self.last_request_ms = 0
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._held_bytes = 0
        self._is_unread = False  # Whether the client does not read.
        self._is_broker_busy = True  # Whether the broker does not read, or is not connected.
        self._is_ending = False
        self._requests = Stream(self._judge_request, self._to_be_sent, self._on_request)
        self._answers = Answers(self._to_client, self._on_room)

    # The client's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = client = cast(asyncio.Transport, transport)
        peer = client.get_extra_info("peername")
        if peer is None:  # The client hung up before its connection was accepted.
            client.abort()
            return
        self.client_host, self.peer = f"/{peer[0]}", f"{peer[0]}:{peer[1]}"
        client.set_write_buffer_limits(high=BUFFER_BYTES)
        self.is_open = True
        self._host.on_connected(self, peer[0])
        if self.is_open:
            self._connecting = spawn(self._connect())

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._to_broker.connect(self._broker_id, partial(BrokerEnd, self))
        except OSError as error:  # A TimeoutError is one.
            log.info("broker not reached", broker_id=self._broker_id, peer=self.peer, reason=str(error))
            self.abort()

    def data_received(self, data: bytes) -> None:
        self._take(lambda: self._requests.feed(data))

    def _take(self, feed: Callable[[], None]) -> None:
        """Look at requests; what cannot be one ends the connection."""
        try:
            feed()
        except (DecodeError, EncodeError) as error:
            self.refuse(str(error))
        self._count_held()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._client is not None:
            self._host.slow_readers.remove(self._client)
        self._client = None
        self._end()
        self._host.memory_pool.release(self._held_bytes)
        self._held_bytes = 0
        self._host.on_disconnected(self)

    def pause_writing(self) -> None:
        """The client does not read: nothing more is taken from it, nor from the broker for it."""
        self._is_unread = True
        assert self._client is not None
        self._host.slow_readers.add(self._client)
        if self._broker is not None:
            self._broker.pause_reading()
        self._maybe_read()

    def resume_writing(self) -> None:
        self._is_unread = False
        if self._client is not None:
            self._host.slow_readers.remove(self._client)
        if self._broker is not None:
            self._broker.resume_reading()
        self._on_room()

    # Requests.

    def _judge_request(self, data: Buffer, start: int, stop: int) -> Verdict:
        size = stop - start
        if not REQUEST_HEADER.size <= size <= self._host.max_request_bytes:
            raise DecodeError(
                f"frame of {size} bytes; allowed are {REQUEST_HEADER.size} to {self._host.max_request_bytes}"
            )
        if not self._may_take:
            self._maybe_read()
            return Verdict.WAIT
        if start + REQUEST_HEADER.size > len(data):
            return Verdict.MORE
        key, version, _, _ = REQUEST_HEADER.unpack_from(data, start)
        if not is_allowed(key, version):
            name = REQUESTS[key].__name__.removesuffix("Request") if key in REQUESTS else f"API key {key}"
            raise DecodeError(f"{name} v{version} does not pass the gateway")
        if way_of(key) is Way.READ:
            if size > READ_BYTES_MAX:
                raise DecodeError(f"{REQUESTS[key].__name__} of {size} bytes")
            return Verdict.KEEP
        is_answered = self._is_answered(data, start, stop) if key == PRODUCE else True
        if is_answered is None:
            return Verdict.MORE
        self.last_request_ms = self._host.clock.now_ms()
        if is_answered:
            self._answers.expect()
        return Verdict.PASS_ON

    def _is_answered(self, data: Buffer, start: int, stop: int) -> bool | None:
        """Whether a Produce will have an answer; None: its first bytes do not say it yet. Raises DecodeError."""
        frame = memoryview(data)[:stop]
        try:
            return acks_of(frame, head_at(frame, start)) != 0
        except DecodeError:
            if stop <= len(data) or len(data) - start > PRODUCE_HEAD_BYTES_MAX:
                raise
            return None

    def _to_be_sent(self, data: Buffer) -> None:
        assert self._broker is not None
        self._broker.write(data)

    def _on_request(self, frame: bytes) -> None:
        """A whole request that is read."""
        self.last_request_ms = self._host.clock.now_ms()
        head = head_at(frame, 0)
        request_class = REQUESTS[head.api_key]
        message = spec(request_class)
        if not message.min_version <= head.version <= message.max_version:  # Of ApiVersions alone.
            self._ask(frame, head, self._front.treat(request_class(), 0))
            return
        body = head.end if head.version < message.flexible_since else skip_tagged_fields(frame, head.end)
        request = decode(request_class, head.version, frame, body)
        treated = self._front.treat(request, head.version)
        if isinstance(treated, Answered):
            self._reply(head, treated.response)
        elif treated.request is request:
            self._ask(frame, head, treated)
        else:
            asked = encode_request(treated.request, head.version, head.correlation_id, None)
            self._ask(with_client_id(asked[SIZE.size :], head.client_id), head, treated)

    def _ask(self, frame: bytes, head: Head, passed_on: PassedOn | Answered) -> None:
        assert isinstance(passed_on, PassedOn)
        assert self._broker is not None
        self._answers.expect(partial(_rewritten, head, passed_on.rewrite))
        self._broker.write(SIZE.pack(len(frame)) + frame)

    def _reply(self, head: Head, response: Any) -> None:
        self._answers.add(b"".join(cast(Any, response_frame(head.correlation_id, response, head.version))))

    # The broker's side.

    def on_broker(self, broker: asyncio.Transport) -> None:
        """The broker is connected."""
        if not self.is_open:
            broker.abort()
            return
        self._broker = broker
        broker.set_write_buffer_limits(high=BUFFER_BYTES)
        self._is_broker_busy = False
        self._go_on()

    def on_broker_busy(self, is_busy: bool) -> None:
        """The broker does not read, or does again."""
        self._is_broker_busy = is_busy
        self._maybe_read()
        self._count_held()

    @property
    def _may_take(self) -> bool:
        """Whether another request may be looked at."""
        return self._broker is not None and not (self._answers.is_full or self._is_unread)

    def _maybe_read(self) -> None:
        """Read from the client exactly while what it sends can go on."""
        if self._client is None or not self.is_open:
            return
        if self._may_take and not (self._is_broker_busy or self._is_ending):
            self._client.resume_reading()
        else:
            self._client.pause_reading()

    def on_answers(self, data: bytes) -> None:
        try:
            self._answers.feed(data)
        except (DecodeError, EncodeError) as error:
            log.error("answer not understood", broker_id=self._broker_id, peer=self.peer, reason=str(error))
            self.abort()
        self._count_held()

    def _to_client(self, data: Buffer) -> None:
        if self._client is not None:
            self._client.write(data)
            if self._is_unread:
                self._host.slow_readers.add(self._client)

    def _on_room(self) -> None:
        self._host.call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self.is_open:
            return
        self._maybe_read()
        self._take(self._requests.go_on)

    def _count_held(self) -> None:
        """Count what is held of both directions among the memory of all connections."""
        held_bytes = self._requests.kept_bytes + self._answers.held_bytes if self.is_open else 0
        if self._broker is not None:
            held_bytes += self._broker.get_write_buffer_size()
        pool, more_bytes = self._host.memory_pool, held_bytes - self._held_bytes
        self._held_bytes = held_bytes
        if more_bytes < 0:
            pool.release(-more_bytes)
        elif more_bytes > 0:
            pool.take(more_bytes)
            if pool.is_full:
                self.refuse("the memory for requests is full", is_at_once=True)

    # The end, and what the server asks of its connections.

    @property
    def awaits_answer(self) -> bool:
        """Whether a whole request is unanswered, and not for want of a client that reads."""
        return self._answers.are_awaited and not (self._requests.is_amid_frame or self._is_unread)

    def refuse(self, reason: str, is_at_once: bool = False) -> None:
        """Close the connection of a client that sent what may not pass; at once, and answers are dropped."""
        log.warning("connection refused", peer=self.peer, listener=self.listener_name, reason=reason)
        if is_at_once:
            self.abort()
        else:
            self.close()

    def close_idle(self, idle_ms: int) -> None:
        """Close after `idle_ms` without a request; drop unsent answers if the client does not read."""
        if self._is_unread:
            self.abort()
        else:
            self.close()

    def stop_reading(self) -> None:
        """Take no more requests; those that went on are answered until the connection is closed."""
        self._is_ending = True
        self._maybe_read()

    def abort(self) -> None:
        """Close now and drop what was not sent."""
        client, broker = self._client, self._broker
        self._end()
        for each in (client, broker):
            if each is not None:
                each.abort()

    def close(self) -> None:
        """Close once the answers that came so far are sent."""
        client = self._client
        self._end()
        if client is not None:
            client.close()

    def _end(self) -> None:
        self.is_open = False
        self._requests.is_over = True
        self._answers.end()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._broker is not None:
            # What the client has sent still goes: without acks it would not be sent again.
            self._broker.close()
            asyncio.get_running_loop().call_later(FLUSH_TIMEOUT_S, self._broker.abort)
            self._broker = None


class BrokerEnd(asyncio.Protocol):
    """The broker's end of one client's connection."""

    def __init__(self, owner: BrokerPortConnection) -> None:
        self._owner = owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._owner.on_broker(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._owner.on_answers(data)

    def pause_writing(self) -> None:
        self._owner.on_broker_busy(True)

    def resume_writing(self) -> None:
        self._owner.on_broker_busy(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.close()


def _rewritten(head: Head, rewrite: Callable[[Any], Any], frame: bytes) -> bytes:
    """A broker's answer to the request with this head as the client gets it, with its size. Raises DecodeError."""
    version = head.version
    if head.api_key == API_VERSIONS and _is_unsupported(frame):
        version = 0
    correlation_id, response = decode_response(RESPONSES[head.api_key], version, frame)
    return b"".join(cast(Any, response_frame(correlation_id, rewrite(response), version)))


def _is_unsupported(frame: bytes) -> bool:
    """Whether an answer to ApiVersions says that the version is not known; it is in version 0 then (KIP-511)."""
    behind_correlation_id = SIZE.size
    error = int.from_bytes(frame[behind_correlation_id : behind_correlation_id + 2], "big", signed=True)
    return error == ErrorCode.UNSUPPORTED_VERSION
