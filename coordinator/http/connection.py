"""One client's connection: h11 parses heads, a handler's steps make the answer, one request after the other.

Whatever the peer can make grow is bounded: the head and the body (`heads`), what waits to be sent, the time for
each. While a request is answered nothing more is read, so a peer that sends requests without end is held up by its
own socket. A peer that does not read pauses the handler, and is cut off after a while. Knows no groups.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Final, Protocol, cast

import h11
import structlog

from coordinator.http.exchange import JSON, PROBLEM, HttpProblem, Request, Steps
from coordinator.http.heads import HeadBuffer, body_length, response, stream_head
from coordinator.http.parts import encoded
from coordinator.http.work import StepQueue, Work

log = structlog.get_logger("muster.http")

REQUEST_MS: Final = 10_000
"""Longest time from a request's first byte to its last; also for the first byte of a connection."""

IDLE_MS: Final = 60_000
"""Longest time between two requests: scrapes come every 15 s or every 60 s."""

UNREAD_MS: Final = 20_000
"""Longest time for which a peer may not read what was sent to it."""

LINGER_MS: Final = 2_000
"""Time for which a peer may go on sending after a refusal, which it could not read if the socket were closed."""

UNSENT_BYTES: Final = 64 << 10
"""Unsent bytes beyond which a handler pauses."""

WHOLE_BYTES: Final = 64 << 10
"""An answer up to this size is sent with its length; a longer one in parts, as it is made."""

NO_LINGER: Final = struct.pack("ii", 1, 0)

NEVER_MS: Final = 1 << 62


class Stream(Protocol):
    """What goes on on a connection whose request asked for the stream of events."""

    def on_writable(self) -> None:
        """The peer has read what was sent: there is room again."""

    def on_closed(self) -> None:
        """The connection is gone."""


class HttpHost(Protocol):
    """The server, as its connections see it."""

    @property
    def steps(self) -> StepQueue: ...
    def now_ms(self) -> int: ...
    def handle(self, request: Request, connection: Connection) -> tuple[Steps, str] | Stream:
        """Begin to answer. Raises HttpProblem."""

    def on_connected(self, connection: Connection) -> None: ...
    def on_disconnected(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """The server's end of one client's socket."""

    def __init__(self, host: HttpHost) -> None:
        self.host = host
        self._transport: asyncio.Transport | None = None
        self._http = h11.Connection(h11.SERVER)
        self._received = HeadBuffer()
        self._body_left: int | None = None  # Of the request whose head was parsed; None: no head yet.
        self._request: h11.Request | None = None
        self._answer: Answer | None = None  # Under way.
        self.stream: Stream | None = None
        self.is_blocked = False  # The peer does not read.
        self._blocked_ms = 0  # Since when.
        self.is_of_api = False  # It has asked for something else than a stream.
        self.is_last = False  # No request after this one is answered.
        self._lingers = False
        self._is_answered = False  # All of it; what is left is for the peer to close.
        self.deadline_ms = 0  # When it is closed, unless something happens.
        self.peer = ""
        self._is_tls = False

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = self._transport.get_extra_info("peername")
        self._is_tls = self._transport.get_extra_info("ssl_object") is not None
        self.peer = f"{peer[0]}:{peer[1]}" if peer else ""
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES, low=0)
        self.deadline_ms = self.host.now_ms() + REQUEST_MS
        self.host.on_connected(self)

    def data_received(self, data: bytes) -> None:
        if self._lingers or self.stream is not None:
            return  # A client has nothing to say on a stream; of a refused one nothing is heard.
        if self.is_idle:
            self.deadline_ms = self.host.now_ms() + REQUEST_MS
        self._received.add(data)
        self._go_on()

    def eof_received(self) -> bool:
        """Close, but not before what was asked is answered. True: the transport is closed by us."""
        self.is_last = True
        return self._answer is not None and self.stream is None and not self._lingers and not self._is_tls

    def pause_writing(self) -> None:
        self.is_blocked = True
        self._blocked_ms = self.host.now_ms()
        self.deadline_ms = self._blocked_ms + UNREAD_MS

    def resume_writing(self) -> None:
        self.is_blocked = False
        if self.stream is not None:
            self.deadline_ms = NEVER_MS
            self.stream.on_writable()
        elif self._answer is not None:
            self._answer.resume()
        elif not self._lingers:
            self._resume_requests()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None:
            self._answer.stop()
        if self.stream is not None:
            self.stream.on_closed()
        self._answer = self.stream = None
        self.host.on_disconnected(self)

    # Requests.

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request of which nothing has come."""
        return not (self._received or self._request or self._answer or self.stream or self._lingers)

    @property
    def is_partial(self) -> bool:
        """Whether it waits for the rest of a request."""
        is_busy = self._answer or self.stream or self._lingers or self.is_blocked
        return bool(self._received or self._request) and not is_busy

    @property
    def is_over(self) -> bool:
        """Whether all was answered and sent, and only the peer's end is waited for."""
        return self._is_answered and not self.unsent_bytes

    @property
    def unread_ms(self) -> int:
        """For how long the peer of an answer has not read what was sent to it."""
        return self.host.now_ms() - self._blocked_ms if self.is_blocked and self.stream is None else 0

    def _go_on(self) -> None:
        """Begin to answer the next request that is whole."""
        while self._answer is None and self.stream is None and not (self._lingers or self.is_blocked):
            try:
                request = self._next_request()
                if request is None:
                    return
                self._begin(request)
            except HttpProblem as problem:
                self._refuse(problem)
            except h11.RemoteProtocolError as error:
                self._refuse(HttpProblem(error.error_status_hint, f"This is no request: {error}."))

    def _next_request(self) -> Request | None:
        """Return the next request if it is whole.

        Raises HttpProblem or RemoteProtocolError; behind that nothing is read.
        """
        if self._request is None:
            head = self._received.take_head()
            if head is None:
                return None
            self._http.receive_data(head)
            event = self._http.next_event()
            assert isinstance(event, h11.Request), f"a whole head gives {event!r}"
            if not event.http_version.startswith(b"1."):  # h11 takes any two figures.
                raise HttpProblem(505, "HTTP 1.0 and HTTP 1.1 are spoken here, and no other.")
            self._request, self._body_left = event, body_length(event)
        assert self._body_left is not None, "it is known with the head"
        if len(self._received) < self._body_left:
            return None
        if self._body_left:
            self._http.receive_data(self._received.take(self._body_left))
        while not isinstance(self._http.next_event(), h11.EndOfMessage):
            pass  # The body, which means nothing.
        request, self._request = self._request, None
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
        return Request(request.method.decode("ascii"), request.target, headers)

    def _begin(self, request: Request) -> None:
        try:
            begun = self.host.handle(request, self)
        except HttpProblem as problem:
            begun = _refused(problem), JSON
        if isinstance(begun, tuple):
            steps, media_type = begun
            self._answer = Answer(self, steps, request.method == "HEAD", media_type)
            self._pause_reading()
            self._answer.begin()
        else:
            self.stream = begun
            self.write(stream_head("text/event-stream; charset=utf-8"))
            self.deadline_ms = NEVER_MS
            begun.on_writable()

    def _refuse(self, problem: HttpProblem) -> None:
        """Answer with a problem and read no more: where the next request begins is not known for sure."""
        self.is_last = True
        answer = Answer(self, _no_steps(), False, JSON)
        self._answer = answer
        answer.refuse(problem)

    def on_answered(self) -> None:
        """The answer was handed over as a whole: go on with the next request, or close."""
        self._answer = None
        if self._transport is None:
            return
        is_over = (
            self.is_last or self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE
        )
        if is_over:
            self._end()
            return
        self._http.start_next_cycle()
        if self.is_blocked:  # Else a peer that asks and does not read would be held answers without end.
            self.deadline_ms = self.host.now_ms() + UNREAD_MS
        else:
            self._resume_requests()

    def _resume_requests(self) -> None:
        self.deadline_ms = self.host.now_ms() + (REQUEST_MS if self._received else IDLE_MS)
        if self._transport is not None:
            self._transport.resume_reading()
        self._go_on()

    def _pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    # Sending and closing.

    def send(self, event: h11.Event) -> None:
        """Send an event of HTTP, in the version that the peer speaks."""
        data = self._http.send(event)
        if data:
            self.write(data)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
            if not self.is_blocked and self._answer is not None:
                self.deadline_ms = self.host.now_ms() + UNREAD_MS

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _end(self) -> None:
        """Send what was written, then the end; drop what still comes, and close when the peer does, or soon."""
        if self._transport is None:
            return
        self._lingers = self._is_answered = True
        self.deadline_ms = self.host.now_ms() + (UNREAD_MS if self.unsent_bytes else LINGER_MS)
        self._received = HeadBuffer()
        if not self._transport.is_reading():
            self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:  # TLS has no half of a connection: it is closed once both have said so.
            self._transport.close()

    def refuse_surplus(self, problem: HttpProblem) -> None:
        """Answer with a problem before all was asked, and close: there are too many connections."""
        body = encoded(problem.document())
        self.send(response(problem.status, PROBLEM, len(body), {**problem.headers, "Connection": "close"}))
        self.send(h11.Data(data=body))
        self.close()

    def close(self) -> None:
        """Close once what was written is sent."""
        self._lingers, self._is_answered = True, False
        if self._transport is not None:
            self._transport.close()

    def give_way(self, problem: HttpProblem) -> None:
        """Close for another's sake, without waiting for a peer that does not read; tell one that is asking why."""
        if self.unsent_bytes:
            self.abort()
        elif self._received and self._request is None:
            self.refuse_surplus(problem)
        else:  # Of a head that was parsed, the method has a say in what an answer looks like.
            self.close()

    def abort(self) -> None:
        """Close now, and have the peer hear of it: a reset comes also to one that reads nothing.

        Without it the end would wait in the system behind what is unsent, and be dropped there after a minute.
        """
        if self._transport is not None:
            accepted = self._transport.get_extra_info("socket")
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            self._transport.abort()

    def on_time(self, now_ms: int) -> None:
        """Close if the deadline is over: for a request, between requests, or for a peer that does not read."""
        if now_ms < self.deadline_ms:
            return
        is_unread = self.is_blocked or self._lingers or self._answer is not None
        if is_unread and not self._is_working:
            self.abort()
        elif self._is_working:
            self.deadline_ms = now_ms + UNREAD_MS
        elif self.is_idle:
            self.close()
        else:
            self._refuse(HttpProblem(408, f"The request was not whole within {REQUEST_MS // 1000} s."))

    @property
    def _is_working(self) -> bool:
        """Whether the answer is being made, so that it is not the peer that is waited for."""
        return self._answer is not None and not self.is_blocked


class Answer(Work):
    """One answer under way: sends what its handler's steps yield and return."""

    def __init__(self, connection: Connection, steps: Steps, is_head: bool, media_type: str) -> None:
        super().__init__(connection.host.steps, steps)
        self._connection = connection
        self._is_head = is_head
        self._media_type = media_type
        self._parts: list[bytes] = []
        self._size = 0
        self._is_begun = False
        self._waits = False  # For a peer that does not read.

    def resume(self) -> None:
        """Go on: the peer has read what was sent."""
        if self._waits and self.is_under_way:
            self._waits = False
            self.begin()

    def on_part(self, part: bytes) -> bool:
        """Keep a part, or send it with those before it if they are many bytes; pause if the peer does not read."""
        self._add(part)
        self._waits = self._connection.is_blocked
        return not self._waits

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > WHOLE_BYTES:
            self._send_parts(None)

    def _send_parts(self, length: int | None) -> None:
        """Send what is kept, as one part; `length` is that of the answer, if it is known."""
        if not self._is_begun:
            self._is_begun = True
            self._connection.send(response(200, self._media_type, length, self._closing()))
        parts, self._parts, self._size = self._parts, [], 0
        self._send_data(b"".join(parts))

    def _send_data(self, data: bytes) -> None:
        if data and not self._is_head:
            self._connection.send(h11.Data(data=data))

    def on_done(self, value: Any) -> None:
        """Send the end; a value that the handler returned is the whole of its answer."""
        if value is not None:
            self._add(encoded(value))
        self._send_parts(self._size)
        self._connection.send(h11.EndOfMessage())
        self._connection.on_answered()

    def on_failed(self, error: Exception) -> None:
        """Send a problem; after a head that says 200, cut the answer off: the peer sees that it is not whole."""
        if not isinstance(error, HttpProblem):  # A bug of ours, or the disk's; the daemon goes on.
            log.error("an HTTP request failed", exc_info=error)
            error = HttpProblem(500, "This failed; the daemon's log says why.")
        if self._is_begun:
            self._connection.abort()
        else:
            self.refuse(error)

    def refuse(self, problem: HttpProblem) -> None:
        """Send a problem as the whole answer."""
        self.stop()
        body = encoded(problem.document())
        more = {**problem.headers, **self._closing()}
        self._connection.send(response(problem.status, PROBLEM, len(body), more))
        self._send_data(body)
        self._connection.send(h11.EndOfMessage())
        self._connection.on_answered()

    def _closing(self) -> dict[str, str]:
        return {"Connection": "close"} if self._connection.is_last else {}


def _no_steps() -> Steps:
    yield from ()


def _refused(problem: HttpProblem) -> Steps:
    """Refuse a request in a step of its own: a peer may send thousands at once."""
    yield None
    raise problem
