"""The listeners of HTTP, in the daemon's own loop: sockets, the number of connections, deadlines.

A default listener whose port is taken is left out, with a warning; one that was set by hand keeps the daemon from
starting. Knows no routes: requests are handed to `Site`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Protocol

import structlog

from coordinator.http.connection import Connection, Stream
from coordinator.http.event_streams import CLIENTS_MAX as STREAMS_MAX
from coordinator.http.exchange import HttpProblem, Request, Steps
from coordinator.http.work import StepQueue
from coordinator.server.acceptor import Acceptor, bind
from coordinator.server.descriptors import Descriptors
from coordinator.settings.http_listeners import HttpListener

log = structlog.get_logger("muster.http")

API_MAX: Final = 32
"""Connections of all listeners that ask for more than a stream or a probe. One more takes another's place."""

PROBES: Final = frozenset({b"/livez", b"/readyz"})
"""Paths that are answered beside those: who asks them restarts a daemon that does not answer."""

PROBES_MAX: Final = 8
"""Connections that ask for these alone, at least."""

CONNECTIONS_MAX: Final = API_MAX + STREAMS_MAX + PROBES_MAX
"""All connections: what a new one will ask for is not known yet."""

UNREAD_WANTED_MS: Final = 2_000
"""Time after which a peer that does not read makes room for another."""

REFUSED_MAX: Final = 16
"""Surplus connections that are answered, and not yet closed; those beyond are closed without a word."""

HANDSHAKE_S: Final = 10.0
"""Longest handshake of TLS, of which there are never more at a time than connections."""

BACKLOG: Final = 128
CHECK_EVERY_MS: Final = 250
"""How often the deadlines of connections are looked at, while there are any."""


class HttpBindError(Exception):
    """Raised when a listener cannot be opened; the text is one sentence for the person who started the daemon."""


class Stores(Protocol):
    """The key and the certificates of https listeners."""

    @property
    def context(self) -> ssl.SSLContext:
        """What a connection is given that comes now."""


class Site(Protocol):
    """What is served."""

    def handle(self, request: Request, connection: Connection) -> tuple[Steps, str] | Stream:
        """Begin to answer: steps and the media type of what they make, or a stream. Raises HttpProblem."""

    def on_time(self, now_ms: int) -> None:
        """Called now and then while there are connections."""


class HttpServer:
    """The listeners and their connections. Event-loop thread only."""

    def __init__(
        self,
        site: Site,
        steps: StepQueue,
        now_ms: Callable[[], int],
        set_timer: Callable[[Any, Any, int | None], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._site = site
        self.steps = steps
        self.now_ms = now_ms
        self._set_timer = set_timer
        self._acceptor = Acceptor(Descriptors.of_process())
        self._connections: dict[Connection, None] = {}  # In the order in which they came.
        self._opening: set[asyncio.Task[None]] = set()
        self._is_ticking = False
        self.addresses: list[str] = []
        """Where it is bound, as `http://host:port` or `https://host:port`."""

    async def listen(self, listeners: Iterable[HttpListener], stores: Stores | None = None) -> None:
        """Open every listener, those of https with `stores`. Raises HttpBindError, with none left open."""
        for listener in listeners:
            try:
                await self._listen(listener, stores if listener.is_tls else None)
            except OSError as error:
                self._acceptor.close()
                reason = error.strerror or str(error)
                where = _url(listener, listener.port)
                raise HttpBindError(f"HTTP cannot be served on {where}: {reason}") from error

    async def _listen(self, listener: HttpListener, stores: Stores | None) -> None:
        found = await self._loop.getaddrinfo(
            listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        sockets = bind(dict.fromkeys((family, address) for family, _, _, _, address in found))
        self._acceptor.listen(sockets, BACKLOG, lambda accepted: self._on_accepted(accepted, stores))
        self.addresses.append(_url(listener, sockets[0].getsockname()[1]))

    def _on_accepted(self, accepted: socket.socket, stores: Stores | None) -> None:
        if stores is not None and len(self._opening) >= CONNECTIONS_MAX:
            accepted.close()  # In a handshake nothing can be answered.
            self._acceptor.on_connection_gone()
            return
        tls = None if stores is None else stores.context
        opening = self._loop.create_task(self._open(accepted, tls))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        bounds: dict[str, Any] = {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": HANDSHAKE_S}
        try:
            await self._loop.connect_accepted_socket(lambda: Connection(self), accepted, **bounds)
        except OSError as error:
            log.info("HTTP connection not opened", reason=str(error))
            accepted.close()
            self._acceptor.on_connection_gone()

    # What connections call.

    def handle(self, request: Request, connection: Connection) -> tuple[Steps, str] | Stream:
        """Begin to answer. Raises HttpProblem."""
        begun = self._site.handle(request, connection)
        is_of_api = isinstance(begun, tuple) and request.target.partition(b"?")[0] not in PROBES
        if is_of_api and not connection.is_of_api:
            others = [each for each in self._connections if each.is_of_api]
            if len(others) >= API_MAX and not _make_room(others):
                connection.is_last = True
                raise HttpProblem(
                    503, f"There are {API_MAX} connections, all of them busy.", {"Retry-After": "1"}
                )
            connection.is_of_api = True
        return begun

    def on_connected(self, connection: Connection) -> None:
        """Count a connection; one too many takes the place of one that is not being answered, or is refused."""
        others = tuple(self._connections)
        self._connections[connection] = None
        self._tick_soon()
        if len(others) < CONNECTIONS_MAX or _make_room(others):
            return
        if len(others) < CONNECTIONS_MAX + REFUSED_MAX:
            connection.refuse_surplus(_too_many(CONNECTIONS_MAX))
        else:
            connection.abort()

    def on_disconnected(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._acceptor.on_connection_gone()

    # Deadlines.

    def _tick_soon(self) -> None:
        if not self._is_ticking:
            self._is_ticking = True
            self._set_timer(self, None, self.now_ms() + CHECK_EVERY_MS)

    def timer_fired(self, _: None) -> None:
        """Look at all deadlines, and again soon while there are connections."""
        self._is_ticking = False
        now_ms = self.now_ms()
        for connection in list(self._connections):
            connection.on_time(now_ms)
        self._site.on_time(now_ms)
        if self._connections:
            self._tick_soon()

    # The end.

    def stop(self) -> None:
        """Accept no more, and close all connections: clients of a stream go on where they were, later."""
        self._acceptor.close()
        self.steps.stop()
        for connection in list(self._connections):
            connection.close()


def _too_many(most: int) -> HttpProblem:
    return HttpProblem(503, f"There are {most} connections, all of them busy.", {"Retry-After": "1"})


def _make_room(connections: Collection[Connection]) -> bool:
    """Close one connection that is not being answered; return whether there is one.

    That which has asked for nothing for the longest time, or only waits for its peer's end; else the oldest one
    whose request is not whole; else the peer that has not read for the longest time, if that is not short.
    """
    spare = (each for each in connections if each.is_idle or each.is_over or each.is_partial)
    first = min(spare, key=lambda each: (each.is_partial, each.deadline_ms), default=None)
    if first is not None:
        first.give_way(_too_many(len(connections)))
        return True
    unread = max(connections, key=lambda each: each.unread_ms)
    if unread.unread_ms < UNREAD_WANTED_MS:
        return False
    unread.abort()
    return True


def _url(listener: HttpListener, port: int) -> str:
    shown = listener.host or "0.0.0.0"
    scheme = "https" if listener.is_tls else "http"
    return f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"
