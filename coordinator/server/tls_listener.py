"""TLS on the server's listeners: who clients are by their certificates, and certificates that are renewed.

A `TlsListener` is the host of the `TlsTransport`s of its connections. Strangers are the server's: they have their
deadline and their bounds from accept, TLS or not.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeAlias, cast

import structlog

from coordinator.runtime.turn_share import TurnShare
from coordinator.security.session import ANONYMOUS, USER, Session
from coordinator.security.tls.names import names_of
from coordinator.security.tls.options import TlsOptions, tls_options
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.reloading import ReloadableContext
from coordinator.server.entrances import EntranceError, Wrap
from coordinator.server.login import LoginHost
from coordinator.server.outgoing import Readers
from coordinator.server.strangers import Stranger
from coordinator.server.tls_transport import TlsBuffers, TlsTransport
from coordinator.settings.listeners import ListenerConfig
from coordinator.settings.prefixed import ListenerSettings
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.listener_kinds import STORES, parts_of, prefixed
from coordinator.topics.settings import DynamicSettings, TopicSettings

CLIENT_AUTH: Final = "ssl.client.auth"
NO_RULE: Final = "no rule of ssl.principal.mapping.rules fits its certificate"

Texts: TypeAlias = Mapping[str, str]
"""Settings that were changed at run time, by their whole names."""

OptionsWith: TypeAlias = Callable[[Texts], TlsOptions]
"""Returns the options of one listener with what is set at run time over them. Raises TlsProblem."""

log = structlog.get_logger("muster.server")


class Identified(Protocol):
    """The protocol behind TLS, where a client's certificate says who it is."""

    session: Session


class TlsServer(LoginHost, Protocol):
    """The server, as its listeners with TLS see it."""

    @property
    def turn(self) -> TurnShare: ...
    @property
    def readers(self) -> Readers: ...


class UnnamedConnection(asyncio.Protocol):
    """The server's end of a socket whose client shows a certificate that no rule names.

    It stays a stranger, and is closed at its first request, as by Kafka (T32).
    """

    def __init__(self, server: TlsServer, stranger: Stranger, listener: str) -> None:
        self._server, self._stranger, self._listener = server, stranger, listener
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, _data: bytes) -> None:
        assert self._transport is not None
        self._transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._server.strangers.count_failure(self._stranger, self._listener, NO_RULE)
        self._server.on_stranger_gone(self._stranger)


class TlsListener:
    """The TLS of one listener; the `TlsHost` of its connections."""

    def __init__(
        self,
        name: str,
        contexts: ReloadableContext,
        server: TlsServer,
        buffers: TlsBuffers,
        identifies: bool,
        options: OptionsWith | None = None,
    ) -> None:
        """`identifies`: whether the certificate says who the client is; with SASL it does not (T4).

        Without `options` what is set at run time is not for this listener.
        """
        self.name = name
        self._options = options or (lambda _texts: contexts.options)
        self.turn = server.turn
        self.tls_buffers = buffers
        self._contexts = contexts
        self._server = server
        self._identifies = identifies

    def wrap(self, inner: asyncio.BaseProtocol, stranger: Stranger) -> TlsTransport:
        """Return what the socket of a new connection is to speak to, for the protocol `inner`.

        That has to be an `Identified` where certificates say who clients are.
        """
        return TlsTransport(self._contexts.current.context, inner, self, stranger)

    # What the connections report.

    def on_stranger(self, transport: TlsTransport) -> None:
        stranger, peer = transport.stranger, transport.get_extra_info("peername")
        if peer is None:  # The client hung up before its connection was accepted.
            transport.abort()
            return
        stranger.peer = transport.peer
        stranger.end = transport.end
        if not self._server.on_stranger(stranger, peer[0]):
            transport.abort()

    def on_hello(self, transport: TlsTransport, held_bytes: int) -> None:
        self._server.strangers.hold(transport.stranger, held_bytes)

    def on_handshake(self, transport: TlsTransport) -> None:
        if not self._identifies:
            return  # It stays a stranger until it has logged in.
        principal = self._principal_of(transport.peer_certificate)
        if principal is None:
            transport.set_protocol(UnnamedConnection(self._server, transport.stranger, self.name))
            return
        cast(Identified, transport.get_protocol()).session = Session(principal)
        self._server.on_stranger_known(transport.stranger)

    def on_stranger_gone(self, transport: TlsTransport, reason: str) -> None:
        if reason:
            reason = f"SSL handshake failed: {reason}"
            self._server.strangers.count_failure(transport.stranger, self.name, reason)
        self._server.on_stranger_gone(transport.stranger)

    def _principal_of(self, certificate: bytes | None) -> str | None:
        """Return who shows `certificate` (T30 to T32); None if no rule fits it."""
        if certificate is None:
            return ANONYMOUS
        name = self._contexts.options.rules.name_of(names_of(certificate).subject)
        return None if name is None else USER + name

    # Renewed certificates.

    def check(self, texts: Texts) -> None:
        """Raise InvalidConfig if the stores cannot be as the settings `texts` say (T36); on a thread."""
        try:
            self._contexts.check(self._options(texts))
        except TlsProblem as problem:
            raise InvalidConfig(f"the listener {self.name} cannot have these settings: {problem}") from None

    def reload(self, texts: Texts) -> None:
        """Read the stores again if files or settings have changed (T37); on a thread. Says what has come of it."""
        try:
            if self._contexts.reload(self._options(texts)):
                log.info("certificates read again", listener=self.name)
        except TlsProblem as problem:
            log.warning("certificates stay as they were", listener=self.name, reason=str(problem))


class Renewable(Protocol):
    """What has stores whose files may change."""

    def reload(self, texts: Texts) -> None:
        """Read them again if they have, by the settings `texts` of this node; on a thread. Raises nothing."""


class TlsListeners:
    """All listeners with TLS; their files are looked at on SIGHUP, and every so often if asked for (T37)."""

    def __init__(self, server: TlsServer, reload_interval_ms: int) -> None:
        """`reload_interval_ms`: 0 for never."""
        self._server = server
        self._interval_ms = reload_interval_ms
        self._buffers = TlsBuffers()
        self._listeners: list[TlsListener] = []
        self._renewables: list[Renewable] = []  # The listeners, and others.
        self._texts: Texts = {}  # What is set at run time for this node.
        self._timer: asyncio.TimerHandle | None = None
        self._has_begun = False
        self._signal_before: Any = None  # What SIGHUP did before it meant this; None: it does not.
        self._is_running = False
        self._is_wanted = False

    def open(self, listener: ListenerConfig, own: ListenerSettings) -> Wrap:
        """Read the listener's stores; return what puts TLS before a protocol. Raises EntranceError."""
        auth = _client_auth(listener, own)

        def options(texts: Texts) -> TlsOptions:
            return tls_options(lambda option: _set_text(own, texts, option), auth)

        try:
            contexts = ReloadableContext(options(self._texts))
        except TlsProblem as problem:
            raise EntranceError(f"the listener {listener.name} has no TLS: {problem}") from None
        identifies = not listener.protocol.has_sasl
        opened = TlsListener(listener.name, contexts, self._server, self._buffers, identifies, options)
        self._listeners.append(opened)
        self._renewables.append(opened)
        return opened.wrap

    def add(self, others: Renewable) -> None:
        """Have the files of `others` looked at together with those of the listeners."""
        self._renewables.append(others)
        self.begin()

    def begin(self) -> None:
        """Look at the files when it is asked for. Without such listeners SIGHUP ends the daemon, as ever."""
        if self._has_begun or not self._renewables:
            return
        self._has_begun = True
        if threading.current_thread() is threading.main_thread():  # No other can be sent signals.
            loop = asyncio.get_running_loop()
            # Not by the loop: as it lets go of a signal, that would end the daemon for a moment.
            self._signal_before = signal.signal(
                signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(self.reload)
            )
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._signal_before is not None:
            signal.signal(signal.SIGHUP, self._signal_before)
            self._signal_before = None

    def _arm(self) -> None:
        if self._interval_ms > 0:
            self._timer = asyncio.get_running_loop().call_later(self._interval_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self.reload()
        self._arm()

    def follow(self, settings: TopicSettings) -> None:
        """Go by what is set for this node from the next `reload` on."""
        self._texts = settings.dynamic.of_node

    def check(self, before: DynamicSettings, after: DynamicSettings) -> None:
        """Raise InvalidConfig if stores that are newly set cannot be taken (T35, T36). Reads them: on a thread."""
        old, new = before.of_node, after.of_node
        changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        named = {each.name.lower(): each for each in self._listeners}
        concerned: dict[str, TlsListener] = {}
        for name in changed:
            parts = parts_of(name)
            if parts is None or parts[1] not in STORES:
                continue
            if parts[0] in named:
                concerned[parts[0]] = named[parts[0]]
            elif name in new:  # One that is gone since an earlier start may be taken back.
                raise InvalidConfig(f"{name}: there is no listener of that name with TLS.")
        for listener in concerned.values():
            listener.check(new)

    def reload(self) -> None:
        """Have the files looked at on a thread; if that is under way, once more behind it."""
        if self._is_running:
            self._is_wanted = True
            return
        self._is_running = True
        self._server.readers.submit(self._reload_all, self._on_done)

    def _reload_all(self) -> None:
        texts = self._texts
        for each in self._renewables:
            each.reload(texts)

    def _on_done(self, finished: Future[None]) -> None:
        self._is_running = False
        if self._is_wanted:
            self._is_wanted = False
            self.reload()
        finished.result()  # A bug of ours, if it raises.


def _set_text(own: ListenerSettings, texts: Texts, option: str) -> str | None:
    """Return what is set at run time with the listener's prefix, or else what it was given at the start."""
    text = texts.get(prefixed(own.listener, option)) if option in STORES else None
    return own.text(option) if text is None else text


def _client_auth(listener: ListenerConfig, own: ListenerSettings) -> str | None:
    """Return `ssl.client.auth`; for SASL_SSL only one with the listener's prefix counts (T4)."""
    if not listener.protocol.has_sasl or own.own(CLIENT_AUTH) is not None:
        return own.text(CLIENT_AUTH)
    if own.text(CLIENT_AUTH) not in (None, "none"):
        log.warning(
            "ssl.client.auth is not looked at for SASL_SSL without the listener's prefix",
            listener=listener.name,
        )
    return None
