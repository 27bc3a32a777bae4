"""TLS for listeners of HTTP with https: their key and certificates, from the stores that Kafka's listeners have.

The settings are those of Kafka's listeners with `muster.http.` before them, and the certificate is renewed as
theirs are (T35 to T37). The loop's own TLS is used: a browser or a scraper that is refused comes again by itself,
so that an alert (T20) matters less than with Kafka's clients.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

import structlog

from coordinator.security.tls.options import tls_options
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.reloading import ReloadableContext
from coordinator.settings.model import Settings

PREFIX: Final = "muster.http."
ALLOWANCES: Final = ("ssl.allow.dn.changes", "ssl.allow.san.changes")
"""What a renewed certificate may lack is asked for once, for all listeners."""

log = structlog.get_logger("muster.http")


class HttpStores:
    """The key store of all https listeners, which is read again when the stores of Kafka's listeners are."""

    def __init__(self, settings: Settings) -> None:
        """Read the store. Raises TlsProblem."""

        def lookup(option: str) -> str | None:
            name = option if option in ALLOWANCES else PREFIX + option
            value = getattr(settings, name.replace(".", "_"), None)
            return None if value is None else str(value).lower() if option in ALLOWANCES else str(value)

        self._contexts = ReloadableContext(tls_options(lookup, client_auth=None))

    @property
    def context(self) -> ssl.SSLContext:
        """What connections are given that come now."""
        return self._contexts.current.context

    def reload(self, _texts: Mapping[str, str]) -> None:
        """Read the store again if its file has changed; on a thread. Says what has come of it."""
        try:
            if self._contexts.reload():
                log.info("certificates read again", listener="HTTP")
        except TlsProblem as problem:
            log.warning("certificates stay as they were", listener="HTTP", reason=str(problem))
