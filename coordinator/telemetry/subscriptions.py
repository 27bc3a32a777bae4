"""What one client is asked for: the metrics of all subscriptions that match it, in the shortest interval.

The id of what is asked for is computed as Kafka computes it, over the metrics in the order of its hash table, so
that the two give a client the same id. Knows no requests.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from google_crc32c import value as crc32c

from coordinator.groups.consumer.java_order import JavaTable, string_hash, uuid_hash
from coordinator.topics.client_metrics_configs import DEFAULT_INTERVAL_MS, Subscription

ALL_METRICS: Final = "*"

MAX_ATTRIBUTE_CHARS: Final = 256
"""Longest text that a pattern is matched with: a thousand patterns may look at it, while all others wait."""

MAX_TOGETHER: Final = 64
"""Most sets of subscriptions that are remembered: clients that match the same ones are asked for the same."""

_UINT32: Final = 0xFFFFFFFF
_SIGN: Final = 1 << 31


class ClientAttributes(NamedTuple):
    """What patterns of `match` may be about, in Kafka's names."""

    client_instance_id: str  # As Kafka shows a UUID: 22 characters.
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class AskedFor(NamedTuple):
    """What a client is asked for; thousands are kept, so it has no names of its own (`Matching.metrics`)."""

    subscription_id: int
    which: int  # The subscriptions that it matches: a bit for each.
    push_interval_ms: int


class Together(NamedTuple):
    """What some subscriptions ask for together."""

    metrics: tuple[str, ...]  # Beginnings of names; `*` alone: all.
    interval_ms: int
    crc: int


class Matching:
    """The subscriptions there are, to match clients with; what some of them ask for is put together once."""

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self._subscriptions = subscriptions
        self._hashes: dict[str, int] = {}  # Of the names: Java's takes a step for each character.
        self._together: OrderedDict[int, Together] = OrderedDict()  # By places; longest unused first.

    def asked_for(self, client_instance_id: bytes, client: ClientAttributes) -> AskedFor:
        """Return what all subscriptions that match the client ask for together; no metrics if none does."""
        which = sum(1 << place for place, each in enumerate(self._subscriptions) if matches(each, client))
        _, interval_ms, crc = self._of(which)
        return AskedFor(_mixed(crc, client_instance_id), which, interval_ms)

    def metrics(self, asked_for: AskedFor) -> tuple[str, ...]:
        """Return the metrics that a client is asked for; no others than these subscriptions' `asked_for` count."""
        return self._of(asked_for.which).metrics

    def _of(self, which: int) -> Together:
        together = self._together.get(which)
        if together is None:
            together = self._together[which] = self._put_together(which)
            if len(self._together) > MAX_TOGETHER:
                self._together.popitem(last=False)
        else:
            self._together.move_to_end(which)
        return together

    def _put_together(self, which: int) -> Together:
        table: JavaTable[str] = JavaTable(self._hash)
        interval_ms = DEFAULT_INTERVAL_MS
        for place, each in enumerate(self._subscriptions):
            if not which >> place & 1:
                continue
            for name in JavaTable.of_list(self._hash, each.metrics):
                table.put(name)
            interval_ms = min(interval_ms, each.interval_ms)
        metrics = (ALL_METRICS,) if ALL_METRICS in table else tuple(table)
        return Together(metrics, interval_ms, _crc(metrics, interval_ms))

    def _hash(self, name: str) -> int:
        found = self._hashes.get(name)
        if found is None:
            found = self._hashes[name] = string_hash(name)
        return found


def matches(subscription: Subscription, client: ClientAttributes) -> bool:
    """Whether the client matches each pattern of the subscription; a text that is too long matches none."""
    return all(
        len(text := getattr(client, name)) <= MAX_ATTRIBUTE_CHARS and pattern.fullmatch(text) is not None
        for name, pattern in subscription.patterns.items()
    )


def subscription_id(metrics: tuple[str, ...], interval_ms: int, client_instance_id: bytes) -> int:
    """Return the id, a signed 32-bit number: a CRC-32C of metrics and interval, mixed with the client's id."""
    return _mixed(_crc(metrics, interval_ms), client_instance_id)


def _crc(metrics: tuple[str, ...], interval_ms: int) -> int:
    return int(crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode()))


def _mixed(crc: int, client_instance_id: bytes) -> int:
    mixed = (crc ^ uuid_hash(client_instance_id)) & _UINT32
    return mixed - (1 << 32) if mixed & _SIGN else mixed
