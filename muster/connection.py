"""The options by which a command of the command line finds its cluster, and the connection they stand for.

A broker's address comes from `--bootstrap-server`, else from MUSTER_BOOTSTRAP, else from the file of
`--command-config`, else it is this machine's own.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from muster.client_properties import ClientPropertiesError, ClientSettings, read_client_settings
from muster.cluster import DEFAULT_BOOTSTRAP, Cluster, connected
from muster.durations import parse_timeout
from muster.sentences import remark
from muster.usage import UsageError

BOOTSTRAP_VARIABLE: Final = "MUSTER_BOOTSTRAP"


TOKEN_VARIABLE: Final = "MUSTER_HTTP_TOKEN"
TOKEN_MAX: Final = 1024


def _token(file: Path | None) -> str | None:
    """The token in the file, else in the environment. Raises UsageError."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        with file.open(encoding="ascii") as opened:
            return opened.read(TOKEN_MAX + 2).strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"--http-token-file {file} cannot be read: {reason}") from None


@cache
def _say_passed_over(file: Path, names: tuple[str, ...]) -> None:
    """Say once what of a file means nothing here, however often it is connected."""
    remark(f"{file}: of no meaning here: {', '.join(names)}")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The options that say where the cluster is and how to speak to it."""

    bootstrap: Annotated[
        str | None,
        Parameter(
            name=("--bootstrap-server", "--bootstrap"),
            env_var=BOOTSTRAP_VARIABLE,
            help=f"host:port of any broker [default: {DEFAULT_BOOTSTRAP}]",
        ),
    ] = None
    command_config: Annotated[
        Path | None, Parameter(help="properties of a Kafka client: timeouts, client id, SASL, TLS")
    ] = None

    http_token_file: Annotated[
        Path | None,
        Parameter(
            env_var=f"{TOKEN_VARIABLE}_FILE",
            help=f"file with the token that a Muster's HTTP asks for, else {TOKEN_VARIABLE}",
        ),
    ] = None

    def settings(self) -> ClientSettings:
        """What the properties file says, or the defaults, and the token of HTTP. Raises UsageError."""
        settings = self._from_file()
        token = _token(self.http_token_file)
        return settings if token is None else replace(settings, http_token=token)

    def _from_file(self) -> ClientSettings:
        if self.command_config is None:
            return ClientSettings()
        try:
            settings = read_client_settings(self.command_config)
        except ClientPropertiesError as error:
            raise UsageError(str(error)) from None
        if settings.passed_over:
            _say_passed_over(self.command_config, settings.passed_over)
        return settings

    def refuse_beside_a_store(self, store: Path | None) -> None:
        """Raise UsageError if a cluster was given beside a store, of which none is asked; a variable is none."""
        is_given = self.bootstrap not in (None, os.environ.get(BOOTSTRAP_VARIABLE)) or self.command_config
        if store is not None and is_given:
            raise UsageError(
                "--store is read without a cluster: give no --bootstrap-server and no --command-config"
            )

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
