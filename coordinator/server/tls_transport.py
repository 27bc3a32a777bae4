"""TLS between a socket's transport and one of our protocols: bytes in from the one, plaintext to the other.

To the socket's transport it is a protocol, to the protocol behind it a transport, with the same promises as the
plain one: limits of writing, pauses of reading and `set_protocol` hold exactly, since every call is passed on and
nothing is held between the two but what one read brought. The event loops' own TLS loses the alert of a failed
handshake, holds 256 KiB for each connection, and pauses after each write (T20 to T26). Knows neither certificates
nor requests.

The protocol behind hears of a connection when its handshake is done. Until then the client is a stranger, and the
host counts it, and ends it when its time is over.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, Protocol, cast

import structlog

from coordinator.runtime.turn_share import TurnShare
from coordinator.server.strangers import Stranger
from coordinator.server.tls_engine import PIECE_BYTES, WANT_READ, LargePieces, TlsEngine
from coordinator.server.tls_hello import HandshakeRefused, PlainHandshake
from coordinator.server.tls_sending import OPEN, State, TlsSending

CHEAP_OF_A_REQUEST: Final = 1
"""Cheap answers (`TurnShare.cheap_left`) that TLS costs beside the one that a small request is answered with."""

HUNG_UP: Final = "the client hung up during the TLS handshake"

log = structlog.get_logger("muster.connection")


class TlsBuffers:
    """Memory that one read needs, for all connections of one event loop: their reads never overlap."""

    def __init__(self) -> None:
        self.received = memoryview(bytearray(PIECE_BYTES))
        self.plain = memoryview(bytearray(PIECE_BYTES))
        self.large = LargePieces()


class TlsHost(Protocol):
    """The server, as TLS sees it.

    Each `on_stranger` is followed by `on_stranger_gone`, or by an `on_handshake` that does not close the
    transport, after which the protocol behind hears of the connection, and of its end.
    """

    @property
    def turn(self) -> TurnShare: ...
    @property
    def tls_buffers(self) -> TlsBuffers: ...
    def on_stranger(self, transport: TlsTransport) -> None:
        """A client has connected; `transport` may be closed or aborted within the call."""

    def on_hello(self, transport: TlsTransport, held_bytes: int) -> None:
        """So much of the client's handshake is kept until a message is whole; `transport` may be aborted."""

    def on_handshake(self, transport: TlsTransport) -> None:
        """The handshake is done. The protocol behind is about to hear of it, unless this closes `transport`."""

    def on_stranger_gone(self, transport: TlsTransport, reason: str) -> None:
        """The connection has ended without a handshake; `reason` is blank if the host itself closed it."""


class TlsTransport(asyncio.BufferedProtocol, TlsSending):
    """One TLS connection on the server's side, for the protocol `inner`."""

    __slots__ = (
        "_buffers",
        "_context",
        "_data_received",
        "_host",
        "_inner",
        "_is_buffered",
        "_is_end_due",
        "_is_known",
        "_is_over",
        "_is_paused",
        "_is_put_off",
        "_is_scheduled",
        "_loop",
        "_plain",
        "_reason",
        "_turn",
        "_waiting",
        "stranger",
    )

    def __init__(
        self, context: ssl.SSLContext, inner: asyncio.BaseProtocol, host: TlsHost, stranger: Stranger
    ) -> None:
        super().__init__()
        self.stranger = stranger
        """What the host counts the client as, until the protocol behind hears of it."""
        self._context = context
        self._host = host
        self._buffers = host.tls_buffers
        self._turn = host.turn
        self._waiting = b""  # What has come of the handshake while its next step is put off.
        self._plain: PlainHandshake | None = PlainHandshake()  # Until the handshake is done.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reason = ""  # Why there was no handshake, or why what followed could not be read.
        self._is_known = False  # Whether `inner` has heard of the connection.
        self._is_paused = False  # By `inner`.
        self._is_put_off = False  # Whether the next step of the handshake waits for a later turn.
        self._is_scheduled = False  # Whether `_read_on` is to be called.
        self._is_over = False  # Whether the peer has said that it sends no more.
        self._is_end_due = False  # Whether `inner` has still to hear of it: it has paused before the end.
        self.set_protocol(inner)

    # What the socket's transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._lower = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._host.on_stranger(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffers.received

    def buffer_updated(self, nbytes: int) -> None:
        engine = self._engine
        if (
            self._state is not OPEN
            or engine is None
            or self._is_paused
            or self._is_over
            or self._is_buffered
            or engine.rest
            or nbytes > engine.piece_bytes
        ):
            self._take(nbytes)
            return
        # A request that came whole and alone, as most do: what `_take` does is done here in a third of the calls.
        # There is room for more than a record, so nothing of it is left in OpenSSL.
        buffers = self._buffers
        engine.incoming.write(buffers.received[:nbytes])
        try:
            count = engine.decrypt_into(PIECE_BYTES, buffers.plain)
        except ssl.SSLError as error:
            self._end_of_read(engine, error)
            return
        if not count:
            self._end_of_read(engine, ssl.SSLZeroReturnError())
            return
        self._turn.cheap_left -= CHEAP_OF_A_REQUEST
        self._data_received(bytes(buffers.plain[:count]))
        if engine.incoming.pending or engine.outgoing.pending:
            self._read()

    def _take(self, nbytes: int) -> None:
        """Take whatever has come, in any state."""
        data = self._buffers.received[:nbytes]
        if self._state is State.HANDSHAKE:
            self._shake_hands(data)
        elif self._state is OPEN and not self._is_over:  # OpenSSL would keep all that comes behind the end.
            engine = self._engine
            assert engine is not None
            engine.receive(data)
            self._read()
            engine.keep()

    def eof_received(self) -> bool:
        """True: this closes the transport, behind `inner` or at once."""
        if self._state is State.HANDSHAKE:
            self._give_up(HUNG_UP)
        elif not self._is_over:
            self._is_over = True
            self._end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = State.LOST
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        if self._is_known:
            self._inner.connection_lost(ConnectionError(self._reason) if self._reason else exc)
        else:
            self._host.on_stranger_gone(self, self._reason or (HUNG_UP if exc else ""))
        self._lower = None

    def pause_writing(self) -> None:
        if self._is_known:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._is_known:
            self._inner.resume_writing()
        if self._is_choked:
            self._is_choked = False
            self._maybe_resume()

    # The handshake.

    def _shake_hands(self, data: memoryview) -> None:
        """Take a step of the handshake, in a later turn if this one is over: it takes half a ms of CPU."""
        if self._is_put_off:
            self._waiting += data
        elif self._turn.is_over():
            assert self._lower is not None
            self._is_put_off, self._waiting = True, bytes(data)
            self._lower.pause_reading()
            self._turn.later(self._go_on)
        else:
            self._step(data)

    def _go_on(self) -> None:
        self._is_put_off = False
        data, self._waiting = memoryview(self._waiting), b""
        if self._state is State.HANDSHAKE:
            self._step(data)
            self._maybe_resume()

    def _step(self, data: memoryview) -> None:
        """Hand OpenSSL what is whole. A client that says nothing, or little, costs none of its memory."""
        plain = self._plain
        assert plain is not None
        try:
            while self._state is State.HANDSHAKE and (whole := plain.receive(data)):
                self._advance(plain, memoryview(whole))
                data = data[:0]
        except HandshakeRefused as refused:
            assert self._lower is not None
            self._lower.write(refused.record)
            self._give_up(str(refused))
        if self._state is State.HANDSHAKE:
            self._host.on_hello(self, plain.held_bytes)

    def _advance(self, plain: PlainHandshake, data: memoryview) -> None:
        engine = self._engine
        if engine is None:
            engine = self._engine = TlsEngine(self._context, self._buffers.large)
        engine.receive(data)
        try:
            is_done = engine.shake_hands()
        except ssl.SSLError as error:
            self._give_up(_reason_of(error))
            return
        if answer := engine.outgoing.read():
            assert self._lower is not None
            plain.on_answer(answer)
            self._lower.write(answer)
        if is_done:
            self._plain = None
            self._host.on_hello(self, 0)
            self._begin()
        engine.keep()

    def _begin(self) -> None:
        """Present the connection to the protocol behind, and hand it what came with the end of the handshake."""
        self._state = State.OPEN
        self._host.on_handshake(self)
        if self._state is State.OPEN:
            self._is_known = True
            self._inner.connection_made(self)
            self._read()

    def end(self, reason: str) -> None:
        """Close at once, since the host can wait no longer for the handshake."""
        self._reason = reason
        self.abort()

    def _give_up(self, reason: str) -> None:
        """Close, behind the alert that OpenSSL has for the peer (T18)."""
        if self._state in (State.HANDSHAKE, State.OPEN):
            assert self._lower is not None
            self._reason = reason
            self._state = State.CLOSING
            self._drain()
            self._lower.close()

    # From the peer to the protocol behind.

    def _read(self) -> None:
        """Hand over all that can be decrypted, until the protocol pauses or closes."""
        engine = self._engine
        assert engine is not None
        came_behind = None
        while came_behind is None and self._state is OPEN and not self._is_paused and engine.has_input:
            came_behind = self._read_buffered(engine) if self._is_buffered else self._read_plain(engine)
        self._end_of_read(engine, came_behind)

    def _end_of_read(self, engine: TlsEngine, came_behind: ssl.SSLError | None) -> None:
        """Go by what came behind the data, if it was special, and send what OpenSSL has to say."""
        if isinstance(came_behind, ssl.SSLZeroReturnError):
            self._is_over = self._is_end_due = True
        elif came_behind is not None and not isinstance(came_behind, WANT_READ):
            self._refuse(came_behind)
        if self._is_end_due and not self._is_paused:
            self._end()
        if engine.outgoing.pending and self._lower is not None:
            self._drain_answers()

    def _read_buffered(self, engine: TlsEngine) -> ssl.SSLError | None:
        """Decrypt one record into the protocol's own memory; return what came in its place, as `_read_plain`."""
        inner = cast(asyncio.BufferedProtocol, self._inner)
        try:
            count = engine.read_into(memoryview(inner.get_buffer(-1)))
        except ssl.SSLError as error:
            return error
        if not count:
            return ssl.SSLZeroReturnError()
        inner.buffer_updated(count)
        return None

    def _read_plain(self, engine: TlsEngine) -> ssl.SSLError | None:
        """Decrypt what there is and hand it over in one call; return what came behind it, as `read_all_into`."""
        filled, came_behind = engine.read_all_into(self._buffers.plain)
        if filled:
            self._data_received(bytes(self._buffers.plain[:filled]))
        return came_behind

    def _refuse(self, error: ssl.SSLError) -> None:
        if self._state is State.OPEN:
            reason = _reason_of(error)
            log.warning("connection refused", peer=self.peer, reason=reason)
            self._give_up(reason)

    def _end(self) -> None:
        """Report that the peer sends no more, by a close_notify or by closing its socket (T19)."""
        self._is_end_due = False
        if self._state is State.OPEN and not cast(asyncio.Protocol, self._inner).eof_received():
            self.close()

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._lower is not None:
            self._lower.pause_reading()

    def resume_reading(self) -> None:
        """Go on reading, in a later turn if something is here already: no data comes within this call."""
        self._is_paused = False
        if self._state is not State.OPEN or self._is_scheduled:
            return
        assert self._engine is not None
        if self._engine.has_input or self._is_end_due:
            assert self._loop is not None
            self._is_scheduled = True
            self._loop.call_soon(self._read_on)
        else:
            self._maybe_resume()

    def _read_on(self) -> None:
        self._is_scheduled = False
        if self._state is State.OPEN and not self._is_paused:
            self._read()
            self._maybe_resume()

    def _maybe_resume(self) -> None:
        is_open = self._state in (State.HANDSHAKE, State.OPEN)
        if is_open and not (self._is_paused or self._is_choked or self._is_put_off or self._is_scheduled):
            assert self._lower is not None
            self._lower.resume_reading()

    def is_reading(self) -> bool:
        return self._state is State.OPEN and not self._is_paused

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)
        if not self._is_buffered:
            self._data_received = cast(asyncio.Protocol, protocol).data_received

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._inner


def _reason_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's own words without the line of its source: "NO_SHARED_CIPHER"."""
    return error.reason or error.__class__.__name__
