"""Clients' metrics as one part of the daemon, which is there only if it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.telemetry.apis import TelemetryApis, TelemetryServices
from coordinator.telemetry.decode_queue import DecodeQueue, Later
from coordinator.telemetry.instances import ClientInstances
from coordinator.telemetry.payload import check_library
from coordinator.telemetry.reports import ClientReports, MemberOfGroup, origin_of
from coordinator.topics.client_metrics_registry import ClientMetricsRegistry
from coordinator.topics.workers import ThreadWorkers
from storage.flusher import Post

MISSING: str = (
    "muster.client.metrics=true needs OpenTelemetry's classes, which are not installed: "
    "pip install opentelemetry-proto, or '.[client-metrics]' in a checkout of Muster"
)


class TelemetryUnavailable(Exception):
    """Raised if the library is missing that clients' metrics are decoded with."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The monotonic time, and how to get back to the event loop: at once from a thread, or after a while."""

    now_ms: Callable[[], int]
    post: Post
    later: Later


class Telemetry:
    """The handlers of 71 and 72, and what clients said lately."""

    def __init__(self, registry: ClientMetricsRegistry, max_bytes: int, clocks: Clocks) -> None:
        """Raises TelemetryUnavailable."""
        try:
            check_library()
        except ImportError:
            raise TelemetryUnavailable(MISSING) from None
        self._now_ms = clocks.now_ms
        self._workers = ThreadWorkers(1, clocks.post, "telemetry")
        self._queue = DecodeQueue(self._workers, clocks.later)
        self._instances = ClientInstances(registry)
        self._reports = ClientReports()
        services = TelemetryServices(self._instances, self._reports, self._queue, clocks.now_ms, max_bytes)
        apis = TelemetryApis(services)
        self.handlers: Mapping[int, Callable[[Any, Any], None]] = {71: apis.get_subscriptions, 72: apis.push}

    def on_disconnected(self, connection: Hashable) -> None:
        """Forget which client the connection was one of; what it said is kept."""
        self._instances.on_disconnected(connection)

    def latest(
        self, group_id: str, member_id: str | None, client_id: str, client_host: str
    ) -> Mapping[str, int] | None:
        """Return what the client of a member said lately, by the names in `payload.KEPT`, and `age_ms`."""
        member = MemberOfGroup(group_id, member_id, origin_of(client_id, client_host))
        return self._reports.latest(member, self._now_ms())

    def close(self) -> None:
        """Drop the pushes that wait, and wait for the one that is being decoded."""
        self._queue.close()
        self._workers.close()
