"""TLS on one listener: who its clients are by their certificates, strangers counted, certificates renewed.

It is the host of the `TlsTransport`s of its connections. What else a stranger means to the server, such as a place
under a maximum, is the server's (`Strangers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final, Protocol

import structlog

from coordinator.runtime.turn_share import TurnShare
from coordinator.security.session import ANONYMOUS, USER, Session
from coordinator.security.tls.names import names_of
from coordinator.security.tls.options import Lookup, tls_options
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.reloading import ReloadableContext
from coordinator.server.outgoing import Readers
from coordinator.server.tls_transport import TlsBuffers, TlsTransport

FAILURES_LOG_EVERY: Final = 1000
"""Of the handshakes that fail, one in so many is logged, beginning with the first (F14)."""

NO_RULE: Final = "no rule of ssl.principal.mapping.rules fits the certificate"

log = structlog.get_logger("muster.server")


class Identified(Protocol):
    """The protocol behind TLS, where a client's certificate says who it is."""

    session: Session


class Strangers(Protocol):
    """What the server does about clients without a handshake."""

    def on_stranger(self, transport: asyncio.Transport) -> None:
        """Count one more; may close or abort `transport`."""

    def on_stranger_known(self, transport: asyncio.Transport) -> None:
        """One is a stranger no longer: the protocol behind TLS is about to hear of its connection."""

    def on_stranger_gone(self, transport: asyncio.Transport) -> None:
        """The connection of one has ended."""


class TlsListener:
    """The TLS of one listener; the `TlsHost` of its connections."""

    def __init__(
        self,
        name: str,
        contexts: ReloadableContext,
        strangers: Strangers,
        turn: TurnShare,
        handshake_timeout_ms: int,
        identifies: bool,
    ) -> None:
        """`identifies`: whether the certificate is the client's principal; with SASL it is not (T4)."""
        self.name = name
        self.turn = turn
        self.tls_buffers = TlsBuffers()
        self.handshake_timeout_ms = handshake_timeout_ms
        self.failures = 0
        """Number of handshakes that failed."""
        self._contexts = contexts
        self._strangers = strangers
        self._identifies = identifies
        self._waiting: set[TlsTransport] = set()

    def wrap(self, inner: asyncio.BaseProtocol) -> TlsTransport:
        """Return what a new connection's socket is to speak to, for the protocol `inner`.

        It has to be an `Identified` if certificates say who clients are.
        """
        return TlsTransport(self._contexts.current.context, inner, self)

    def abort_strangers(self) -> None:
        """Close all connections without a handshake, as the daemon stops."""
        for each in tuple(self._waiting):
            each.abort()

    # What the connections report.

    def on_stranger(self, transport: TlsTransport) -> None:
        self._waiting.add(transport)
        self._strangers.on_stranger(transport)

    def on_handshake(self, transport: TlsTransport) -> None:
        if self._identifies and not self._identify(transport):
            transport.close()
            return
        self._waiting.discard(transport)
        self._strangers.on_stranger_known(transport)

    def on_stranger_gone(self, transport: TlsTransport, reason: str) -> None:
        self._waiting.discard(transport)
        if reason:
            self._count_failure(transport.peer, f"SSL handshake failed: {reason}")
        self._strangers.on_stranger_gone(transport)

    def _identify(self, transport: TlsTransport) -> bool:
        """Give the connection the session of its certificate; return False if no rule names its client."""
        principal = self._principal_of(transport.peer_certificate)
        if principal is None:
            self._count_failure(transport.peer, NO_RULE)
            return False
        inner: Identified = transport.get_protocol()  # type: ignore[assignment]  # See `wrap`.
        inner.session = Session(principal)
        return True

    def _principal_of(self, certificate: bytes | None) -> str | None:
        """Return who shows `certificate` (T30 to T32); None if no rule fits it."""
        if certificate is None:
            return ANONYMOUS
        name = self._contexts.options.rules.name_of(names_of(certificate).subject)
        return None if name is None else USER + name

    def _count_failure(self, peer: str, reason: str) -> None:
        self.failures += 1
        if self.failures % FAILURES_LOG_EVERY == 1:
            log.info(
                "failed authentication",
                listener=self.name,
                peer=peer,
                reason=reason,
                failures_so_far=self.failures,
            )

    # Renewed certificates.

    def reload(self) -> None:
        """Read the stores again if their files have changed (T37); on a thread. Says what has come of it."""
        try:
            if self._contexts.reload():
                log.info("certificates read again", listener=self.name)
        except TlsProblem as problem:
            log.warning("certificates stay as they were", listener=self.name, reason=str(problem))


def tls_contexts_of(lookup: Lookup, client_auth: str | None) -> ReloadableContext:
    """Read the settings of TLS of one listener, and the files that they name. Raises TlsProblem.

    `lookup` returns the listener's settings as text; `client_auth` is its `ssl.client.auth` (T4).
    """
    return ReloadableContext(tls_options(lookup, client_auth))


class TlsReloads:
    """Has all listeners look at their files: when asked to, as by SIGHUP, and every `interval_ms` above 0."""

    def __init__(self, listeners: Iterable[TlsListener], readers: Readers, interval_ms: int = 0) -> None:
        self._listeners = tuple(listeners)
        self._readers = readers
        self._interval_ms = interval_ms
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = False
        self._is_wanted = False

    def begin(self) -> None:
        """Begin to look every `interval_ms`."""
        if self._listeners and self._interval_ms > 0:
            self._timer = asyncio.get_running_loop().call_later(self._interval_ms / 1000, self._on_timer)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self.reload()
        self.begin()

    def reload(self, done: Callable[[], None] | None = None) -> None:
        """Have the files looked at on a thread, then call `done`. One pass at a time; another follows if asked."""
        if self._is_running:
            self._is_wanted = True
            return
        self._is_running = True
        self._readers.submit(self._reload_all, lambda finished: self._on_done(finished, done))

    def _reload_all(self) -> None:
        for each in self._listeners:
            each.reload()

    def _on_done(self, finished: Future[None], done: Callable[[], None] | None) -> None:
        self._is_running = False
        if self._is_wanted:
            self._is_wanted = False
            self.reload(done)
        elif done is not None:
            done()
        finished.result()  # A bug of ours, if it raises.
