"""The quotas of users and client ids, and what each client has taken of them (KIP-13, KIP-124, KIP-599).

Only what a rule concerns is counted, so clients without a quota cost two look-ups, and nothing while there are no
quotas at all. Kafka counts for all clients from the first quota of a key on; that shows only in the ten seconds
after a client, which others' quotas did not concern, is given one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.quotas.buckets import Buckets
from coordinator.quotas.entities import (
    CLIENT_KEYS,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
)
from coordinator.quotas.rates import Rate, TokenBucket, Windows
from coordinator.quotas.rules import Bucket, Rules
from coordinator.topics.config_values import INT32_MAX

RATES: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)

Client = tuple[str, str]
"""Name of the user, and client id."""


class ClientQuotas:
    """All quotas of clients, and their counters. The time is an argument, in monotonic ms."""

    def __init__(self, windows: Windows, controller_windows: Windows) -> None:
        self.windows, self.controller_windows = windows, controller_windows
        self.version = 0
        """A number that moves with every change of a quota."""
        self._rules = {key: Rules() for key in CLIENT_KEYS}
        self._rates: dict[str, Buckets[Bucket, Rate]] = {key: Buckets(lambda: Rate(windows)) for key in RATES}
        self._mutations: Buckets[Bucket, TokenBucket] = Buckets(lambda: TokenBucket(controller_windows))

    def __bool__(self) -> bool:
        """Whether there is a quota of any key."""
        return any(self._rules.values())

    def set(self, entity: Entity, limits: Mapping[str, float]) -> None:
        """Have `limits`, by key, be all quotas of a user, a client id or both; they hold from now on."""
        for key, rules in self._rules.items():
            rules.set(entity, limits.get(key))
        self.version += 1

    def concerns(self, key: str, client: Client) -> bool:
        """Whether a quota of that key holds for the client."""
        return self._rules[key].find(*client) is not None

    def record(self, key: str, client: Client, value: float, now_ms: int) -> int:
        """Count bytes, or the percents of a second, of a request; return the ms to throttle its client for."""
        found = self._rules[key].find(*client)
        if found is None:
            return 0
        bucket, limit = found
        rate = self._rates[key].of(bucket, now_ms)
        rate.record(value, now_ms)
        wait_ms = rate.throttle_ms(limit, now_ms)
        # Time on the loop is over when it is counted: to wait longer than a window brings nothing (Q12).
        return min(wait_ms, self.windows.sample_ms) if key == REQUEST_PERCENTAGE else wait_ms

    def take_back(self, key: str, client: Client, value: float, now_ms: int) -> None:
        """Count no more what was recorded at `now_ms`: it was not sent (Q11)."""
        if (found := self._rules[key].find(*client)) is not None:
            self._rates[key].of(found[0], now_ms).record(-value, now_ms)

    def most_at_once(self, key: str, client: Client) -> int:
        """Return the most bytes that are not throttled if nothing was taken before."""
        found = self._rules[key].find(*client)
        return INT32_MAX if found is None else int(min(found[1] * self.windows.burst_s, INT32_MAX))

    def take_mutations(self, client: Client, count: int, is_strict: bool, now_ms: int) -> int:
        """Take permits for partitions that are made or removed; return the ms to wait, 0 if there were enough.

        Where it is strict and there is a wait, none are taken: the change is refused (Q13).
        """
        found = self._rules[CONTROLLER_MUTATION_RATE].find(*client)
        if found is None:
            return 0
        bucket, limit = found
        permits = self._mutations.of(bucket, now_ms)
        if not is_strict:
            permits.take(count, limit, now_ms)
            return permits.throttle_ms(limit, now_ms)
        wait_ms = permits.throttle_ms(limit, now_ms)
        if not wait_ms:
            permits.take(count, limit, now_ms)
        return wait_ms
