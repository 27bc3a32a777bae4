"""The client instances that asked lately: what each is asked for, and when it may ask and push again.

An instance is forgotten when the connection is closed that it came on, after three of its push intervals without a
request, and early if there are more than MAX_INSTANCES. It costs it no more than a request: its next one makes it
anew. Knows no requests; the time is an argument.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from coordinator.groups.consumer.java_order import JavaTable, string_hash
from coordinator.telemetry.subscriptions import AskedFor, ClientAttributes, Matching
from coordinator.topics.client_metrics_registry import ClientMetricsRegistry
from protocol.errors import ErrorCode

MAX_INSTANCES: Final = 16_384
"""Most instances that are remembered, as in Kafka; the one longest without a request goes first."""

MIN_EXPIRY_MS: Final = 60_000
EXPIRY_INTERVALS: Final = 3
"""An instance is remembered for so many of its push intervals, and for MIN_EXPIRY_MS at least."""

RETRIED_AT_ONCE: Final = frozenset(
    {ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
)
"""After these a client asks again at once, and may."""

_NEVER_MS: Final = -(1 << 62)


def expiry_ms(push_interval_ms: int) -> int:
    """How long a client that pushes at this interval is remembered without a request."""
    return max(MIN_EXPIRY_MS, EXPIRY_INTERVALS * push_interval_ms)


@dataclass(slots=True)
class ClientInstance:
    """One client, as long as it is remembered."""

    client_instance_id: bytes
    attributes: ClientAttributes
    asked_for: AskedFor
    version: int  # Of the subscriptions, when it was last matched with them.
    expires_ms: int = 0
    asked_ms: int = _NEVER_MS
    pushed_ms: int = _NEVER_MS
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    def may_ask(self, now_ms: int) -> bool:
        """Whether an interval has passed since its last request; if so, this is its last request from now on."""
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.asked_for.push_interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether it has asked since it pushed, or an interval has passed; if so, it has pushed now.

        The first push after it has asked may come early: clients spread theirs over the interval.
        """
        is_early = now_ms - self.pushed_ms < self.asked_for.push_interval_ms
        if self.asked_ms <= self.pushed_ms and is_early:
            return False
        self.pushed_ms = now_ms
        return True


class ClientInstances:
    """The client instances by their ids."""

    def __init__(self, registry: ClientMetricsRegistry, most: int = MAX_INSTANCES) -> None:
        self._registry = registry
        self._most = most
        # Longest without a request first.
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._made_by: dict[Hashable, bytes] = {}  # By connection: the instance that was made for it last.
        self._matching: tuple[int, Matching] = (-1, Matching(()))  # And the version that it is of.

    def __contains__(self, client_instance_id: object) -> bool:
        return client_instance_id in self._instances

    def __len__(self) -> int:
        return len(self._instances)

    def get(
        self, client_instance_id: bytes, attributes: ClientAttributes, connection: Hashable, now_ms: int
    ) -> ClientInstance:
        """Return the instance, made if it is not known, and made anew if subscriptions changed meanwhile."""
        instance = self._instances.get(client_instance_id)
        if instance is None or instance.expires_ms <= now_ms:
            instance = self._made(client_instance_id, attributes, connection)
        elif instance.version < self._registry.version:
            instance = self._made(client_instance_id, instance.attributes, connection)
        instance.expires_ms = now_ms + expiry_ms(instance.asked_for.push_interval_ms)
        self._instances.move_to_end(client_instance_id)
        self._forget_old(now_ms)
        return instance

    def metrics(self, instance: ClientInstance) -> tuple[str, ...]:
        """Return the metrics that an instance is asked for which `get` has just returned."""
        return self._subscriptions().metrics(instance.asked_for)

    def on_disconnected(self, connection: Hashable) -> None:
        """Forget the instance that was made for the connection last."""
        client_instance_id = self._made_by.pop(connection, None)
        if client_instance_id is not None:
            self._instances.pop(client_instance_id, None)

    def _made(
        self, client_instance_id: bytes, attributes: ClientAttributes, connection: Hashable
    ) -> ClientInstance:
        asked = self._subscriptions().asked_for(client_instance_id, attributes)
        instance = ClientInstance(client_instance_id, attributes, asked, self._registry.version)
        self._instances[client_instance_id] = instance
        self._made_by[connection] = client_instance_id
        return instance

    def _subscriptions(self) -> Matching:
        """The subscriptions in the order of Kafka's table, which the order of metrics may depend on."""
        version, matching = self._matching
        if version != self._registry.version:
            table: JavaTable[str] = JavaTable(string_hash)
            for name in self._registry.subscriptions:
                table.put(name)
            matching = Matching([self._registry.subscriptions[name] for name in table])
            self._matching = (self._registry.version, matching)
        return matching

    def _forget_old(self, now_ms: int) -> None:
        first = next(iter(self._instances.values()))
        while len(self._instances) > self._most or first.expires_ms <= now_ms:
            del self._instances[first.client_instance_id]
            first = next(iter(self._instances.values()))
