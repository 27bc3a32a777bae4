"""Reads the properties file of a Kafka client (`--command-config`) as far as our connections can honour it.

Names and meanings are Kafka's (AdminClientConfig, SslConfigs, SaslConfigs). What only a consumer or a producer has
a use for is passed over, so that the file of an application serves. Any other property that cannot be honoured is
refused by its name, since a setting that is passed over may be the one that keeps a password off the network; no
value is ever repeated, as it may be one. It opens no connection, but reads certificates.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coordinator.settings.properties import PropertiesError, read_properties_file
from muster.client_property_names import OF_NO_MEANING

DEFAULT_CLIENT_ID: Final = "muster"
DEFAULT_TIMEOUT_MS: Final = 15_000
"""How long one answer may take, and for how long a coordinator is asked again that loads or creates its topic."""
MAX_TIMEOUT_MS: Final = 2**31 - 1

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_MILLISECONDS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
}
_HONOURED: Final = frozenset(
    {
        *_MILLISECONDS,
        "bootstrap.servers",
        "client.id",
        "default.api.timeout.ms",
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
    }
)
_JAAS_OPTION: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


class ClientPropertiesError(ValueError):
    """The file cannot be read, or has a property that is refused; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to connect: what a properties file and the command line say, or the defaults."""

    bootstrap: str | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of aiokafka's clients, by name."""
    passed_over: tuple[str, ...] = ()
    """The properties that were given and mean nothing here."""

    @property
    def is_plaintext(self) -> bool:
        return bool(self.arguments.get("security_protocol", PLAINTEXT) == PLAINTEXT)

    def client_arguments(self) -> dict[str, Any]:
        """All arguments of an aiokafka client but for its bootstrap servers."""
        return {
            "client_id": DEFAULT_CLIENT_ID,
            "request_timeout_ms": min(DEFAULT_TIMEOUT_MS, self.timeout_ms),
            **self.arguments,
        }


def read_client_settings(path: Path) -> ClientSettings:
    """The settings in a properties file. Raises ClientPropertiesError."""
    try:
        entries = read_properties_file(path)
    except PropertiesError as error:
        raise ClientPropertiesError("; ".join(error.problems)) from None
    try:
        return client_settings({entry.name: entry.value.strip() for entry in entries})
    except ClientPropertiesError as error:
        raise ClientPropertiesError(f"{path}: {error}") from None


def client_settings(properties: Mapping[str, str]) -> ClientSettings:
    """The settings that these properties stand for. Raises ClientPropertiesError, which names those refused."""
    if unknown := sorted(properties.keys() - _HONOURED - OF_NO_MEANING):
        raise ClientPropertiesError(f"cannot be honoured here: {', '.join(unknown)}")
    arguments: dict[str, Any] = {
        argument: _milliseconds(name, properties[name])
        for name, argument in _MILLISECONDS.items()
        if name in properties
    }
    if "client.id" in properties:
        arguments["client_id"] = properties["client.id"]
    protocol = properties.get("security.protocol", PLAINTEXT).upper()
    if protocol not in PROTOCOLS:
        raise ClientPropertiesError(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
    arguments["security_protocol"] = protocol
    arguments |= _sasl_arguments(properties, protocol)
    _refuse_without("ssl.", properties, protocol in (SSL, SASL_SSL), "SSL or SASL_SSL")
    if protocol in (SSL, SASL_SSL):
        arguments["ssl_context"] = _ssl_context(properties)
    timeout_ms = DEFAULT_TIMEOUT_MS
    if "default.api.timeout.ms" in properties:
        timeout_ms = _milliseconds("default.api.timeout.ms", properties["default.api.timeout.ms"])
    passed_over = tuple(sorted(properties.keys() & OF_NO_MEANING))
    return ClientSettings(properties.get("bootstrap.servers"), timeout_ms, arguments, passed_over)


def _milliseconds(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MAX_TIMEOUT_MS:
        raise ClientPropertiesError(f"{name} must be a whole number from 1 to {MAX_TIMEOUT_MS}")
    return int(value)


def _refuse_without(prefix: str, properties: Mapping[str, str], is_used: bool, wanted: str) -> None:
    """A password or a truststore that is not used means that security.protocol was forgotten."""
    unused = sorted(name for name in properties if name.startswith(prefix))
    if unused and not is_used:
        raise ClientPropertiesError(f"{', '.join(unused)}: of no effect unless security.protocol is {wanted}")


def _sasl_arguments(properties: Mapping[str, str], protocol: str) -> dict[str, Any]:
    is_used = protocol in (SASL_PLAINTEXT, SASL_SSL)
    _refuse_without("sasl.", properties, is_used, "SASL_SSL or SASL_PLAINTEXT")
    if not is_used:
        return {}
    mechanism = properties.get("sasl.mechanism", "GSSAPI")  # Kafka's default.
    if mechanism not in LOGIN_MODULES:
        raise ClientPropertiesError(f"sasl.mechanism must be one of {', '.join(LOGIN_MODULES)} here")
    module, _, options = properties.get("sasl.jaas.config", "").partition(" ")
    given = {name: re.sub(r"\\(.)", r"\1", text) for name, text in _JAAS_OPTION.findall(options)}
    if module != LOGIN_MODULES[mechanism] or given.keys() != {"username", "password"}:
        wanted = f'{LOGIN_MODULES[mechanism]} required username="..." password="...";'
        raise ClientPropertiesError(f"sasl.jaas.config must be {wanted}")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": given["username"],
        "sasl_plain_password": given["password"],
    }


def _ssl_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Trust as the properties say, or else as the system does; PEM only, for Python reads nothing else."""
    for store in ("truststore", "keystore"):
        if f"ssl.{store}.location" in properties and properties.get(f"ssl.{store}.type", "JKS") != "PEM":
            raise ClientPropertiesError(
                f"ssl.{store}.location: only PEM can be read; set ssl.{store}.type=PEM"
            )
    trusted, inline = "ssl.truststore.location", "ssl.truststore.certificates"
    context: ssl.SSLContext = _loaded(
        trusted if trusted in properties else inline,
        lambda: ssl.create_default_context(cafile=properties.get(trusted), cadata=properties.get(inline)),
    )
    if keystore := properties.get("ssl.keystore.location"):
        password = properties.get("ssl.key.password", "")  # Without one the terminal would be asked.
        _loaded("ssl.keystore.location", lambda: context.load_cert_chain(keystore, password=password))
    elif "ssl.key.password" in properties:
        raise ClientPropertiesError("ssl.key.password: there is no ssl.keystore.location that it would open")
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", ""):
        raise ClientPropertiesError("ssl.endpoint.identification.algorithm must be https or empty")
    context.check_hostname = algorithm == "https"
    if "ssl.enabled.protocols" in properties:
        names = [name.strip() for name in properties["ssl.enabled.protocols"].split(",")]
        if not TLS_VERSIONS.keys() >= set(names):
            raise ClientPropertiesError(f"ssl.enabled.protocols may have {', '.join(TLS_VERSIONS)} alone")
        versions = [TLS_VERSIONS[name] for name in names]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
    return context


def _loaded(name: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError.
        reason = error.strerror if isinstance(error, OSError) else None
        raise ClientPropertiesError(f"{name} cannot be used: {reason or type(error).__name__}") from None
