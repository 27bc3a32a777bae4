"""A connection on which its client has to log in, until it has: then a `Connection` takes over.

It stands in for `Connection` as the transport's protocol, so that this one pays nothing for logins. Bytes are cut
into frames for the state machine of the login, which says what is answered; when it is done, the transport and the
bytes behind the login are handed over. A failure is answered late and then closed; what comes meanwhile is
not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final, Protocol, cast

import structlog

from coordinator.runtime.clock import Clock
from coordinator.runtime.turn_share import TurnShare
from coordinator.security.sasl.login import Failure, Login, LoginTerms, Step, Versions
from coordinator.security.session import Session
from coordinator.server.strangers import Stranger, Strangers

_SIZE: Final = Struct(">i")

log = structlog.get_logger("muster.connection")


class KnownConnection(Protocol):
    """What takes over: a `Connection`, whose client is known."""

    session: Session
    client_software: tuple[str, str]
    is_open: bool

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def data_received(self, data: bytes) -> None: ...


class LoginHost(Protocol):
    """The server, as a connection with a login sees it."""

    @property
    def clock(self) -> Clock: ...
    @property
    def turn(self) -> TurnShare: ...
    @property
    def strangers(self) -> Strangers: ...
    def on_stranger(self, stranger: Stranger, ip: str) -> bool:
        """Count a stranger by its address; False if there are too many connections from that."""

    def on_stranger_known(self, stranger: Stranger) -> None:
        """Count it no longer, since it is about to be counted as a connection."""

    def on_stranger_gone(self, stranger: Stranger) -> None:
        """Count it no longer, since its socket was closed."""


@dataclass(frozen=True, slots=True)
class LoginRules:
    """How logins go on one listener."""

    listener: str
    terms: LoginTerms
    versions: Versions
    max_bytes: int
    """Of one frame (`sasl.server.max.receive.size`)."""
    failure_delay_ms: int
    """How long the end of a failure is held back (`connection.failed.authentication.delay.ms`)."""


class LoginConnection(asyncio.Protocol):
    """The server's end of a socket whose client is a stranger."""

    def __init__(
        self,
        host: LoginHost,
        rules: LoginRules,
        stranger: Stranger,
        make: Callable[[Session], KnownConnection],
    ) -> None:
        """`make` makes the connection that takes over, for the session that the login has begun."""
        self._host = host
        self._rules = rules
        self._stranger = stranger
        self._make = make
        self._login = Login(rules.terms, rules.versions)
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._is_over = False
        self._is_put_off = False  # Whether the next step waits for a later turn.
        self._last_words = b""  # Held back until a failure is to be answered.

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer is None:  # The client hung up before its connection was accepted.
            self._abort()
            return
        self._stranger.peer = f"{peer[0]}:{peer[1]}"
        self._stranger.end = self._end
        if not self._host.on_stranger(self._stranger, peer[0]):
            self._abort()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._received += data
        self._hold()
        if self._is_put_off or self._is_over:
            return
        if self._host.turn.is_over():  # Thousands may log in at once.
            assert self._transport is not None
            self._is_put_off = True
            self._transport.pause_reading()
            self._host.turn.later(self._go_on)
        else:
            self._take_frames()

    def _go_on(self) -> None:
        self._is_put_off = False
        if self._transport is not None and not self._is_over:
            self._transport.resume_reading()
            self._take_frames()

    def _take_frames(self) -> None:
        while not self._is_over and (frame := self._next_frame()) is not None:
            self._step(partial(_receive, frame))
        self._hold()

    def _hold(self) -> None:
        """Say what is kept of this client's; of all that hold too much the one with the most is closed."""
        if not self._is_over and self._transport is not None:
            unsent_bytes = self._transport.get_write_buffer_size()
            held_bytes = len(self._received) + self._login.held_bytes + unsent_bytes
            self._host.strangers.hold(self._stranger, held_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over, self._transport = True, None
        self._forget()
        self._host.on_stranger_gone(self._stranger)

    def _forget(self) -> None:
        """Let go of all that came of the client: the connection may stay in memory for a while."""
        self._received.clear()
        self._login.give_up()
        self._host.strangers.hold(self._stranger, 0)

    # Frames, and what comes of them.

    def _next_frame(self) -> bytes | None:
        """Return the next whole frame without its length; None if there is none yet, or its length is wrong."""
        received = self._received
        if len(received) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(received)
        if not 0 <= size <= self._rules.max_bytes:
            self._step(partial(_refuse_size, size, self._rules.max_bytes))
            return None
        stop = _SIZE.size + size
        if len(received) < stop:
            return None
        frame = bytes(received[_SIZE.size : stop])
        del received[:stop]
        return frame

    def _step(self, take: Callable[[Login, int, int], Step]) -> None:
        """Have the login take what came, and do what it says; close the connection if that fails."""
        try:
            step = take(self._login, self._host.clock.elapsed_ms(), self._host.clock.wall_ms())
        except Exception:  # A bug of ours: the client sees its connection close, the log has the trace.
            log.exception("login not handled", peer=self._stranger.peer, listener=self._rules.listener)
            self._abort()
            return
        if step.failure is not None:
            self._fail(step.failure, step.answer)
            return
        assert self._transport is not None
        self._transport.write(step.answer)
        if step.session is not None:
            self._hand_over(step.session)

    def _hand_over(self, session: Session) -> None:
        transport, rest = self._transport, bytes(self._received)
        assert transport is not None
        self._is_over, self._transport = True, None
        self._received.clear()
        self._host.on_stranger_known(self._stranger)
        connection = self._make(session)
        connection.session = session
        if self._login.client_software is not None:
            connection.client_software = self._login.client_software
        transport.set_protocol(cast(asyncio.Protocol, connection))
        connection.connection_made(transport)
        if rest and connection.is_open:
            connection.data_received(rest)

    def _fail(self, failure: Failure, answer: bytes) -> None:
        strangers = self._host.strangers
        strangers.count_failure(self._stranger, self._rules.listener, failure.reason)
        self._is_over, self._last_words = True, answer
        self._received.clear()
        self._stranger.end = self._say_last_words
        strangers.hold(self._stranger, len(answer))
        assert self._transport is not None
        first_ms = self._rules.failure_delay_ms
        if delay_ms := strangers.failure_delay_ms(self._stranger.ip, failure, first_ms):
            self._transport.pause_reading()
            strangers.delay(self._stranger, delay_ms)
        else:
            self._say_last_words("")

    def _say_last_words(self, _reason: str) -> None:
        """Answer the failure, if it has an answer, and close."""
        if self._transport is None:
            return
        words, self._last_words = self._last_words, b""  # Where many hold too much, this is called once more.
        if words:
            self._transport.write(words)
        self._stranger.end = self._end  # Of a peer that does not read.
        self._host.strangers.delay(self._stranger, self._rules.failure_delay_ms)
        self._transport.close()

    def _end(self, reason: str) -> None:
        """Close now: the time is over, or others need what this one holds."""
        if not self._is_over:
            self._host.strangers.count_failure(self._stranger, self._rules.listener, reason)
        self._abort()

    def _abort(self) -> None:
        self._is_over = True
        self._forget()  # The connection is lost in a later turn, and hundreds may be aborted in this one.
        if self._transport is not None:
            self._transport.abort()


def _receive(frame: bytes, login: Login, now_ms: int, wall_ms: int) -> Step:
    return login.receive(frame, now_ms, wall_ms)


def _refuse_size(size_bytes: int, max_bytes: int, login: Login, _now_ms: int, _wall_ms: int) -> Step:
    return login.refuse_size(size_bytes, max_bytes)
