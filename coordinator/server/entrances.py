"""How clients come in through each listener: at once, by a login, and behind TLS or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast, runtime_checkable

import structlog

from coordinator.security.sasl.jaas import LoginModule
from coordinator.security.sasl.login import LoginTerms
from coordinator.security.sasl.mechanism import Mechanism
from coordinator.security.sasl.plain import PLAIN, Plain
from coordinator.server.api_table import API_VERSIONS_KEY, Api, ApiVersionsHandler
from coordinator.server.login import LoginRules
from coordinator.server.strangers import Stranger
from coordinator.settings.listeners import ListenerConfig, SecurityProtocol
from coordinator.settings.login_rules import MECHANISMS_OPTION
from coordinator.settings.model import Settings
from coordinator.settings.prefixed import ListenerSettings
from coordinator.settings.unusable import UnusableSettings

MakeMechanism: TypeAlias = Callable[[LoginModule, ListenerSettings], Mechanism]
"""Makes a mechanism as one listener has it, of what JAAS says and of its other settings."""

Wrap: TypeAlias = Callable[[asyncio.Protocol, Stranger], asyncio.BaseProtocol]
"""Puts TLS before a protocol. The server counts the stranger until it is known or gone."""

OWN_MECHANISMS: Mapping[str, MakeMechanism] = {PLAIN: lambda module, _: Plain(module.options)}
"""Those that need nothing of the daemon but their settings."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """What stands before the connections of one listener."""

    login: LoginRules | None = None
    tls: Wrap | None = None


log = structlog.get_logger("muster.server")


class EntranceError(UnusableSettings):
    """Raised for a listener that cannot be secured as its settings say; one sentence."""


def open_entrances(
    listeners: Iterable[ListenerConfig],
    settings: Settings,
    apis: Mapping[int, Api],
    mechanisms: Mapping[str, MakeMechanism],
    tls: Callable[[ListenerConfig, ListenerSettings], Wrap] | None = None,
) -> dict[str, Entrance]:
    """Return the entrances of the listeners by name, but for plain ones, of which those open to others are logged.

    `tls` returns what puts TLS before a listener's protocols. Raises EntranceError.
    """
    found: dict[str, Entrance] = {}
    for listener in listeners:
        if listener.protocol is SecurityProtocol.PLAINTEXT:
            _warn_of(listener)
            continue
        own = settings.of_listener(listener.name)
        login = _login_rules(settings, own, apis, mechanisms) if listener.protocol.has_sasl else None
        if listener.protocol.has_tls and tls is None:
            raise EntranceError(
                f"the listener {listener.name} asks for {listener.protocol}, and there is no TLS"
            )
        wrap = tls(listener, own) if tls is not None and listener.protocol.has_tls else None
        found[listener.name] = Entrance(login, wrap)
    return found


@runtime_checkable
class Closing(Protocol):
    """A mechanism with something that has to end."""

    def close(self) -> None:
        """End it."""


def close_entrances(entrances: Iterable[Entrance]) -> None:
    """End what the mechanisms of closed listeners have running."""
    for entrance in entrances:
        for mechanism in entrance.login.terms.mechanisms.values() if entrance.login is not None else ():
            if isinstance(mechanism, Closing):
                mechanism.close()


def _warn_of(listener: ListenerConfig) -> None:
    if listener.is_open_to_others:
        log.warning(
            "a listener without TLS and SASL: all who reach it may do everything",
            listener=listener.name,
            host=listener.host or "*",
            port=listener.port,
        )


def _login_rules(
    settings: Settings,
    own: ListenerSettings,
    apis: Mapping[int, Api],
    mechanisms: Mapping[str, MakeMechanism],
) -> LoginRules:
    made: dict[str, Mechanism] = {}
    for name in own.get(MECHANISMS_OPTION):
        module, make = own.login_module(name), mechanisms.get(name)
        if module is None or make is None:
            raise EntranceError(
                f"the listener {own.listener} asks for the mechanism {name}, which is not there"
            )
        made[name] = make(module, own)
    longest = {name: own.get("connections.max.reauth.ms", name) for name in made}
    return LoginRules(
        own.listener,
        LoginTerms(made, longest),
        cast(ApiVersionsHandler, apis[API_VERSIONS_KEY].handle),
        own.get("sasl.server.max.receive.size"),
        settings.connection_failed_authentication_delay_ms,
    )
