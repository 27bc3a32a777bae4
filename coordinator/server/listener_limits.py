"""Limits on the connections of single listeners (Q21): how many there may be, and how fast they may come.

`listener.name.<x>.max.connections` and `.max.connection.creation.rate`, given at the start or changed since. They
hold beside the daemon's own limits of the same names. What is beyond the first is closed, where Kafka leaves it in
the system's queue; what is beyond the second waits there.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from coordinator.server.acceptor import Acceptor
from coordinator.server.strangers import Strangers
from coordinator.settings.model import Settings
from coordinator.topics.config_values import INT32_MAX, InvalidConfig
from coordinator.topics.listener_kinds import CREATION_RATE, MAX_CONNECTIONS, parts_of, prefixed
from coordinator.topics.settings import DynamicSettings, TopicSettings

_NAMES: Final = (MAX_CONNECTIONS, CREATION_RATE)


class ListenerLimits:
    """The limits of all listeners, and how many connections each has."""

    def __init__(self, settings: Settings, acceptor: Acceptor, strangers: Strangers) -> None:
        self.known: Counter[str] = Counter()
        """Connections by listener, but for strangers."""
        self._strangers = strangers
        self._acceptor = acceptor
        self._own = [settings.of_listener(each.name) for each in settings.endpoints]
        self._most: dict[str, int] = {}

    def follow(self, settings: TopicSettings) -> None:
        """Go by the limits as they are now: the daemon's rate, and all of the listeners'."""
        self._acceptor.limit_rate(settings.max_connection_creation_rate)
        for own in self._own:
            static = {name: found.value for name in _NAMES if (found := own.own(name)) is not None}
            most, rate = (
                _limit(settings, own.listener, name, static.get(name, INT32_MAX)) for name in _NAMES
            )
            self._most[own.listener] = most
            self._acceptor.limit_rate_of(own.listener, rate)

    def check(self, before: DynamicSettings, after: DynamicSettings) -> None:
        """Raise InvalidConfig if something is newly set for a listener that there is not."""
        listeners = {own.listener.lower() for own in self._own}
        for name in sorted(_names_in(after) - _names_in(before)):
            parts = parts_of(name)
            if parts is not None and parts[0] not in listeners:
                raise InvalidConfig(f"{name}: there is no listener of that name, in small letters.")

    def is_full(self, listener: str) -> bool:
        """Whether the listener may have no further connection."""
        return self._count(listener) >= self._most.get(listener, INT32_MAX)

    def is_over(self, listener: str) -> bool:
        """Whether the listener has more connections than it may have."""
        return self._count(listener) > self._most.get(listener, INT32_MAX)

    def _count(self, listener: str) -> int:
        return self.known[listener] + self._strangers.per_listener[listener]


def _limit(settings: TopicSettings, listener: str, option: str, static: int) -> int:
    """Return what was set at run time, which has been checked, or else what was given at the start."""
    text = settings.dynamic_text(prefixed(listener, option))
    return static if text is None else int(text)


def _names_in(dynamic: DynamicSettings) -> set[str]:
    return {*dynamic.of_node, *dynamic.of_all}
