"""The context of the data plane's API handlers: the topics, the services they need, and the nodes.

A handler is `handle(broker, request, pending)` and runs on the event-loop thread; it answers through
`pending`, now or later. Nothing here knows a socket or a clock: the runtime passes in functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from coordinator.data.fetch_sessions import FetchSessions
from coordinator.data.markers import Markers
from coordinator.data.producer_ids import ProducerIds
from coordinator.data.transaction_verifier import TransactionVerifier
from coordinator.purgatory.delayed import Purgatory
from coordinator.security.acls import Operation, ResourceType
from coordinator.security.scram_users import ScramUsers
from coordinator.security.session import Session
from coordinator.topics.broker_configs import BrokerConfig
from coordinator.topics.placement import Placement
from coordinator.topics.registry import TopicRegistry
from coordinator.topics.settings import TopicSettings
from coordinator.topics.workers import Workers


class Meter(Protocol):
    """What one request takes of its client's quotas."""

    @property
    def fetch_max_bytes(self) -> int:
        """The most bytes of a fetch that are not throttled for themselves alone."""

    def is_fetch_throttled(self, size_bytes: Callable[[], int]) -> bool:
        """Count the bytes that are about to answer a Fetch; True: send none of them, and they are not counted."""

    def take_partitions(self, count: int, is_strict: bool) -> bool:
        """Take permits for partitions to be made or removed; False: there are none, and the change is refused."""


class ClientRequest(Protocol):
    """One request that waits for its answer, as its handler sees it: the server's `Pending`."""

    api_version: int

    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def listener(self) -> str: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def session(self) -> Session:
        """Who the client is."""

    @property
    def is_guarded(self) -> bool:
        """Whether the handler has to ask for rights itself, where it does so at all."""

    @property
    def meter(self) -> Meter | None:
        """What the request takes of quotas; None: no quota holds for its client."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do `operation` to the resource, now."""

    @property
    def describes(self) -> Callable[[str], bool] | None:
        """Whether the client may know of a topic that it did not name; None: of all."""

    def reply(self, response: Any) -> None: ...
    def no_reply(self) -> None: ...
    def drop(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Broker:
    """The topics and services that every handler of the data plane gets; one per daemon."""

    settings: TopicSettings
    registry: TopicRegistry
    purgatory: Purgatory
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    readers: Workers
    """Threads for reads that would wait for the disk."""
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    arm: Callable[[int], None]
    """Has the timing wheel advanced at this time (monotonic milliseconds) at the latest."""
    placement: Placement
    """The nodes, and which of them leads each partition."""
    markers: Markers
    """Ends transactions on any partition."""
    scram_users: ScramUsers
    """The users that log in by SCRAM."""
    verifier: TransactionVerifier | None = None
    """The transaction coordinator; without one, transactions are not verified."""
    broker_configs: tuple[BrokerConfig, ...] = ()
    """All settings of the broker, for DescribeConfigs; if empty, it shows those in `settings`."""
    bound: dict[str, str] = field(default_factory=dict)
    """Values, by name, of settings that are shown as they came to be, such as an address with the port it got."""
