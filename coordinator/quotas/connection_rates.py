"""How fast connections of one address may come, where `connection_creation_rate` limits that (KIP-612).

A connection over the limit is held unread for as long as the rate is above it, at most a window, and then closed
(Q's table of limits): it does not count. Knows no sockets; the time is an argument, in monotonic ms.
"""

from __future__ import annotations

from coordinator.quotas.buckets import Buckets
from coordinator.quotas.entities import CONNECTION_CREATION_RATE, IP, Entity, parsed_address
from coordinator.quotas.rates import Rate, Windows


class ConnectionRates:
    """The limits of addresses, and the rates at which their connections came."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._limits: dict[str | None, float] = {}  # By address; None: of all others.
        self._rates: Buckets[str, Rate] = Buckets(lambda: Rate(windows))

    def __bool__(self) -> bool:
        """Whether any address is limited."""
        return bool(self._limits)

    def set(self, entity: Entity, limits: dict[str, float]) -> None:
        """Have `limits`, by key, be all quotas of an address, or of the default one."""
        name = dict(entity)[IP]
        address = None if name is None else parsed_address(name)
        if CONNECTION_CREATION_RATE in limits:
            self._limits[address] = limits[CONNECTION_CREATION_RATE]
        else:
            self._limits.pop(address, None)

    def hold_ms(self, peer: str, now_ms: int) -> int:
        """Count a connection of `peer`; return the ms to hold it before it is closed, 0 if it is let in."""
        address = parsed_address(peer)
        limit = None if address is None else self._limits.get(address, self._limits.get(None))
        if address is None or limit is None:
            return 0
        rate = self._rates.of(address, now_ms)
        rate.record(1, now_ms)
        wait_ms = min(rate.throttle_ms(limit, now_ms), self._windows.sample_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms
