"""The settings of single listeners: `listener.name.<listener>.<setting>` over the general one (L6).

Between the listener and the setting may stand a mechanism of SASL: `listener.name.ext.plain.sasl.jaas.config`.
They are a free part of the settings, since any setting may have any listener's name before it. What has no name of
a setting is refused if it is nearly one, and otherwise ignored, as in Kafka; so is what is about other listeners
than those that are bound, such as a controller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from coordinator.security.sasl.jaas import JaasError, LoginModule, parse_jaas
from coordinator.security.sasl.mechanisms import MECHANISMS
from coordinator.topics.dynamic_settings import plain_text

PREFIX: Final = "listener.name."
JAAS_OPTION: Final = "sasl.jaas.config"
"""Has a meaning for a mechanism of a listener alone (L7)."""

_OTHER_MECHANISMS: Final = ("GSSAPI",)
_BY_PREFIX: Final = {f"{name.lower()}.": name for name in (*MECHANISMS, *_OTHER_MECHANISMS)}


@dataclass(frozen=True, slots=True)
class Place:
    """What a prefixed setting is about."""

    listener: str
    """In capitals."""
    mechanism: str
    """Blank: all of them."""
    option: str

    @property
    def name(self) -> str:
        """The name of the setting with its prefixes."""
        parts = (self.listener.lower(), self.mechanism.lower(), self.option)
        return PREFIX + ".".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class OwnValue:
    """The value of a prefixed setting, which may be secret."""

    text: str = field(repr=False)
    value: Any = field(repr=False)


OwnValues: TypeAlias = Mapping[Place, OwnValue]


def place_of(name: str, listeners: Iterable[str]) -> Place | None:
    """Return what the setting `name` is about; None: none of `listeners`, whose names are in capitals."""
    for listener in sorted(listeners, key=len, reverse=True):
        prefix = f"{PREFIX}{listener.lower()}."
        if not name.startswith(prefix):
            continue
        rest = name.removeprefix(prefix)
        found = next((each for each in _BY_PREFIX if rest.startswith(each)), "")
        return Place(listener, _BY_PREFIX.get(found, ""), rest.removeprefix(found))
    return None


def listener_names(listeners: str) -> list[str]:
    """Return the names in the text of `listeners`, in capitals, whether the rest of it is right or not."""
    return [each.partition("://")[0].strip().upper() for each in listeners.split(",") if "://" in each]


def parse_login_module(text: object) -> LoginModule:
    """Return the login module that `sasl.jaas.config` names. Raises ValueError, without the secret text."""
    try:
        return parse_jaas(str(text))
    except JaasError as error:
        raise ValueError(f"one login module of JAAS, but it {error}") from None


class ListenerSettings:
    """The settings as one listener has them."""

    def __init__(self, listener: str, general: Callable[[str], Any], own: OwnValues) -> None:
        """`general` returns the value of a setting without a prefix, None if there is no such setting."""
        self.listener = listener
        self._general = general
        self._own = own

    def own(self, option: str, mechanism: str = "") -> OwnValue | None:
        """Return the value that the listener has for itself, or that it has for the mechanism."""
        for each in (mechanism, ""):
            if (found := self._own.get(Place(self.listener, each, option))) is not None:
                return found
        return None

    def get(self, option: str, mechanism: str = "") -> Any:
        """Return the value of the mechanism, the listener's, or the general one, in this order, as it was read."""
        found = self.own(option, mechanism)
        return self._general(option) if found is None else found.value

    def text(self, option: str) -> str | None:
        """Return the value as text: as given, or as the general value would be given; None: there is none."""
        found = self.own(option)
        value = self._general(option) if found is None else found.text
        if isinstance(value, tuple):
            return ",".join(map(str, value))
        return None if value is None else plain_text(value)

    def login_module(self, mechanism: str) -> LoginModule | None:
        """Return what `listener.name.<name>.<mechanism>.sasl.jaas.config` says; None if it is not given (L7)."""
        found = self._own.get(Place(self.listener, mechanism, JAAS_OPTION))
        if found is None:
            return None
        assert isinstance(found.value, LoginModule)
        return found.value
