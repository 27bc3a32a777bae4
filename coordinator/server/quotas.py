"""Where quotas meet the server: the APIs that show and change them, and the guard before all others.

While no quota is set, the API table is as it was made. With the first one a guard stands before each handler, on
all connections; with the last one it goes. Connections are held by the rate of their address as they are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.admin.client_quotas import ClientQuotaApis
from coordinator.quotas.client_quotas import Client, ClientQuotas
from coordinator.quotas.connection_rates import ConnectionRates
from coordinator.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    entity_from,
)
from coordinator.quotas.rates import Windows
from coordinator.quotas.registry import QuotaRegistry
from coordinator.security.session import USER
from coordinator.server.api_table import API_VERSIONS_KEY, Api, Handler
from coordinator.server.guarding import guarded
from coordinator.server.metered import MeteredPending
from coordinator.server.pending import Pending
from coordinator.server.server import Server
from coordinator.settings.model import Settings
from coordinator.topics.registry import TopicRegistry

PRODUCE: Final = 0
KEY_OF_API: Final = {
    PRODUCE: PRODUCER_BYTE_RATE,
    1: CONSUMER_BYTE_RATE,
    19: CONTROLLER_MUTATION_RATE,
    20: CONTROLLER_MUTATION_RATE,
    37: CONTROLLER_MUTATION_RATE,
}
"""The quota that an API is about, beside that of the time which all take."""

WRITE_TXN_MARKERS: Final = 27
UNGUARDED: Final = frozenset({API_VERSIONS_KEY, WRITE_TXN_MARKERS})
"""What brokers ask each other is exempt (Q12), and so is ApiVersions here, the first request of all clients."""


class Quotas:
    """The quotas of the daemon: set by requests, kept by the registry, in force at the server."""

    def __init__(self, registry: QuotaRegistry, settings: Settings) -> None:
        windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1_000)
        controller = Windows(
            settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1_000
        )
        self._registry = registry
        self.clients = ClientQuotas(windows, controller)
        self.connection_rates = ConnectionRates(windows)

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers of the APIs that show and change quotas, by API key."""
        apis = ClientQuotaApis(self._registry)
        return {48: apis.describe, 49: apis.alter}

    def follow(self, server: Server) -> None:
        """Have the server go by the quotas as they are now, and as they change."""
        switch = _Switch(server, self.clients)
        server.hold_surplus(self.connection_rates)
        self._registry.follow(self._on_altered)
        self._registry.follow(lambda _name: switch.turn())

    def _on_altered(self, name: str) -> None:
        entity, limits = entity_from(name), self._registry.limits(name)
        if dict(entity).keys() == {IP}:
            self.connection_rates.set(entity, limits)
        else:
            self.clients.set(entity, limits)


def open_quotas(topics: TopicRegistry, settings: Settings) -> Quotas:
    """Read the quotas from where topics are. Waits for the disk. Raises StorageError, InvalidConfig."""
    registry = topics.resources(QuotaRegistry)
    registry.open()
    return Quotas(registry, settings)


class _Switch:
    """Puts the guard before the handlers when there is a quota, and takes it away when there is none."""

    def __init__(self, server: Server, quotas: ClientQuotas) -> None:
        self._server = server
        self._quotas = quotas
        self._plain: Mapping[int, Api] | None = None  # The table without guards, while they are in it.

    def turn(self) -> None:
        """Guard the table, or not, as there are quotas or none."""
        if bool(self._quotas) is (self._plain is not None):
            return
        if self._plain is not None:
            self._server.use_apis(self._plain)
            self._plain = None
            return
        self._plain = plain = self._server.apis
        now_ms = self._server.clock.now_ms
        self._server.use_apis(
            {
                key: api if key in UNGUARDED else guarded(api, QuotaGuard(key, self._quotas, now_ms))
                for key, api in plain.items()
            }
        )


class QuotaGuard:
    """Stands before the handler of one API: clients that a quota concerns are metered, others pass."""

    def __init__(self, api_key: int, quotas: ClientQuotas, now_ms: Callable[[], int]) -> None:
        self._is_produce = api_key == PRODUCE
        self._keys = tuple(filter(None, (KEY_OF_API.get(api_key), REQUEST_PERCENTAGE)))
        self._quotas = quotas
        self._now_ms = now_ms

    def handle(self, handle: Handler, request: Any, pending: Pending) -> None:
        """Have `handle` see the request, metered if a quota concerns its client.

        The bytes of Produce are counted as they come: a client that sends on, whatever it is answered, is muted
        before its next request.
        """
        client = _client(pending)
        if not self._concerns(client):
            handle(request, pending)
            return
        metered = MeteredPending(pending, self._quotas, client, self._now_ms)
        if self._is_produce and (wait_ms := metered.meter.receive(pending.frame_bytes)):
            pending.connection.mute(wait_ms)
        handle(request, metered)
        metered.on_handled()

    def permit(self, request: Any, pending: Pending) -> ClientQuotas | None:
        """A client without a quota is one until quotas change; others' requests are not prepared."""
        return None if self._concerns(_client(pending)) else self._quotas

    def _concerns(self, client: Client) -> bool:
        return any(self._quotas.concerns(key, client) for key in self._keys)


def _client(pending: Pending) -> Client:
    return pending.session.principal.removeprefix(USER), pending.client_id
