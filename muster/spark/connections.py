"""How Spark's Kafka source and our own clients beside it reach a cluster, by the properties file of a client.

The source is Java's client, ours are librdkafka: each gets the same login and the same certificates by its own
names. Files that the properties name have to be where the client runs, on executors too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster.client_properties import (
    DEFAULT_BOOTSTRAP,
    ClientPropertiesError,
    ClientSettings,
    read_client_settings,
)

__all__ = ["ClientConnection", "ClientPropertiesError", "client_connection", "librdkafka_security"]


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """A cluster's address, and what each kind of client is to be given beside it."""

    bootstrap: str
    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    java: Mapping[str, str] = field(default_factory=dict, repr=False)

    def source_options(self) -> dict[str, str]:
        """Options of Spark's Kafka source."""
        return {f"kafka.{name}": value for name, value in self.java.items()}


def client_connection(bootstrap: str | None, command_config: Path | None) -> ClientConnection:
    """The connection that the options stand for; the file may name the brokers. Raises ClientPropertiesError."""
    settings = ClientSettings() if command_config is None else read_client_settings(command_config)
    return ClientConnection(
        bootstrap or settings.bootstrap or DEFAULT_BOOTSTRAP, settings.for_librdkafka(), settings.for_java()
    )


def librdkafka_security(command_config: str | os.PathLike[str] | None) -> dict[str, str]:
    """What a properties file says of security, as librdkafka's settings. Raises ClientPropertiesError."""
    if command_config is None:
        return {}
    return read_client_settings(Path(command_config)).security.for_librdkafka()
