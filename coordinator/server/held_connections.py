"""Connections over the rate of their address: held unread until that is below its limit, then closed (KIP-612).

To close them at once would have clients come again at once. Knows no rates, and nothing of what clients ask.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Final

from coordinator.quotas.connection_rates import ConnectionRates

MOST_HELD: Final = 1_000
"""Most connections that are held at a time, as each has a descriptor; further ones are closed at once."""


class HeldConnections:
    """The connections that wait for being closed."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        self.rates: ConnectionRates | None = None
        self._on_closed = on_closed
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}

    def hold(self, accepted: socket.socket) -> bool:
        """Count an accepted connection; return whether it came too fast, and is not to be opened."""
        if not self.rates:
            return False
        try:
            peer = accepted.getpeername()
        except OSError:  # It is gone already; that shows again where it is opened.
            return False
        hold_ms = self.rates.hold_ms(str(peer[0]), int(time.monotonic() * 1_000))
        if not hold_ms:
            return False
        if len(self._held) >= MOST_HELD:
            accepted.close()
            self._on_closed()
        else:
            loop = asyncio.get_running_loop()
            self._held[accepted] = loop.call_later(hold_ms / 1_000, self._close, accepted)
        return True

    def close(self) -> None:
        """Close all that are held, when the daemon stops."""
        for held, timer in self._held.items():
            timer.cancel()
            held.close()
        self._held.clear()

    def _close(self, held: socket.socket) -> None:
        del self._held[held]
        held.close()
        self._on_closed()
