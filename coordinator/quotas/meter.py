"""One request, as quotas see it: what it takes, and for how long its client is throttled for that.

The longest of several waits is the one that counts (Q14).
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.quotas.client_quotas import Client, ClientQuotas
from coordinator.quotas.entities import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE

PERCENT_PER_S = 100


class Meter:
    """Counts what one request of a client takes; `now_ms` is the monotonic clock, `busy_s` its time so far."""

    __slots__ = ("_busy_s", "_client", "_is_timed", "_mutate_at_ms", "_now_ms", "_quotas", "_wait_ms")

    def __init__(
        self, quotas: ClientQuotas, client: Client, now_ms: Callable[[], int], busy_s: Callable[[], float]
    ) -> None:
        self._quotas = quotas
        self._client = client
        self._now_ms = now_ms
        self._busy_s = busy_s
        self._is_timed = False  # Whether the time that it took is counted.
        self._wait_ms = 0
        self._mutate_at_ms: int | None = None  # When there are permits for partitions again.

    @property
    def throttle_ms(self) -> int:
        """The ms from now on for which the client is throttled."""
        if self._mutate_at_ms is None:
            return self._wait_ms
        return max(self._wait_ms, self._mutate_at_ms - self._now_ms())  # Topics may have taken long to make.

    def receive(self, size_bytes: int) -> int:
        """Count the bytes of a Produce request, without its length (Q10); return the ms to throttle for."""
        return self._record(PRODUCER_BYTE_RATE, size_bytes)

    @property
    def fetch_max_bytes(self) -> int:
        """The most bytes of a fetch that are not throttled for themselves alone."""
        return self._quotas.most_at_once(CONSUMER_BYTE_RATE, self._client)

    def is_fetch_throttled(self, size_bytes: Callable[[], int]) -> bool:
        """Count the bytes that are about to answer a Fetch; True: send none, and they do not count (Q11)."""
        self.take_time()
        if self._quotas.concerns(CONSUMER_BYTE_RATE, self._client):
            size, now_ms = size_bytes(), self._now_ms()
            wait_ms = self._quotas.record(CONSUMER_BYTE_RATE, self._client, size, now_ms)
            self._wait_ms = max(self._wait_ms, wait_ms)
            if self._wait_ms:
                self._quotas.take_back(CONSUMER_BYTE_RATE, self._client, size, now_ms)
        return self._wait_ms > 0

    def take_partitions(self, count: int, is_strict: bool) -> bool:
        """Take permits for partitions to be made or removed; False: there are none, and the change is refused."""
        now_ms = self._now_ms()
        wait_ms = self._quotas.take_mutations(self._client, count, is_strict, now_ms)
        if wait_ms:
            self._mutate_at_ms = now_ms + wait_ms
        return not (is_strict and wait_ms)

    def take_time(self) -> None:
        """Count the time that the loop has spent on the request, once."""
        if not self._is_timed:
            self._is_timed = True
            self._record(REQUEST_PERCENTAGE, self._busy_s() * PERCENT_PER_S)

    def _record(self, key: str, value: float) -> int:
        wait_ms = self._quotas.record(key, self._client, value, self._now_ms())
        self._wait_ms = max(self._wait_ms, wait_ms)
        return wait_ms
