"""The server, as its connections see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from coordinator.runtime.clock import Clock
from coordinator.runtime.turn_share import TurnShare
from coordinator.security.rights import Rights
from coordinator.server.api_table import Api
from coordinator.server.memory_pool import MemoryPool
from coordinator.server.outgoing import Readers, SlowReaders


class ConnectionHost(Protocol):
    """The server, as its connections see it: what they share, and the events that each reports to it."""

    @property
    def apis(self) -> Mapping[int, Api]: ...
    @property
    def max_request_bytes(self) -> int: ...
    @property
    def memory_pool(self) -> MemoryPool: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def readers(self) -> Readers: ...
    @property
    def slow_readers(self) -> SlowReaders: ...
    @property
    def turn(self) -> TurnShare: ...
    @property
    def rights(self) -> Rights | None:
        """Who may do what; None: everybody may do everything."""

    @property
    def accept_at_ms(self) -> int:
        """The monotonic time in ms at which `accept` is due."""

    @property
    def call_soon(self) -> Callable[[Callable[[], None]], object]:
        """The event loop's `call_soon`: runs a function in a later turn of the loop."""

    def accept(self, now_ms: int) -> None:
        """Accept the connections that wait in the listening sockets."""

    # Both are given the `Connection`, which knows this protocol and so cannot be named here.
    def on_connected(self, connection: Any, ip: str) -> None: ...
    def on_disconnected(self, connection: Any) -> None: ...
