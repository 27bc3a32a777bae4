"""Accepts connections ahead of all other work, and stops short of the limit on descriptors.

The event loops' own servers do neither. uvloop takes one connection a turn, so while thousands connect and ask at
once the system's queue overflows, and a client that finds it full tries again a second later. At the limit on
descriptors uvloop accepts each connection and closes it silently, and no descriptor is left for the log. Knows
neither requests nor clients.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from coordinator.server.creation_rate import CreationRate
from coordinator.server.descriptors import Descriptors
from coordinator.server.held_connections import HeldConnections
from coordinator.topics.config_values import INT32_MAX

log = structlog.get_logger("muster.server")

OnAccepted = Callable[[socket.socket], None]

MAX_ACCEPTED: Final = 512
"""Connections accepted at a time from one socket, some 10 us each. Linux queues 4096 by default."""

ACCEPT_EVERY_MS: Final = 10
"""How often waiting connections are accepted during one long turn of the event loop, lest the queue overflow."""

TRY_AGAIN_S: Final = 1.0
"""Length of a pause in accepting: descriptors may become free although no connection closes."""

LOG_EVERY_S: Final = 10.0
"""Least time between two logged pauses: connections that come and go at the limit cause many."""

_GONE: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EINTR})
"""Errors that mean that a connection closed before it was accepted; further ones may wait behind it."""


Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]
"""An address family and an address, as `getaddrinfo` returns them."""


def bind(addresses: Iterable[Address]) -> list[socket.socket]:
    """Return a bound socket for each address, none of them listening yet. Raises OSError, with none left open.

    Where no port is given, the system chooses the first socket's port and the other sockets take the same. An
    address family that the system does not support is left out, unless there is no other.
    """
    bound: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, (host, port, *rest) in addresses:
            try:
                made = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:
                missing = error
                continue
            bound.append(made)
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind((host, port or bound[0].getsockname()[1], *rest))
        if missing is not None and not bound:
            raise missing
    except OSError:
        for each in bound:
            each.close()
        raise
    return bound


def longest_queue() -> int | None:
    """Return the longest queue of unaccepted connections that the system allows; None where it is not known."""
    try:
        return int(Path("/proc/sys/net/core/somaxconn").read_text())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Listening:
    """A listening socket, and the callback that is called with each connection accepted from it."""

    socket: socket.socket
    on_accepted: OnAccepted
    listener: str = ""


class Acceptor:
    """Accepts from all listening sockets of the daemon; they pause together, as they share the descriptors."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._loop = asyncio.get_running_loop()
        self._first_reserved = descriptors.for_connections
        self._listening: list[Listening] = []
        self._is_paused = False
        self._paused_at_s = -LOG_EVERY_S  # The last pause that was logged.
        self._is_logged = False  # Whether the current pause was logged.
        self._try_again: asyncio.Handle | None = None
        self._rate: CreationRate | None = None  # None: the rate is not limited.
        self._rates: dict[str, CreationRate] = {}  # Those of single listeners, beside it.
        self._held_back: dict[Listening, asyncio.TimerHandle] = {}  # By the rate of their listener.
        self.held = HeldConnections(self.on_connection_gone)

    def listen(
        self, sockets: Iterable[socket.socket], backlog: int, on_accepted: OnAccepted, listener: str = ""
    ) -> None:
        """Listen on `sockets`; `on_accepted` is called with each connection, made non-blocking. Raises OSError."""
        for each in sockets:
            each.listen(backlog)
            self._listening.append(Listening(each, on_accepted, listener))
            self._loop.add_reader(each, self._accept, self._listening[-1])

    def accept(self) -> None:
        """Accept the waiting connections. Handles no requests, so it may be called in the middle of a turn."""
        for each in self._listening:
            if not self._is_paused:
                self._accept(each)

    def limit_rate(self, per_second: int) -> None:
        """Accept at most `per_second` connections a second from now on; surplus ones wait to be accepted."""
        if per_second >= INT32_MAX:  # Kafka's default, which is no limit.
            self._rate = None
        elif self._rate is None or self._rate.per_second != per_second:
            self._rate = CreationRate(per_second, time.monotonic())
        if self._is_paused:
            self._resume_after(0)

    def limit_rate_of(self, listener: str, per_second: int) -> None:
        """Accept at most `per_second` a second on one listener, beside the rate of all."""
        before = self._rates.get(listener)
        if per_second >= INT32_MAX:
            self._rates.pop(listener, None)
        elif before is None or before.per_second != per_second:
            self._rates[listener] = CreationRate(per_second, time.monotonic())
        for each in [each for each in self._held_back if each.listener == listener]:
            self._hold_back(each, 0)

    def close(self) -> None:
        """Close the listening sockets; the system refuses connections that wait to be accepted."""
        self._pause_reading()
        for timer in self._held_back.values():
            timer.cancel()
        self._held_back.clear()
        for each in self._listening:
            each.socket.close()
        self._listening.clear()
        if self._try_again is not None:
            self._try_again.cancel()
        self.held.close()

    def on_connection_gone(self) -> None:
        """End a pause, since a connection has closed and its descriptor is about to be free."""
        if self._is_paused:
            self._resume_after(0)

    def _accept(self, listening: Listening) -> None:
        rate, own = self._rate, self._rates.get(listening.listener)
        rates = [each for each in (rate, own) if each is not None]
        for _ in range(min([MAX_ACCEPTED, *(each.allowed(time.monotonic()) for each in rates)])):
            try:
                if not self._has_descriptor(listening):
                    self._pause("the other descriptors are kept for the log")
                    return
                connection, _ = listening.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _GONE:
                    continue
                self._pause(str(error))
                return
            if self.held.hold(connection):
                continue
            for each in rates:
                each.take()
            connection.setblocking(False)
            listening.on_accepted(connection)
        if rate is not None and rate.wait_s(time.monotonic()):
            self._pause_for(0)
        elif own is not None and (wait_s := own.wait_s(time.monotonic())):
            self._hold_back(listening, wait_s)

    def _hold_back(self, listening: Listening, wait_s: float) -> None:
        """Leave the connections of one socket in the system's queue for `wait_s`."""
        self._loop.remove_reader(listening.socket)
        if (earlier := self._held_back.get(listening)) is not None:
            earlier.cancel()
        self._held_back[listening] = self._loop.call_later(wait_s, self._go_on, listening)

    def _go_on(self, listening: Listening) -> None:
        del self._held_back[listening]
        if not self._is_paused:  # The end of a pause is that of this wait, too.
            self._loop.add_reader(listening.socket, self._accept, listening)
            self._accept(listening)

    def _has_descriptor(self, listening: Listening) -> bool:
        """Whether the next free descriptor is not one of the reserve. Raises OSError if none is free.

        The system is asked before each connection, for some 1 us: to accept one and look at its number afterwards
        would take a descriptor of the reserve at every attempt.
        """
        number = os.dup(listening.socket.fileno())
        os.close(number)
        return number < self._first_reserved

    # At the limit on descriptors.

    def _pause_for(self, delay_s: float) -> None:
        """Leave connections in the system's queue for `delay_s`, or longer, until the rate allows one."""
        self._is_paused = True
        self._pause_reading()
        self._resume_after(delay_s)

    def _pause(self, reason: str) -> None:
        """Stop accepting until a descriptor may be free; log at most one pause in LOG_EVERY_S."""
        self._pause_for(TRY_AGAIN_S)
        now_s = time.monotonic()
        if now_s - self._paused_at_s >= LOG_EVERY_S:
            self._paused_at_s, self._is_logged = now_s, True
            log.warning("accepting paused", reason=reason, connections_at_most=self._first_reserved)

    def _pause_reading(self) -> None:
        for each in self._listening:
            self._loop.remove_reader(each.socket)

    def _resume_after(self, delay_s: float) -> None:
        """Resume in a later turn: a connection's descriptor is closed only after the call that reports it gone."""
        if self._try_again is not None:
            self._try_again.cancel()
        if self._rate is not None:
            delay_s = max(delay_s, self._rate.wait_s(time.monotonic()))
        self._try_again = self._loop.call_later(delay_s, self._resume)

    def _resume(self) -> None:
        self._is_paused = False
        for each in self._listening:
            self._loop.add_reader(each.socket, self._accept, each)
        self.accept()
        if self._is_logged and not self._is_paused:
            self._is_logged = False
            log.info("accepting again", paused_s=round(time.monotonic() - self._paused_at_s, 3))
