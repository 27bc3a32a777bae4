"""A request of a client with quotas: its answer says for how long it is throttled, and the connection is muted.

It stands in the place of the connection's `Pending` before the handlers, and knows no quotas: a `Meter` does.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from time import perf_counter
from typing import Any

from coordinator.quotas.client_quotas import Client, ClientQuotas
from coordinator.quotas.meter import Meter
from coordinator.server.pending import Pending
from protocol.framing import EncodedResponse


class MeteredPending(Pending):
    """What `pending` is, for handlers of a request that quotas are about; it answers through `pending`."""

    __slots__ = ("_began_s", "_busy_s", "_meter", "_pending")

    def __init__(
        self, pending: Pending, quotas: ClientQuotas, client: Client, now_ms: Callable[[], int]
    ) -> None:
        super().__init__(
            pending.connection,
            pending.api,
            pending.api_version,
            pending.correlation_id,
            pending.client_id,
            pending.frame_bytes,
        )
        self._pending = pending
        self._began_s = perf_counter()
        self._busy_s: float | None = None
        self._meter = Meter(quotas, client, now_ms, self._spent_s)

    @property
    def meter(self) -> Meter:
        return self._meter

    def on_handled(self) -> None:
        """Count no more time of the loop for the request: what it waits for from here on is not its own."""
        if self._busy_s is None:
            self._busy_s = perf_counter() - self._began_s

    def _spent_s(self) -> float:
        return perf_counter() - self._began_s if self._busy_s is None else self._busy_s

    def reply(self, response: Any) -> None:
        """Answer at once, also if the client is throttled: the time counts from the answer on (KIP-219)."""
        self._pending.reply(self._throttled(response))

    def reply_aside(
        self, make: Callable[[], Any], run: Callable[[Callable[[], object], Callable[[Any], None]], None]
    ) -> None:
        wait_ms = self._mute()
        self._pending.reply_aside(lambda: _with_throttle_time(make(), wait_ms), run)

    def no_reply(self) -> None:
        """Leave the order; a client that wants no answer is muted for its bytes alone, as in Kafka (Q10)."""
        self._pending.no_reply()

    def drop(self, reason: str) -> None:
        self._pending.drop(reason)

    def release_memory(self) -> None:
        self._pending.release_memory()

    def _throttled(self, response: Any) -> Any:
        wait_ms = self._mute()
        if not wait_ms:
            return response
        if isinstance(response, EncodedResponse):
            response = copy(response.message)  # It is shared by all that are answered so.
        return _with_throttle_time(response, wait_ms)

    def _mute(self) -> int:
        self._meter.take_time()
        if wait_ms := self._meter.throttle_ms:
            self.connection.mute(wait_ms)
        return wait_ms


def _with_throttle_time(response: Any, wait_ms: int) -> Any:
    if wait_ms and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = wait_ms
    return response
