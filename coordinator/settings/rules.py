"""Rules that settings have to satisfy together, beside the range of each.

A conflict names the options that its rule reads: if one of them is wrong by itself, or could not be read, the rule
cannot be judged, and its conflict is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from coordinator.security.regular_file import can_be_named
from coordinator.settings.listeners import ListenerConfig
from coordinator.settings.login_rules import MECHANISMS_OPTION, login_problems
from coordinator.settings.prefixed import PREFIX, ListenerSettings
from coordinator.topics.dynamic_rules import NO_CONNECTIONS, cordon_problems

_NOT_ABOVE: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    *(
        pair
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
        for pair in pairwise(f"group.consumer.{bound}{name}" for bound in ("min.", "", "max."))
    ),
)
_LISTENERS: Final = frozenset(
    {
        *("listeners", "advertised.listeners", "listener.security.protocol.map"),
        "controller.listener.names",
    }
)


class RelatedSettings(Protocol):
    """The attributes of `model.Settings` that the rules read; its constructor applies the rules."""

    @property
    def model_fields_set(self) -> Set[str]:
        """The names of the settings that were given, as opposed to defaults."""

    @property
    def broker_id(self) -> int: ...
    @property
    def node_id(self) -> int: ...
    @property
    def group_consumer_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_consumer_session_timeout_ms(self) -> int: ...
    @property
    def queued_max_request_bytes(self) -> int: ...
    @property
    def socket_request_max_bytes(self) -> int: ...
    @property
    def log_dirs(self) -> tuple[str, ...]: ...
    @property
    def log_dir(self) -> str: ...
    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]: ...
    @property
    def max_connections_per_ip(self) -> int: ...
    @property
    def max_connections_per_ip_overrides(self) -> str: ...
    @property
    def connections_max_idle_ms(self) -> int: ...
    @property
    def connection_failed_authentication_delay_ms(self) -> int: ...
    @property
    def endpoints(self) -> Sequence[ListenerConfig]:
        """The listeners; raises ValueError with a sentence for each of their problems."""

    def of_listener(self, name: str) -> ListenerSettings:
        """Return the settings as the listener of that name has them."""


class OptionConflict(NamedTuple):
    """Options that do not fit together, and a sentence that says why."""

    options: frozenset[str]
    sentence: str


class ConflictsError(ValueError):
    """Raised for settings that do not fit together."""

    def __init__(self, conflicts: Sequence[OptionConflict]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__("\n".join(conflict.sentence for conflict in conflicts))


def conflicts(settings: RelatedSettings) -> Iterator[OptionConflict]:
    """Yield the conflicts in `settings`."""
    if settings.broker_id not in (-1, settings.node_id):
        sentence = f"broker.id={settings.broker_id} and node.id={settings.node_id} must be the same"
        yield OptionConflict(frozenset({"broker.id", "node.id"}), sentence)
    for least, most in _NOT_ABOVE:
        low, high = (getattr(settings, option.replace(".", "_")) for option in (least, most))
        if low > high:
            yield OptionConflict(frozenset({least, most}), f"{least}={low} must not be above {most}={high}")
    interval_ms = settings.group_consumer_heartbeat_interval_ms
    if interval_ms >= settings.group_consumer_session_timeout_ms:
        names = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
        sentence = (
            f"{names[0]}={interval_ms} must be below {names[1]}={settings.group_consumer_session_timeout_ms}"
        )
        yield OptionConflict(frozenset(names), sentence)
    queued, largest = settings.queued_max_request_bytes, settings.socket_request_max_bytes
    if "queued_max_request_bytes" in settings.model_fields_set and 0 < queued < largest:
        names = "queued.max.request.bytes", "socket.request.max.bytes"
        yield OptionConflict(frozenset(names), f"{names[0]}={queued} must not be below {names[1]}={largest}")
    yield from _directory_conflicts(settings)
    if settings.max_connections_per_ip == 0 and not settings.max_connections_per_ip_overrides:
        yield OptionConflict(
            frozenset({"max.connections.per.ip", "max.connections.per.ip.overrides"}), NO_CONNECTIONS
        )
    delay_ms, idle_ms = settings.connection_failed_authentication_delay_ms, settings.connections_max_idle_ms
    if 0 <= idle_ms <= delay_ms:
        names = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
        yield OptionConflict(frozenset(names), f"{names[0]}={delay_ms} must be below {names[1]}={idle_ms}")
    yield from _listener_conflicts(settings)


def _directory_conflicts(settings: RelatedSettings) -> Iterator[OptionConflict]:
    if len(settings.log_dirs) > 1:
        yield OptionConflict(
            frozenset({"log.dirs"}), f"log.dirs={','.join(settings.log_dirs)} must be one directory"
        )
    option, directory = (
        ("log.dirs", settings.log_dirs[0]) if settings.log_dirs else ("log.dir", settings.log_dir)
    )
    if not can_be_named(directory):
        yield OptionConflict(frozenset({option}), f"{option}={directory}: no directory can have that name")
    for sentence in cordon_problems(settings.cordoned_log_dirs, directory):
        yield OptionConflict(frozenset({"cordoned.log.dirs", "log.dirs", "log.dir"}), sentence)


def _listener_conflicts(settings: RelatedSettings) -> Iterator[OptionConflict]:
    try:
        endpoints = settings.endpoints
    except ValueError as error:
        for sentence in str(error).splitlines():
            yield OptionConflict(_LISTENERS, sentence)
        return
    for endpoint in endpoints:
        for sentence in login_problems(endpoint, settings.of_listener(endpoint.name)):
            yield OptionConflict(_LISTENERS | {MECHANISMS_OPTION, PREFIX}, sentence)
