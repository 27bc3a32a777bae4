"""The options by which a command of the command line finds its cluster, and the connection they stand for.

A broker's address comes from `--bootstrap-server`, else from MUSTER_BOOTSTRAP, else from the file of
`--command-config`, else it is this machine's own.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster.client_properties import ClientPropertiesError, ClientSettings, read_client_settings
from muster.cluster import DEFAULT_BOOTSTRAP, Cluster, connected
from muster.durations import parse_timeout
from muster.usage import UsageError


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The options that say where the cluster is and how to speak to it."""

    bootstrap: Annotated[
        str | None,
        Parameter(
            name=("--bootstrap-server", "--bootstrap"),
            env_var="MUSTER_BOOTSTRAP",
            help=f"host:port of any broker [default: {DEFAULT_BOOTSTRAP}]",
        ),
    ] = None
    command_config: Annotated[
        Path | None, Parameter(help="properties of a Kafka client: timeouts, client id, SASL, TLS")
    ] = None

    def settings(self) -> ClientSettings:
        """What the properties file says, or the defaults. Raises UsageError."""
        if self.command_config is None:
            return ClientSettings()
        try:
            return read_client_settings(self.command_config)
        except ClientPropertiesError as error:
            raise UsageError(str(error)) from None

    def connected(self) -> AbstractAsyncContextManager[Cluster]:
        """A connection to the cluster. Raises UsageError, and ClusterError once it is entered."""
        settings = self.settings()
        return connected(self.bootstrap or settings.bootstrap or DEFAULT_BOOTSTRAP, settings)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(Endpoint):
    """As `Endpoint`, with how long to wait for an answer."""

    timeout: Annotated[
        str | None,
        Parameter(
            help="for an answer, and for a coordinator that loads: 5s, or 5000, which is ms [default: 15s]"
        ),
    ] = None

    def settings(self) -> ClientSettings:
        """As of an `Endpoint`, with the timeout that was given. Raises UsageError."""
        settings = Endpoint.settings(self)
        if self.timeout is None:
            return settings
        try:
            timeout_ms = parse_timeout(self.timeout)
        except ValueError as error:
            raise UsageError(f"--timeout {error}") from None
        arguments = {**settings.arguments, "request_timeout_ms": timeout_ms}
        return replace(settings, timeout_ms=timeout_ms, arguments=arguments)
