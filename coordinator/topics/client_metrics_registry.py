"""The client metrics subscriptions there are, and what they ask for."""

from __future__ import annotations

from typing import Final

from coordinator.topics.client_metrics_configs import (
    CLIENT_METRICS_FILE,
    Subscription,
    parsed,
    subscription,
)
from coordinator.topics.resource_registry import ResourceKind, ResourceRegistry
from coordinator.topics.store import TopicStore
from coordinator.topics.workers import Workers

SUBSCRIPTIONS: Final = ResourceKind("client metrics subscription", CLIENT_METRICS_FILE, parsed)


class ClientMetricsRegistry(ResourceRegistry):
    """The subscriptions by name, as texts; `subscriptions` has them ready to match clients with."""

    def __init__(self, store: TopicStore, workers: Workers) -> None:
        super().__init__(SUBSCRIPTIONS, store, workers)
        self.subscriptions: dict[str, Subscription] = {}
        self.version = 0
        """Raised by every change of a subscription: clients are then matched anew."""

    def open(self) -> None:
        super().open()
        self.follow(self._on_subscription_altered)

    def _on_subscription_altered(self, name: str) -> None:
        self.version += 1
        if texts := self.texts(name):
            self.subscriptions[name] = subscription(texts)
        else:
            self.subscriptions.pop(name, None)
