"""Reads the properties file of a Kafka client (`--command-config`) as far as our connections can honour it.

Names and meanings are those of Kafka's Java client (AdminClientConfig) or of librdkafka, which share most; those
of security are read by `client_security`. What only a consumer or a producer has
a use for is passed over, so that the file of an application serves. Any other property that cannot be honoured is
refused by its name, since a setting that is passed over may be the one that keeps a password off the network; no
value is ever repeated, as it may be one. It opens no connection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coordinator.settings.properties import PropertiesError, read_properties_file
from coordinator.settings.providers import NAMES_OPTION, PREFIX, ProviderError, Providers
from muster.client_property_names import OF_LIBRDKAFKA, OF_NO_MEANING
from muster.client_security import HONOURED as OF_SECURITY
from muster.client_security import ClientPropertiesError, ClientSecurity, client_security

__all__ = [
    "DEFAULT_BOOTSTRAP",
    "ClientPropertiesError",
    "ClientSettings",
    "client_settings",
    "read_client_settings",
]

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_CLIENT_ID: Final = "muster"
DEFAULT_TIMEOUT_MS: Final = 15_000
"""How long one answer may take, and for how long a coordinator is asked again that loads or creates its topic."""
MAX_TIMEOUT_MS: Final = 2**31 - 1

_MILLISECONDS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
}
_BROKERS: Final = ("bootstrap.servers", "metadata.broker.list")  # The second is librdkafka's.
_HONOURED: Final = OF_SECURITY | {
    *_MILLISECONDS,
    *_BROKERS,
    "client.id",
    "default.api.timeout.ms",
    NAMES_OPTION,
}
_PASSED_OVER: Final = OF_NO_MEANING | OF_LIBRDKAFKA
_KNOWN_AND_REFUSED: Final = frozenset(
    {
        *("bootstrap.controllers", "plugin.library.paths", "security.providers"),
        *("sasl.login.class", "sasl.login.callback.handler.class", "sasl.client.callback.handler.class"),
        *("ssl.engine.factory.class", "enable.ssl.certificate.verification"),
    }
)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to connect: what a properties file and the command line say, or the defaults."""

    bootstrap: str | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further arguments of aiokafka's clients, by name."""
    passed_over: tuple[str, ...] = ()
    """The properties that were given and mean nothing here."""

    http_token: str | None = field(default=None, repr=False)
    """What the HTTP of a Muster is to be shown."""
    security: ClientSecurity = field(default_factory=ClientSecurity)

    @property
    def is_plaintext(self) -> bool:
        return self.security.is_plaintext

    def client_arguments(self) -> dict[str, Any]:
        """All arguments of an aiokafka client but for its bootstrap servers."""
        return {
            "client_id": DEFAULT_CLIENT_ID,
            "request_timeout_ms": min(DEFAULT_TIMEOUT_MS, self.timeout_ms),
            **self.arguments,
        }

    def for_librdkafka(self) -> dict[str, str]:
        """Settings of librdkafka's clients: security and the client id. Raises ClientPropertiesError."""
        return {**self._client_id(), **self.security.for_librdkafka()}

    def for_java(self) -> dict[str, str]:
        """Properties of Kafka's Java client: security and the client id. Raises ClientPropertiesError."""
        return {**self._client_id(), **self.security.for_java()}

    def _client_id(self) -> dict[str, str]:
        return {"client.id": self.arguments["client_id"]} if "client_id" in self.arguments else {}


def read_client_settings(path: Path) -> ClientSettings:
    """The settings in a properties file. Raises ClientPropertiesError."""
    try:
        entries = read_properties_file(path)
    except PropertiesError as error:
        raise ClientPropertiesError("; ".join(error.problems)) from None
    try:
        lines = {entry.name: entry.line for entry in entries}
        return client_settings({entry.name: entry.value.strip() for entry in entries}, lines)
    except ClientPropertiesError as error:
        raise ClientPropertiesError(f"{path}: {error}") from None


def client_settings(properties: Mapping[str, str], lines: Mapping[str, int] | None = None) -> ClientSettings:
    """The settings that these properties stand for. Raises ClientPropertiesError, which names those refused.

    `lines` are the properties' numbers in their file, for those whose names are not shown. Variables of
    configuration providers (KIP-421) are replaced first.
    """
    properties = _resolved(properties)
    if unknown := sorted(properties.keys() - _HONOURED - _PASSED_OVER):
        raise ClientPropertiesError(f"cannot be honoured here: {_shown(unknown, lines or {})}")
    arguments: dict[str, Any] = {
        argument: _milliseconds(name, properties[name])
        for name, argument in _MILLISECONDS.items()
        if name in properties
    }
    if "client.id" in properties:
        arguments["client_id"] = properties["client.id"]
    security = client_security(properties)
    arguments |= security.for_aiokafka()
    timeout_ms = DEFAULT_TIMEOUT_MS
    if "default.api.timeout.ms" in properties:
        timeout_ms = _milliseconds("default.api.timeout.ms", properties["default.api.timeout.ms"])
    passed_over = tuple(sorted(properties.keys() & _PASSED_OVER))
    brokers = [properties[name] for name in _BROKERS if name in properties]
    return ClientSettings(
        brokers[0] if brokers else None, timeout_ms, arguments, passed_over, security=security
    )


def _resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with the variables of providers replaced, and without the providers' own.

    As for the daemon a variable that cannot be replaced is a mistake. Raises ClientPropertiesError.
    """
    if NAMES_OPTION not in properties:
        return dict(properties)
    try:
        providers = Providers(properties, os.environ)
    except ProviderError as error:
        raise ClientPropertiesError(str(error)) from None
    resolved = {}
    for name, text in properties.items():
        if name.startswith(tuple(f"{PREFIX}{each}." for each in providers.names)):
            continue
        try:
            resolved[name] = providers.resolved(text)
        except ProviderError as error:
            raise ClientPropertiesError(f"{name}: {error}") from None
    return resolved


def _shown(unknown: Sequence[str], lines: Mapping[str, int]) -> str:
    """The names, but for what has not the words of one: that may be a password which stands alone on its line."""
    from coordinator.settings.kafka_names import IGNORED  # Needed only for mistakes, as is the next.
    from coordinator.settings.shown_names import may_be_shown

    known = _HONOURED | _PASSED_OVER | _KNOWN_AND_REFUSED | IGNORED
    shown = [name for name in unknown if may_be_shown(name, known)]
    hidden = sorted(lines.get(name, 0) for name in set(unknown) - set(shown))
    places = [f"line {line}, which is no setting" if line else "what is no setting" for line in hidden]
    return ", ".join(shown + places)


def _milliseconds(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MAX_TIMEOUT_MS:
        raise ClientPropertiesError(f"{name} must be a whole number from 1 to {MAX_TIMEOUT_MS}")
    return int(value)
