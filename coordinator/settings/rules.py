"""What several settings together have to satisfy, beside the range of each.

A rule names the options that it reads: where one of them is wrong by itself, or could not be read, nothing can be
said of how it fits the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from coordinator.topics.dynamic_rules import NO_CONNECTIONS, cordon_problems

if TYPE_CHECKING:  # It asks these rules when it is made.
    from coordinator.settings.model import Settings

_NOT_ABOVE: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
)
_LISTENERS: Final = frozenset(
    {
        *("listeners", "advertised.listeners", "listener.security.protocol.map"),
        "controller.listener.names",
    }
)


class Conflict(NamedTuple):
    """Options that do not fit together, and the sentence that says so."""

    options: frozenset[str]
    sentence: str


class ConflictsError(ValueError):
    """Settings that do not fit together."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__("\n".join(conflict.sentence for conflict in conflicts))


def conflicts(settings: Settings) -> Iterator[Conflict]:
    """All that does not fit together."""
    if settings.broker_id not in (-1, settings.node_id):
        sentence = f"broker.id={settings.broker_id} and node.id={settings.node_id} must be the same"
        yield Conflict(frozenset({"broker.id", "node.id"}), sentence)
    for least, most in _NOT_ABOVE:
        low, high = (getattr(settings, option.replace(".", "_")) for option in (least, most))
        if low > high:
            yield Conflict(frozenset({least, most}), f"{least}={low} must not be above {most}={high}")
    queued, largest = settings.queued_max_request_bytes, settings.socket_request_max_bytes
    if "queued_max_request_bytes" in settings.model_fields_set and 0 < queued < largest:
        names = "queued.max.request.bytes", "socket.request.max.bytes"
        yield Conflict(frozenset(names), f"{names[0]}={queued} must not be below {names[1]}={largest}")
    if len(settings.log_dirs) > 1:
        yield Conflict(
            frozenset({"log.dirs"}), f"log.dirs={','.join(settings.log_dirs)} must be one directory"
        )
    directory = settings.log_dirs[0] if settings.log_dirs else settings.log_dir
    for sentence in cordon_problems(settings.cordoned_log_dirs, directory):
        yield Conflict(frozenset({"cordoned.log.dirs", "log.dirs", "log.dir"}), sentence)
    if settings.max_connections_per_ip == 0 and not settings.max_connections_per_ip_overrides:
        yield Conflict(
            frozenset({"max.connections.per.ip", "max.connections.per.ip.overrides"}), NO_CONNECTIONS
        )
    try:
        settings.endpoints  # noqa: B018 - read for its checks
    except ValueError as error:
        for sentence in str(error).splitlines():
            yield Conflict(_LISTENERS, sentence)
