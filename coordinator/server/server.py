"""The listeners: sockets bound under their names, connections counted, idle ones closed.

Several listeners may be open at once, each with an advertised endpoint of its own; a client is answered
with the endpoint of the listener it connected to. Knows no groups and no topics.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import structlog

from coordinator.purgatory.delayed import TimerOwner
from coordinator.quotas.connection_rates import ConnectionRates
from coordinator.runtime.clock import Clock
from coordinator.runtime.turn_share import TurnShare, unlimited
from coordinator.security.rights import Rights
from coordinator.server.acceptor import ACCEPT_EVERY_MS, Acceptor, bind, longest_queue
from coordinator.server.api_table import Api
from coordinator.server.connection import Connection, use_apis
from coordinator.server.descriptors import Descriptors
from coordinator.server.ending_connection import connection_for
from coordinator.server.entrances import (
    OWN_MECHANISMS,
    Entrance,
    close_entrances,
    open_entrances,
)
from coordinator.server.listener_limits import ListenerLimits
from coordinator.server.login import LoginConnection
from coordinator.server.memory_pool import MemoryPool
from coordinator.server.outgoing import Readers, SlowReaders
from coordinator.server.strangers import Stranger, Strangers
from coordinator.server.tls_listener import TlsListeners
from coordinator.settings.listeners import ListenerConfig
from coordinator.settings.model import Settings

log = structlog.get_logger("muster.server")

OPENED_PER_TURN = 80
"""Accepted connections that are opened in one turn of the event loop: each takes some 60 us."""

CLOSED_PER_TURN = 200
"""Connections that are closed in one turn when the daemon stops."""

REFUSED_LOG_EVERY = 1000
"""Of the connections refused over the maximum, one in so many is logged, beginning with the first."""


Door: TypeAlias = Callable[[], asyncio.BaseProtocol]
"""Makes what handles the bytes of a new connection."""

Accepted: TypeAlias = tuple[ListenerConfig, socket.socket, Stranger | None]
"""A connection just accepted, and the stranger that it is on a listener where clients have to log in."""


class BindError(Exception):
    """Raised when a listener cannot be opened; the text is one sentence for the person who started the daemon."""


class Server:
    """The daemon's listeners and connections, and the limits on these.

    `set_timer(self, connection, deadline_ms)` arms the runtime's keyed timer, which calls `timer_fired`.
    """

    def __init__(
        self,
        apis: Mapping[int, Api],
        settings: Settings,
        clock: Clock,
        set_timer: Callable[[TimerOwner[Any], Any, int | None], None],
        readers: Readers,
        turn: TurnShare | None = None,
    ) -> None:
        self.apis, self.clock, self.readers = apis, clock, readers
        self.call_soon = asyncio.get_running_loop().call_soon
        self.turn = turn or unlimited(self.call_soon)
        self.rights: Rights | None = None
        self.slow_readers = SlowReaders()
        self.memory_pool = MemoryPool(settings.queued_max_request_bytes, clock, set_timer)
        self.max_request_bytes = settings.socket_request_max_bytes
        self._settings, self._set_timer = settings, set_timer
        self.max_connections = settings.max_connections
        self.max_connections_per_ip = settings.max_connections_per_ip
        self.max_connections_of_ip: Mapping[str, int] = {}
        """Maxima of single addresses, above `max_connections_per_ip`. All three may change at run time."""
        self._acceptor = Acceptor(Descriptors.of_process())
        self.accept_at_ms = 0  # When waiting connections are to be accepted, also in a long turn; monotonic.
        self._accepted: deque[Accepted] = deque()  # And still to be opened.
        self._opening: set[asyncio.Task[None]] = set()  # An event loop refers to its tasks only weakly.
        self._connections: dict[Connection, str] = {}  # The peer's address by connection.
        self._per_ip: Counter[str] = Counter()
        self._all_disconnected = asyncio.Event()
        self.on_closed: list[Callable[[Connection], None]] = []
        """Called with each connection that was counted, when it is gone."""
        self.accepted = self.refused = 0
        """Numbers of connections since the start, and of those the ones refused over a maximum."""
        self.strangers = Strangers(settings, clock, set_timer)
        self.listener_limits = ListenerLimits(settings, self._acceptor, self.strangers)
        self.tls = TlsListeners(self, settings.muster_tls_reload_interval_ms)
        self.mechanisms = dict(OWN_MECHANISMS)  # What logins there are; more may be added before `listen`.
        self._entrances: Mapping[str, Entrance] = {}  # By listener; those without one are plain.
        self._doors: dict[str, Door] = {}  # By listener, if its connections are not our own.
        self._endpoints: dict[str, tuple[str, int]] = {}
        self._bound: list[str] = []

    async def listen(self, listeners: Iterable[ListenerConfig]) -> None:
        """Open every listener. Raises EntranceError or BindError, with none left open, if one cannot be."""
        listeners = tuple(listeners)
        self._entrances = open_entrances(listeners, self._settings, self.apis, self.mechanisms, self.tls.open)
        for listener in listeners:
            try:
                self._bound.append(await self._listen(listener))
            except OSError as error:
                await self.stop_listening()
                raise _bind_error(listener, error) from error
        self.tls.begin()
        asked = self._settings.socket_listen_backlog_size
        log.info("connections that may wait to be accepted", count=min(asked, longest_queue() or asked))

    async def _listen(self, listener: ListenerConfig) -> str:
        """Open a listener; return the address that it is bound to. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        sockets = bind(dict.fromkeys((family, address) for family, _, _, _, address in found))
        for listening in sockets:
            self._set_buffer_sizes(listening)
        bound_port = sockets[0].getsockname()[1]
        advertised_port = listener.advertised_port or bound_port
        self._endpoints[listener.name] = (listener.advertised_host, advertised_port)
        backlog = self._settings.socket_listen_backlog_size
        self._acceptor.listen(
            sockets, backlog, lambda accepted: self._on_accepted(listener, accepted), listener.name
        )
        return f"{listener.host or '*'}:{bound_port}"

    def _set_buffer_sizes(self, listening: socket.socket) -> None:
        """Set the buffer sizes that accepted connections inherit; -1 leaves them to the operating system."""
        for option, size_bytes in (
            (socket.SO_SNDBUF, self._settings.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, self._settings.socket_receive_buffer_bytes),
        ):
            if size_bytes >= 0:
                listening.setsockopt(socket.SOL_SOCKET, option, size_bytes)

    def use_apis(self, apis: Mapping[int, Api]) -> None:
        """Serve by another API table from the next request of each connection on."""
        self.apis = apis
        for connection in self._connections:
            use_apis(connection, apis)

    def hold_surplus(self, rates: ConnectionRates) -> None:
        """Hold connections back that come faster than `rates` says their addresses may, and close them."""
        self._acceptor.held.rates = rates

    def accept(self, now_ms: int) -> None:
        """Accept the waiting connections, also during a long turn; called when `accept_at_ms` has come."""
        self.accept_at_ms = now_ms + ACCEPT_EVERY_MS
        self._acceptor.accept()

    def _maybe_accept(self, now_ms: int) -> None:
        if now_ms >= self.accept_at_ms:
            self.accept(now_ms)

    def _on_accepted(self, listener: ListenerConfig, accepted: socket.socket) -> None:
        stranger = None
        if listener.name in self._entrances:
            if not self.listener_limits.is_full(listener.name):
                stranger = self.strangers.admit(len(self._connections), self.max_connections, listener.name)
            if stranger is None:
                self.accepted += 1
                self.refused += 1
                accepted.close()
                self._acceptor.on_connection_gone()
                return
        if not self._accepted:
            self.call_soon(self._open_some)
        self._accepted.append((listener, accepted, stranger))

    def _open_some(self) -> None:
        """Begin to open the connections that were accepted first; others follow in the next turns."""
        for _ in range(min(len(self._accepted), OPENED_PER_TURN)):
            opening = asyncio.create_task(self._open(*self._accepted.popleft()))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)
        if self._accepted:
            self.call_soon(self._open_some)

    async def _open(
        self, listener: ListenerConfig, accepted: socket.socket, stranger: Stranger | None
    ) -> None:
        """Open an accepted connection, and accept more before requests are handled: members may join at once."""
        self._maybe_accept(self.clock.now_ms())
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: self._protocol(listener, stranger), accepted)
            self._maybe_accept(self.clock.now_ms())
        except OSError as error:
            log.warning("connection not opened", listener=listener.name, reason=str(error))
            accepted.close()
            if stranger is not None:
                self.strangers.leave(stranger)
            self._acceptor.on_connection_gone()

    def _protocol(self, listener: ListenerConfig, stranger: Stranger | None) -> asyncio.BaseProtocol:
        """Return what handles the bytes of a new connection."""
        if (door := self._doors.get(listener.name)) is not None:
            return door()
        if stranger is None:
            return Connection(self, listener.name)
        entrance = self._entrances[listener.name]
        inner: asyncio.Protocol
        if entrance.login is None:
            inner = Connection(self, listener.name)
        else:
            inner = LoginConnection(
                self, entrance.login, stranger, partial(connection_for, self, entrance.login)
            )
        return inner if entrance.tls is None else entrance.tls(inner, stranger)

    def on_stranger(self, stranger: Stranger, ip: str) -> bool:
        """Count a stranger by its address, once; False if there are too many connections from that."""
        if not stranger.ip:
            stranger.ip = ip
            self._per_ip[ip] += 1
            self._all_disconnected.clear()
        return not self._is_surplus(ip)

    def on_stranger_known(self, stranger: Stranger) -> None:
        """Count it no longer, since it is about to be counted as a connection."""
        self.strangers.leave(stranger)
        if stranger.ip:
            self._forget_ip(stranger.ip)

    def on_stranger_gone(self, stranger: Stranger) -> None:
        """Count it no longer: its socket was closed, and it has become no connection."""
        self.on_stranger_known(stranger)
        self.accepted += 1
        self._acceptor.on_connection_gone()
        self._maybe_all_gone()

    def endpoint_for(self, listener_name: str) -> tuple[str, int]:
        """Return the advertised (host, port) of the listener."""
        return self._endpoints[listener_name]

    def on_connected(self, connection: Connection, ip: str) -> None:
        """Count a new connection; one over a maximum is closed at once."""
        self._connections[connection] = ip
        self.accepted += 1
        self._all_disconnected.clear()
        self._per_ip[ip] += 1
        self.listener_limits.known[connection.listener_name] += 1
        over = len(self._connections) + len(self.strangers) > self.max_connections
        if over or self.listener_limits.is_over(connection.listener_name) or self._is_surplus(ip):
            self._refuse_surplus(connection)
            return
        connection.last_request_ms = now_ms = self.clock.now_ms()
        self._maybe_accept(now_ms)
        if self._settings.connections_max_idle_ms < 0:
            return
        deadline_ms = connection.last_request_ms + self._settings.connections_max_idle_ms
        self._set_timer(self, connection, deadline_ms)

    def _is_surplus(self, ip: str) -> bool:
        return self._per_ip[ip] > self.max_connections_of_ip.get(ip, self.max_connections_per_ip)

    def _forget_ip(self, ip: str) -> None:
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]

    def _maybe_all_gone(self) -> None:
        if not self._connections and not len(self.strangers):
            self._all_disconnected.set()

    def _refuse_surplus(self, connection: Connection) -> None:
        self.refused += 1
        if self.refused % REFUSED_LOG_EVERY == 1:
            log.warning(
                "too many connections",
                peer=connection.peer,
                listener=connection.listener_name,
                max_connections=self.max_connections,
                max_connections_per_ip=self.max_connections_per_ip,
                refused_so_far=self.refused,
            )
        connection.close()

    def on_disconnected(self, connection: Connection) -> None:
        self._acceptor.on_connection_gone()
        ip = self._connections.pop(connection, None)
        if ip is None:
            return  # The connection was lost before it was counted.
        self.listener_limits.known[connection.listener_name] -= 1
        self._maybe_all_gone()
        self._forget_ip(ip)
        self._set_timer(self, connection, None)
        for each in self.on_closed:
            each(connection)

    def timer_fired(self, connection: Connection) -> None:
        """Close a connection that was idle for too long; set the timer again if a request has moved its deadline.

        A connection is idle while no *whole* request comes, so a peer that drips bytes does not keep it open. One
        that is closing is aborted: a peer that does not read its answers would keep it open for ever.
        """
        if not connection.is_open:
            connection.abort()
            return
        deadline_ms = connection.last_request_ms + self._settings.connections_max_idle_ms
        if connection.awaits_answer:
            deadline_ms = self.clock.now_ms() + self._settings.connections_max_idle_ms
        if self.clock.now_ms() < deadline_ms:
            self._set_timer(self, connection, deadline_ms)
        else:
            connection.close_idle(self._settings.connections_max_idle_ms)

    async def stop_listening(self) -> None:
        """Accept no new connections; the open ones are still served."""
        self.tls.stop()
        close_entrances(self._entrances.values())
        self._acceptor.close()
        while self._accepted:
            self._accepted.popleft()[1].close()

    def stop_reading(self) -> None:
        """Start no more requests on any connection."""
        for connection in self._connections:
            connection.stop_reading()

    async def close_connections(self, within_s: float) -> None:
        """Close every connection once its answers are sent; return when all are closed, or after `within_s`."""
        for number, connection in enumerate(list(self._connections), start=1):
            connection.close()
            if number % CLOSED_PER_TURN == 0:
                await asyncio.sleep(0)
        for stranger in self.strangers:
            self.strangers.timer_fired(stranger)
        if self._connections or len(self.strangers):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_disconnected.wait(), within_s)

    @property
    def connection_count(self) -> int:
        """Number of connections that are open."""
        return len(self._connections)

    @property
    def has_connections(self) -> bool:
        return bool(self._connections)

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The open connections, for those who look at them."""
        return tuple(self._connections)

    @property
    def addresses(self) -> str:
        """The bound addresses as text, for the line that reports the daemon ready."""
        return ", ".join(self._bound)


async def listen_for(server: Server, listener: ListenerConfig, door: Door) -> tuple[str, int]:
    """Open a plain listener whose connections `door` makes; return what it advertises. Raises BindError.

    They are counted, limited and closed like all others, and so have what the server asks of a `Connection`.
    """
    server._doors[listener.name] = door
    try:
        await server._listen(listener)
    except OSError as error:
        raise _bind_error(listener, error) from error
    return server.endpoint_for(listener.name)


def _bind_error(listener: ListenerConfig, error: OSError) -> BindError:
    reason = error.strerror or str(error)
    return BindError(
        f"listener {listener.name} cannot be opened on {listener.host}:{listener.port}: {reason}"
    )
