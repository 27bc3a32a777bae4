"""The client metrics subscriptions there are, and what they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.topics.client_metrics_configs import (
    CLIENT_METRICS_FILE,
    MOST_IN_ALL,
    Subscription,
    list_size,
    parsed,
    subscription,
)
from coordinator.topics.resource_registry import ResourceKind, ResourceRegistry
from coordinator.topics.store import TopicStore
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode, OnDone

SUBSCRIPTIONS: Final = ResourceKind("client metrics subscription", CLIENT_METRICS_FILE, parsed)


class ClientMetricsRegistry(ResourceRegistry):
    """The subscriptions by name, as texts; `subscriptions` has them ready to match clients with."""

    def __init__(self, store: TopicStore, workers: Workers) -> None:
        super().__init__(SUBSCRIPTIONS, store, workers)
        self.subscriptions: dict[str, Subscription] = {}
        # Values in all subscriptions, with those that are being added.
        self._in_all = dict.fromkeys(MOST_IN_ALL, 0)
        self.version = 0
        """Raised by every change of a subscription: clients are then matched anew."""

    def open(self) -> None:
        super().open()
        for key in MOST_IN_ALL:
            self._in_all[key] = sum(list_size(texts, key) for texts in self.all().values())
        self.follow(self._on_subscription_altered)

    def without_room_for(self, name: str, texts: Mapping[str, str]) -> str | None:
        """Return the list that would have too many values in all subscriptions together; None if there is room."""
        for key, most in MOST_IN_ALL.items():
            count = list_size(texts, key)
            if count and self._in_all[key] - list_size(self.texts(name), key) + count > most:
                return key
        return None

    def alter(self, name: str, texts: Mapping[str, str], done: OnDone) -> None:
        """Room for what is added is taken at once, and for what is removed given back when it is stored."""
        before = self.texts(name)
        more = {key: list_size(texts, key) - list_size(before, key) for key in MOST_IN_ALL}
        for key, count in more.items():
            self._in_all[key] += max(count, 0)

        def altered(error: ErrorCode) -> None:
            for key, count in more.items():
                self._in_all[key] -= max(count if error else -count, 0)
            done(error)

        super().alter(name, texts, altered)

    def _on_subscription_altered(self, name: str) -> None:
        self.version += 1
        if texts := self.texts(name):
            self.subscriptions[name] = subscription(texts)
        else:
            self.subscriptions.pop(name, None)
