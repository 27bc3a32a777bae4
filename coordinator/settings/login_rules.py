"""What a SASL listener needs to start: mechanisms that there are, and a login module for each (L7, S40)."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.security.sasl.mechanisms import MECHANISMS
from coordinator.settings.listeners import ListenerConfig
from coordinator.settings.prefixed import JAAS_OPTION, PREFIX, ListenerSettings
from coordinator.settings.tokens import handler_problems

MECHANISMS_OPTION = "sasl.enabled.mechanisms"


def login_problems(endpoint: ListenerConfig, settings: ListenerSettings) -> Iterator[str]:
    """Yield a sentence for each reason why clients could not log in on the listener as it offers."""
    if not endpoint.protocol.has_sasl:
        return
    mechanisms = settings.get(MECHANISMS_OPTION)
    if not mechanisms:
        yield f"{MECHANISMS_OPTION}: the listener {endpoint.name} has none, and none could log in"
    for mechanism in dict.fromkeys(mechanisms):
        yield from _mechanism_problems(endpoint.name, mechanism, settings)


def _mechanism_problems(listener: str, mechanism: str, settings: ListenerSettings) -> Iterator[str]:
    needed = MECHANISMS.get(mechanism)
    if needed is None:
        yield (
            f"{MECHANISMS_OPTION}: the listener {listener} asks for {mechanism}, and there are "
            f"{', '.join(MECHANISMS)}"
        )
        return
    option = f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS_OPTION}"
    module = settings.login_module(mechanism)
    if module is None:
        yield f"{option} is needed by the listener {listener} for {mechanism}, such as: {needed} required;"
    elif module.name != needed:
        yield f"{option} must be of the login module {needed}"
    yield from handler_problems(mechanism, settings)
